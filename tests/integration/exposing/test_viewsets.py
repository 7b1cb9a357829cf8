"""A viewset as tools responds like its HTTP API, for every kind of user."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection
from rest_framework import viewsets
from rest_framework.test import APIClient

from mcp_app import expose
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.exposure.viewsets.calls import STATUS
from mcp_app.checks import configuration, schemas
from mcp_app.doctor import Installation, Level, code
from mcp_app.testing import Client, RequestError, call_tool
from tests.integration.exposing import hostile
from tests.integration.exposing.shop import Customer, CustomerViewSet, Order, OrderViewSet, UndoneViewSet

KINDS = ("nobody", "reader", "writer", "root")
ACTIONS = (
    "list",
    "retrieve",
    "create",
    "update",
    "partial_update",
    "destroy",
    "mark_paid",
    "totals",
    "line",
    "label",
    "broken",
)
NEW = {"customer": 1, "number": "N1", "total": "2.50"}
# (tool, arguments, method, path with query, body): one request in two notations.
REQUESTS: tuple[tuple[str, dict[str, Any], str, str, Any], ...] = (
    ("orders_list", {}, "get", "", None),
    ("orders_list", {"page": 2, "size": 3, "search": "a00", "ordering": "-total"}, "get",
     "?page=2&size=3&search=a00&ordering=-total", None),
    ("orders_list", {"page": 99}, "get", "?page=99", None),
    ("orders_retrieve", {"pk": 1}, "get", "1/", None),
    ("orders_retrieve", {"pk": 3}, "get", "3/", None),
    ("orders_retrieve", {"pk": 999}, "get", "999/", None),
    ("orders_create", NEW, "post", "", NEW),
    ("orders_create", {"customer": 99, "number": "X1"}, "post", "", {"customer": 99, "number": "X1"}),
    ("orders_partial_update", {"pk": 2, "total": 1.25, "extra": None}, "patch", "2/",
     {"total": 1.25, "extra": None}),
    ("orders_update", {"pk": 1, **NEW, "number": "A0001"}, "put", "1/", {**NEW, "number": "A0001"}),
    ("orders_mark_paid", {"pk": 1}, "post", "1/mark_paid/", {}),
    ("orders_mark_paid", {"pk": 1, "number": "wrong"}, "post", "1/mark_paid/", {"number": "wrong"}),
    ("orders_totals", {}, "get", "totals/", None),
    ("orders_line", {"pk": 2, "line": "7"}, "get", "2/lines/7/", None),
    ("orders_destroy", {"pk": 2}, "delete", "2/", None),
)  # fmt: skip


def _http(user: Any, method: str, path: str, body: Any) -> tuple[int, Any]:
    client = APIClient()
    if not user.is_anonymous:
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    sent = {} if body is None else {"data": body, "format": "json"}
    answer = getattr(client, method)(f"/v1/orders/{path}", **sent)
    return answer.status_code, answer.json() if answer.content else None


def _tool(user: Any, name: str, arguments: dict[str, Any]) -> tuple[int, Any]:
    result = call_tool(name, arguments, user=None if user.is_anonymous else user)
    status = result["_meta"][STATUS]
    assert bool(result.get("isError")) is (status >= 400)
    return status, result.get("structuredContent")


def _rows() -> list[Any]:
    return list(Order.objects.order_by("pk").values())


@pytest.mark.requirement("INT-41")
@pytest.mark.parametrize("request_of", REQUESTS, ids=lambda each: f"{each[2]} {each[3]}")
def test_tool_has_the_status_and_body_of_the_http_api_for_every_user(
    shop: dict[str, Any], request_of: tuple[str, dict[str, Any], str, str, Any]
) -> None:
    expose.viewset(OrderViewSet, actions=ACTIONS, prefix="orders")
    name, arguments, method, path, body = request_of
    for kind in KINDS:
        before = _rows()
        expected = _http(shop[kind], method, path, body)
        after = _rows()
        _restore(before)
        status, found = _tool(shop[kind], name, arguments)
        assert (kind, status) == (kind, expected[0])
        assert _shape(found, expected[1]) == _shape(expected[1], expected[1])
        assert [{**row, "id": 0} for row in _rows()] == [{**row, "id": 0} for row in after]
        _restore(before)


def _restore(rows: list[Any]) -> None:
    Order.objects.all().delete()
    Order.objects.bulk_create(Order(**row) for row in rows)


def _shape(body: Any, http: Any) -> Any:
    """Return the body with list members, new keys and auth types made comparable."""
    if isinstance(http, list) and isinstance(body, dict):
        body = body["result"]
    if isinstance(body, dict):
        return {
            name: value
            for name, value in body.items()
            if name != "auth" and (name, http.get("number")) != ("id", "N1")
        }
    return body


@pytest.mark.requirement("INT-40")
def test_exposing_and_calling_does_not_change_the_class(shop: dict[str, Any]) -> None:
    class Fresh(OrderViewSet):
        pass

    import_module(django_settings.ROOT_URLCONF)  # The URLconf modifies the classes it routes to.
    before = [
        dict(vars(each)) for each in (Fresh, OrderViewSet, viewsets.ModelViewSet, viewsets.ViewSetMixin)
    ]
    expose.viewset(Fresh, actions=["list", "create", "mark_paid"], prefix="fresh")
    assert call_tool("fresh_list", user=shop["root"])["structuredContent"]["count"] == 12
    after = [dict(vars(each)) for each in (Fresh, OrderViewSet, viewsets.ModelViewSet, viewsets.ViewSetMixin)]
    assert after == before


@pytest.mark.requirement("INT-42")
def test_view_receives_the_user_and_principal_of_the_caller(shop: dict[str, Any]) -> None:
    expose.viewset(OrderViewSet, actions=["mark_paid"], prefix="orders")
    result = call_tool("orders_mark_paid", {"pk": 1}, user=shop["root"])
    assert result["structuredContent"] == {"status": "paid", "auth": "Principal"}


@pytest.mark.requirement("INT-42")
def test_deactivated_account_is_refused(shop: dict[str, Any]) -> None:
    expose.viewset(OrderViewSet, actions=["list"], prefix="orders")
    root = shop["root"]
    type(root).objects.update(is_active=False)
    result = call_tool("orders_list", user=root)
    assert result["content"][0]["text"] == "This account is not active."


def test_anonymous_call_returns_the_error_and_status_of_the_view(shop: dict[str, Any]) -> None:
    expose.viewset(OrderViewSet, actions=["list"], prefix="orders")
    result = call_tool("orders_list")
    assert result["isError"]
    assert result["content"][0]["text"] == (
        '401 Unauthorized: {"detail":"Authentication credentials were not provided."}'
    )
    assert result["_meta"] == {STATUS: 401}


def test_annotations_follow_the_http_method(shop: dict[str, Any]) -> None:
    expose.viewset(OrderViewSet, actions=ACTIONS, prefix="orders")
    hints = {name: tool.wire["annotations"] for name, tool in registry.tools.items()}
    assert [name for name, each in hints.items() if each["readOnlyHint"]] == [
        "orders_list", "orders_retrieve", "orders_totals", "orders_line", "orders_label",
    ]  # fmt: skip
    assert hints["orders_destroy"]["destructiveHint"]
    assert hints["orders_create"]["destructiveHint"] is False
    assert "destructiveHint" not in hints["orders_mark_paid"]


def test_schema_omits_read_only_members_and_patch_requires_only_the_key(shop: dict[str, Any]) -> None:
    expose.viewset(OrderViewSet, actions=ACTIONS, prefix="orders")
    schemas = {name: tool.read().wire["inputSchema"] for name, tool in registry.tools.items()}
    assert "label" not in schemas["orders_create"]["properties"]
    assert schemas["orders_create"]["required"] == ["customer", "number"]
    assert schemas["orders_partial_update"]["required"] == ["pk"]
    assert schemas["orders_mark_paid"]["required"] == ["pk"]
    assert set(schemas["orders_list"]["properties"]) == {"ordering", "page", "search", "size"}
    assert set(schemas["orders_line"]["required"]) == {"pk", "line"}
    assert all(schema["additionalProperties"] is False for schema in schemas.values())


@pytest.mark.requirement("INT-48")
@pytest.mark.parametrize("atomic", [False, True])
def test_refused_request_commits_or_rolls_back_as_over_http(
    shop: dict[str, Any], monkeypatch: pytest.MonkeyPatch, atomic: bool
) -> None:
    expose.viewset(UndoneViewSet, actions=["create"], prefix="undone")
    # Connections of all threads share this dict.
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    result = call_tool("undone_create", {"customer": 1, "number": "U1"}, user=shop["root"])
    assert result["_meta"] == {STATUS: 400}
    assert Order.objects.filter(number="U1").exists() is not atomic


def test_exception_of_the_view_is_an_incident_without_details(shop: dict[str, Any]) -> None:
    expose.viewset(OrderViewSet, actions=["broken"], prefix="orders")
    result = call_tool("orders_broken", user=shop["root"])
    assert "incident" in result["content"][0]["text"]
    assert "secret" not in json.dumps(result)


def test_string_response_becomes_one_text_block(shop: dict[str, Any]) -> None:
    expose.viewset(OrderViewSet, actions=["label"], prefix="orders")
    assert call_tool("orders_label")["content"] == [{"type": "text", "text": "plain words"}]


@pytest.mark.requirement("INT-41")
def test_throttles_count_tool_calls(shop: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from django.core.cache import cache

    from tests.integration.exposing.shop import Often

    cache.clear()
    monkeypatch.setattr(Often, "rate", "1/day")
    expose.viewset(OrderViewSet, actions=["totals"], prefix="orders")
    assert not call_tool("orders_totals", user=shop["root"]).get("isError")
    refused = call_tool("orders_totals", user=shop["root"])
    cache.clear()
    assert refused["_meta"] == {STATUS: 429}
    assert "throttled" in refused["content"][0]["text"]


def test_viewset_without_routes_is_exposed(shop: dict[str, Any]) -> None:
    expose.viewset(CustomerViewSet, actions=["list"])
    result = call_tool("customer_list")["structuredContent"]
    assert result["result"] == list(Customer.objects.order_by("pk").values("id", "name"))


def test_permission_hides_the_tools(shop: dict[str, Any]) -> None:
    expose.viewset(CustomerViewSet, actions=["list"], permission="exposed_shop.view_order")
    assert not call_tool("customer_list", user=shop["reader"]).get("isError")
    with pytest.raises(RequestError, match="Unknown tool"):
        call_tool("customer_list")


def test_prepare_receives_the_request_and_context(shop: dict[str, Any]) -> None:
    seen = []

    def prepare(request: Any, context: Any) -> None:
        request.tenant = "acme"
        seen.append((request.path, request.GET.dict(), context.user.username))

    expose.viewset(OrderViewSet, actions=["list"], prefix="orders", prepare=prepare)
    call_tool("orders_list", {"page": 2}, user=shop["root"])
    assert seen == [("/v1/orders/", {"page": "2"}, "root")]


@pytest.mark.parametrize(
    ("name", "given", "ended"),
    [("retrieve", {"pk": 0}, 404), ("list", {}, 200)],
    ids=["refused", "answered"],
)
def test_view_runs_inside_the_context_manager_of_prepare(
    shop: dict[str, Any], name: str, given: dict[str, Any], ended: int
) -> None:
    seen: list[str] = []

    @contextmanager
    def prepare(request: Any, context: Any) -> Iterator[None]:
        seen.append("begin")
        try:
            yield
        finally:
            seen.append("end")

    class Watched(OrderViewSet):
        def initial(self, *arguments: Any, **keywords: Any) -> None:
            seen.append("view")
            super().initial(*arguments, **keywords)

    expose.viewset(Watched, actions=[name], prefix="orders", prepare=prepare)
    result = call_tool(f"orders_{name}", given, user=shop["root"])
    assert (result["_meta"]["django-mcp/httpStatus"], seen) == (ended, ["begin", "view", "end"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"actions": ["lst"]}, "has no 'lst'. Did you mean 'list'?"),
        ({"actions": []}, "actions is empty"),
        ({"actions": "list"}, "got the string 'list'"),
        ({"actions": ["list"], "input_schemas": {"create": {}}}, "input_schemas has no 'create'"),
    ],
)
def test_invalid_viewset_options_are_refused_at_registration(arguments: dict[str, Any], words: str) -> None:
    with registry.isolated(), pytest.raises(DefinitionError, match="OrderViewSet") as refused:
        expose.viewset(OrderViewSet, **arguments)
    assert words in str(refused.value)


def test_unknown_option_is_refused() -> None:
    with registry.isolated(), pytest.raises(TypeError, match="unknown option 'read_only'"):
        expose.viewset(OrderViewSet, actions=["list"], read_only=True)  # type: ignore[call-arg]


@pytest.mark.requirement("INT-47")
def test_unreadable_schema_hides_its_tool_only_and_names_the_action(
    shop: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    class Needy(OrderViewSet):
        def get_serializer_class(self) -> Any:
            return {"root": self.serializer_class}[self.request.user.username]

    expose.viewset(Needy, actions=["list", "create"], prefix="needy")
    assert call_tool("needy_list", user=shop["root"])["structuredContent"]["count"] == 12
    with pytest.raises(RequestError, match="Unknown tool"):
        call_tool("needy_create", NEW, user=shop["root"])
    (logged,) = {record.getMessage() for record in caplog.records if "needy_create" in record.getMessage()}
    assert re.search(r"Needy\.create: .*input_schemas=\{'create'", logged)


@pytest.mark.requirement("INT-47")
def test_input_schemas_option_replaces_an_unreadable_schema(shop: dict[str, Any]) -> None:
    class Needy(OrderViewSet):
        def get_serializer_class(self) -> Any:
            return {"root": self.serializer_class}[self.request.user.username]

    members = {"customer": {"type": "integer"}, "number": {"type": "string"}}
    written = {"type": "object", "properties": members, "required": ["customer", "number"]}
    expose.viewset(Needy, actions=["create"], prefix="needy", input_schemas={"create": written})
    result = call_tool("needy_create", {"customer": 1, "number": "H1"}, user=shop["root"])
    assert result["_meta"] == {STATUS: 201}
    assert result["structuredContent"]["number"] == "H1"


@pytest.mark.requirement("INT-41", "INT-44")
async def test_hostile_arguments_reach_no_hidden_data_or_failure(
    shop: dict[str, Any],
) -> None:
    expose.viewset(OrderViewSet, actions=[name for name in ACTIONS if name != "broken"], prefix="orders")
    hidden = {f"A{number:04}" for number in range(2, 12, 3)}
    tools = {name: tool.read().wire["inputSchema"] for name, tool in registry.tools.items()}
    reached = 0
    async with Client(user=shop["writer"]) as client:
        for name, arguments in hostile.calls(tools, 300):
            own = {str(key) async for key in _own(shop["writer"]).values_list("pk", flat=True)}
            result = await client.call_tool(name, arguments)
            text, status = json.dumps(result), result.get("_meta", {}).get(STATUS, 400)
            reached += STATUS in result.get("_meta", {})
            assert status < 500, (name, arguments)
            assert not any(word in text for word in (*hidden, "incident", "7.77", "customer-secret", "md5$"))
            if "pk" in tools[name]["properties"] and status < 400:
                assert str(arguments["pk"]) in own, (name, arguments)
    assert reached > 200


def _own(user: Any) -> Any:
    """Return the orders that the HTTP API permits to the user."""
    return Order.objects.filter(customer__owner=user).exclude(status="lost")


def test_path_argument_that_leads_elsewhere_returns_404(shop: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"pk": {"type": "string"}}, "required": ["pk"]}
    expose.viewset(OrderViewSet, actions=["retrieve"], prefix="orders", input_schemas={"retrieve": schema})
    for wrong in ("totals", "1/lines/3", "../undone/1", "", "1.json", "1?size=3"):
        assert call_tool("orders_retrieve", {"pk": wrong}, user=shop["root"])["_meta"] == {STATUS: 404}, wrong
    assert call_tool("orders_retrieve", {"pk": "1"}, user=shop["root"])["_meta"] == {STATUS: 200}


def test_links_use_the_public_url_if_the_host_is_allowed(shop: dict[str, Any], settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["other.example", "api.acme.example"]
    settings.MCP = {**settings.MCP, "PUBLIC_URL": "https://api.acme.example:8443"}
    expose.viewset(OrderViewSet, actions=["list"], prefix="orders")
    page = call_tool("orders_list", user=shop["root"])["structuredContent"]
    assert page["next"] == "https://api.acme.example:8443/v1/orders/?page=2"


@pytest.mark.requirement("INT-48")
def test_async_action_is_refused_at_registration() -> None:
    class Waiting(OrderViewSet):
        async def list(self, request: Any) -> Any:  # type: ignore[override]
            return None

    with registry.isolated(), pytest.raises(DefinitionError, match=r"Waiting\.list: async actions cannot"):
        expose.viewset(Waiting, actions=["list"])


@pytest.mark.requirement("INT-50")
@pytest.mark.parametrize("library", ["rest_framework", "drf_spectacular"])
def test_missing_library_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    from importlib.util import find_spec

    from mcp_app import optional_parts

    monkeypatch.setattr(
        optional_parts, "find_spec", lambda name: None if name == library else find_spec(name)
    )
    with pytest.raises(DefinitionError) as refused:
        expose.viewset(OrderViewSet, actions=["list"])
    assert str(refused.value) == f"expose.viewset needs {library}: pip install 'django-mcp-app[api]'"


@pytest.mark.process
@pytest.mark.requirement("INT-50")
def test_models_need_no_rest_framework() -> None:
    code = """
import sys, django
from django.conf import settings

apps = ["django.contrib.auth", "django.contrib.contenttypes", "mcp_app"]
settings.configure(INSTALLED_APPS=apps, DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3"}})
django.setup()
from django.contrib.auth.models import Group
from mcp_app import expose

expose.model(Group, fields=["name"])
print(sorted({"rest_framework", "drf_spectacular"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.requirement("INT-46")
def test_check_lists_actions_open_to_all_callers() -> None:
    with registry.isolated():
        expose.viewset(OrderViewSet, actions=["list", "label"], prefix="orders")
        expose.viewset(CustomerViewSet, actions=["list"])
        expose.viewset(CustomerViewSet, actions=["list"], prefix="closed", permission="auth.view_user")
        (found,) = configuration.exposed_views_ask_for_something()
    assert found.id == "mcp_app.W025"
    assert found.msg.endswith(": orders_label, customer_list.")
    assert configuration.exposed_views_ask_for_something() == []


@pytest.mark.requirement("INT-49")
def test_doctor_suggests_code_for_unexposed_viewsets(shop: dict[str, Any]) -> None:
    with registry.isolated():
        (found,) = code.viewsets(Installation())
        assert "expose.viewset(OrderViewSet, actions=['list', 'create'," in found.text
        assert "expose.viewset(UndoneViewSet, actions=" in found.text
        expose.viewset(OrderViewSet, actions=["list"])
        (found,) = code.viewsets(Installation())
        assert "OrderViewSet" not in found.text
        compile(found.text.removeprefix("not offered as tools: "), "mcp.py", "eval")
        expose.viewset(UndoneViewSet, actions=["list"], prefix="undone")
        assert list(code.viewsets(Installation())) == []


@pytest.mark.requirement("INT-47")
def test_unreadable_schema_is_an_error_of_the_doctor() -> None:
    class Needy(OrderViewSet):
        def get_serializer_class(self) -> Any:
            return {"root": self.serializer_class}[self.request.user.username]

    with registry.isolated():
        expose.viewset(Needy, actions=["create"], prefix="needy")
        (found,) = code.schemas(Installation())
        assert (found.level, found.check) == (Level.ERROR, "code.schemas")
        assert "Needy.create: no schema of its arguments can be made" in found.text
        (warned,) = schemas.schemas_can_be_read()
        assert warned.id == "mcp_app.W034"
    assert list(code.schemas(Installation())) == schemas.schemas_can_be_read() == []


@pytest.mark.requirement("INT-51")
def test_chosen_fields_reduce_rows_pages_and_nothing_else(shop: dict[str, Any]) -> None:
    actions = ["list", "retrieve", "totals", "create", "label"]
    expose.viewset(OrderViewSet, actions=actions, prefix="orders", choose_fields=True)
    expose.viewset(CustomerViewSet, actions=["list"], prefix="customers", choose_fields=True)
    pick = {"fields": ["number", "status"]}
    whole = call_tool("orders_list", {"size": 2}, user=shop["root"])["structuredContent"]
    found = call_tool("orders_list", {"size": 2, **pick}, user=shop["root"])["structuredContent"]
    rows = [{name: row[name] for name in pick["fields"]} for row in whole["results"]]
    assert {**found, "next": None} == {**whole, "next": None, "results": rows}
    row = call_tool("orders_retrieve", {"pk": 1, **pick}, user=shop["root"])["structuredContent"]
    assert row.keys() == {"number", "status"}
    named = call_tool("customers_list", {"fields": ["name"]})["structuredContent"]["result"]
    assert named
    assert {*named[0]} == {"name"}
    missing = call_tool("orders_retrieve", {"pk": 999, **pick}, user=shop["root"])
    assert missing["structuredContent"].keys() == {"detail"}
    assert "id" in call_tool("orders_retrieve", {"pk": 1}, user=shop["root"])["structuredContent"]


@pytest.mark.requirement("INT-51")
async def test_fields_are_offered_where_a_serializer_is_read(shop: dict[str, Any]) -> None:
    actions = ["list", "retrieve", "totals", "create", "label"]
    expose.viewset(OrderViewSet, actions=actions, prefix="orders", choose_fields=True)
    expose.viewset(CustomerViewSet, actions=["list"], prefix="customers")
    async with Client() as client:
        schemas = {tool["name"]: tool["inputSchema"]["properties"] for tool in await client.list_tools()}
        offered = {name for name, properties in schemas.items() if "fields" in properties}
        assert offered == {"orders_list", "orders_retrieve"}
        names = ["id", "customer", "number", "total", "status", "due", "gift", "extra", "label"]
        assert schemas["orders_list"]["fields"]["items"]["enum"] == names
        result = await client.call_tool("orders_list", {"fields": ["cost"]})
        assert result["isError"]
