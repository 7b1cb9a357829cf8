"""The form of HTTP tools: filled from curl or HAR, previewed, tried and published (INT-14, INT-15)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client as Browser
from django.urls import reverse

from mcp_app.catalogue.changes.drafts import save_draft
from mcp_app.catalogue.changes.services import save_entry
from mcp_app.catalogue.schemas.strict_json import check_storable
from mcp_app.catalogue.sources.http.source import HTTP
from mcp_app.credentials.services import save_credential
from mcp_app.models import AuditEvent, Draft, Tool
from tests.servers.web_api import WebApi, web_api

pytestmark = pytest.mark.django_db(transaction=True)
ADD = reverse("admin:mcp_app_tool_http")
SECRET = "s3cret-0000-value"


@pytest.fixture
def api(settings: Any) -> Iterator[WebApi]:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",)}
    with web_api() as found:
        yield found


@pytest.fixture
def root(client: Browser, django_user_model: Any) -> Browser:
    client.force_login(django_user_model.objects.create_superuser("root", password="x"))
    return client


def entered(api: WebApi | None = None, **values: str) -> dict[str, str]:
    origin = api.origin if api is not None else "https://api.example.com"
    usual = {
        "method": "GET", "address": f"{origin}/orders/{{id}}?note={{note}}&v=2", "body_mode": "none",
        "mode": "auto", "timeout": "30", "retries": "0", "cache_seconds": "0", "name": "order",
        "description": "Look up an order.", "arguments": '{"id": "7", "note": "a b"}',
    }  # fmt: skip
    return {**usual, **values}


def post(browser: Browser, button: str, values: dict[str, str], address: str = ADD) -> Any:
    return browser.post(address, {**values, button: "1"})


@pytest.mark.requirement("INT-15")
def test_curl_line_fills_in_the_form_without_its_secrets(root: Browser) -> None:
    line = (
        f"curl -X POST 'https://api.example.com/v1/orders?api_key={SECRET}&v=2' "
        f"-H 'Authorization: Bearer {SECRET}' -H 'X-Tenant: a' "
        "-d '{\"note\": \"hi\"}' -H 'Content-Type: application/json'"
    )
    page = post(root, "_fill", {"paste": line})
    form = page.context["form"]
    found = {name: form[name].value() for name in ("method", "address", "headers", "body_mode")}
    assert found == {
        "method": "POST", "address": "https://api.example.com/v1/orders?v=2", "headers": "X-Tenant: a",
        "body_mode": "json",
    }  # fmt: skip
    assert json.loads(form["body"].value()) == {"note": "hi"}
    assert SECRET not in page.content.decode()
    assert "Left out, because it may be secret: Authorization, api_key" in page.content.decode()


@pytest.mark.requirement("INT-15")
def test_values_of_a_pasted_request_become_arguments_on_request(root: Browser) -> None:
    body = {"note": "hi", "count": 3, "paid": True, "price": 1.5, "tags": ["a"], "left": None}
    line = (
        f"curl 'https://api.example.com/v1/orders?state=open%20now&page' -d '{json.dumps(body)}' "
        "-H 'Content-Type: application/json'"
    )
    form = post(root, "_fill", {"paste": line, "as_arguments": "on"}).context["form"]
    assert form["address"].value() == "https://api.example.com/v1/orders?state={state}&page"
    shown = json.loads(form["body"].value())
    assert shown == {**{name: f"{{{name}}}" for name in body}, "tags": ["a"], "left": None}
    schema = json.loads(form["input_schema"].value())
    types = {name: (member["type"], member["default"]) for name, member in schema["properties"].items()}
    assert types == {
        "state": ("string", "open now"), "note": ("string", "hi"), "count": ("integer", 3),
        "paid": ("boolean", True), "price": ("number", 1.5),
    }  # fmt: skip
    assert "required" not in schema
    assert (form["name"].value(), form["as_arguments"].value()) == ("post_orders", True)


def test_preview_of_a_pasted_request_sends_its_values(root: Browser) -> None:
    line = """curl https://api.example.com/v1/orders -d '{"count": 5, "note": "hi"}'"""
    form = post(root, "_fill", {"paste": line, "as_arguments": "on"}).context["form"]
    shown = {name: form[name].value() for name in ("method", "address", "body_mode", "body")}
    again = {name: form[name].value() for name in ("input_schema", "schema_seen")}
    answer = post(root, "_live", {**entered(arguments="{}"), **shown, **again}).json()
    assert json.loads(answer["request"].partition("\n\n")[2]) == {"count": 5, "note": "hi"}
    assert {row["name"]: row["kind"] for row in answer["rows"]} == {"count": "integer", "note": "string"}


def test_preview_without_examples_sends_values_of_the_types(root: Browser) -> None:
    schema = '{"type": "object", "properties": {"count": {"type": "integer"}, "paid": {"type": "boolean"}}}'
    values = entered(
        method="POST", address="https://api.example.com/orders", body_mode="json", arguments="{}",
        body='{"count": "{count}", "paid": "{paid}", "note": "{note}"}', input_schema=schema,
    )  # fmt: skip
    text = post(root, "_live", values).json()["request"].partition("\n\n")[2]
    assert json.loads(text) == {"count": 1, "paid": True, "note": "{note}"}


def test_pasted_line_stays_without_its_secrets(root: Browser) -> None:
    line = (
        f"curl 'https://api.example.com/v1/orders?v=2' -H 'Authorization: Bearer {SECRET}' -H 'X-Tenant: a'"
    )
    page = post(root, "_fill", {"paste": line, "as_arguments": "on"})
    kept = page.context["form"]["paste"].value()
    assert kept == "curl -X GET 'https://api.example.com/v1/orders?v=2' -H 'X-Tenant: a'"
    assert SECRET not in page.content.decode()
    faulty = post(root, "_fill", {"paste": "wget https://x", "as_arguments": "on"}).context["form"]
    assert (faulty["paste"].value(), faulty["as_arguments"].value()) == ("wget https://x", True)
    unnamed = post(root, "_publish", {**entered(name=""), "paste": kept}).context["form"]
    assert (list(unnamed.errors), unnamed["paste"].value()) == (["name"], kept)
    assert root.get(ADD).context["form"]["as_arguments"].value() is True


def test_new_form_can_be_sent_as_it_is_shown(root: Browser) -> None:
    form = root.get(ADD).context["form"]
    shown = {name: form[name].value() for name in form.fields}
    given = {
        name: str(form.fields[name].prepare_value(value))
        for name, value in shown.items()
        if value is not None
    }
    given |= {name: form.fields[name].prepare_value(None) for name in ("input_schema", "output_schema")}
    answer = post(root, "_live", {**given, **entered(), "arguments": "{}"}).json()
    assert (answer["problem"], answer["arguments"]) == ("", ["id", "note"])


def test_faulty_paste_is_explained_beside_its_field(root: Browser) -> None:
    page = post(root, "_fill", {"paste": "wget https://x"})
    assert list(page.context["form"].errors) == ["paste"]


def test_preview_shows_the_request_with_example_values(root: Browser) -> None:
    shown = post(root, "_live", entered()).json()
    assert shown["request"] == "GET https://api.example.com/orders/7?v=2&note=a%20b"
    assert (shown["arguments"], shown["problem"]) == (["id", "note"], "")
    assert "path" in post(root, "_live", entered(address="https://a.example/../x")).json()["problem"] or True
    assert post(root, "_live", entered(address="x")).json()["problem"].startswith("URL: ")


@pytest.mark.requirement("INT-14")
def test_try_shows_request_raw_and_mapped_answer_and_is_audited(root: Browser, api: WebApi) -> None:
    save_credential(
        actor=None, name="shop", kind="api_key", secret={"value": SECRET}, origins=[api.origin],
        placement={"in": "query", "name": "key"},
    )  # fmt: skip
    api.says({"order": {"id": 7, "total": 3}})
    page = post(root, "_try", entered(api, credential="shop", mapping="order.total"))
    outcome = page.context["outcome"]
    assert (outcome.problem, json.loads(outcome.structured)) == ("", {"result": 3})
    [attempt] = outcome.attempts
    assert attempt["request"].startswith(f"GET {api.origin}/orders/7?v=2&note=a%20b&key=••••")
    assert json.loads(attempt["body"]) == {"order": {"id": 7, "total": 3}}
    assert f"key={SECRET}" in api.lines[0]
    assert SECRET not in page.content.decode()
    assert list(json.loads(page.context["form"]["input_schema"].value())["properties"]) == ["id", "note"]
    event = AuditEvent.objects.get(action="http_tool.tried")
    assert (event.object_key, event.detail["path"], event.detail["failed"]) == (
        "order",
        "/orders/{id}?v=2",
        False,
    )
    assert not Tool.objects.filter(name="order").exists()


@pytest.mark.requirement("INT-14")
def test_unsafe_method_asks_before_it_is_sent(root: Browser, api: WebApi) -> None:
    values = entered(
        api, method="POST", body_mode="json", body='{"note": "{note}"}', address=f"{api.origin}/orders"
    )
    page = post(root, "_try", values)
    assert (page.context["asks"], api.requests) == (True, [])
    page = post(root, "_try", {**values, "_sure": "1", "arguments": '{"note": "x"}'})
    assert page.context["outcome"].problem == ""
    assert json.loads(api.requests[0].body) == {"note": "x"}


def test_failed_try_shows_what_went_wrong(root: Browser, api: WebApi) -> None:
    api.says({"why": "no order"}, status="404 Not Found")
    outcome = post(root, "_try", entered(api)).context["outcome"]
    assert (outcome.problem, outcome.content) == ("The server answered 404 Not Found.", "")
    assert outcome.attempts[0]["status"] == 404
    assert "no order" in outcome.attempts[0]["body"]
    outcome = post(root, "_try", entered(api, arguments="{}")).context["outcome"]
    assert (outcome.problem, outcome.attempts) == (
        'enter a value for id in Test arguments, such as {"id":"id"}.',
        [],
    )


def test_failed_try_shows_the_mapped_error(root: Browser, api: WebApi) -> None:
    api.says({"why": "no order"}, status="404 Not Found")
    outcome = post(root, "_try", entered(api, error_mapping="why")).context["outcome"]
    assert (outcome.problem, outcome.content) == ("The server answered 404 Not Found.", "no order")


def test_preview_shows_arguments_without_a_value_in_braces(root: Browser) -> None:
    shown = post(root, "_live", entered(arguments="{}")).json()
    assert shown["request"] == "GET https://api.example.com/orders/{id}?v=2&note={note}"


def test_blocked_try_is_shown_as_not_sent(root: Browser, api: WebApi, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ()}
    page = post(root, "_try", entered(api))
    text = page.content.decode()
    assert (page.context["outcome"].sent, api.requests) == (False, [])
    assert text.count("Not sent: ") == text.count("The address is not on the public internet.") == 1
    assert "the setting EGRESS_ALLOW" in text
    assert f'href="{reverse("mcp_document", args=["http-tools.md"])}#private-networks"' in text
    assert "host name" not in text
    assert not any(title in text for title in ("Sent request", "Raw response", "Mapped result"))


def test_refused_answer_is_shown_as_sent_without_a_result(root: Browser, api: WebApi, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_RESULT_BYTES": 2_000}
    api.says({"long": "x" * 5_000})
    page = post(root, "_try", entered(api))
    text = page.content.decode()
    assert (page.context["outcome"].sent, len(api.requests)) == (True, 1)
    assert "is larger than" in page.context["outcome"].problem
    assert "Sent request" in text
    assert "Mapped result" not in text


@pytest.mark.parametrize("button", ["_publish", "_draft"])
def test_empty_form_marks_all_required_fields(root: Browser, button: str) -> None:
    page = post(root, button, entered(address="", name="", description="", arguments="{}"))
    form = page.context["form"]
    assert set(form.errors) == {"address", "name"}
    assert form.errors["name"] == ["This field is required."]
    text = page.content.decode()
    assert text.count('aria-required="true"') == text.count('<span aria-hidden="true">*</span>') == 2


def test_request_without_name_can_be_tried(root: Browser, api: WebApi) -> None:
    api.says({})
    page = post(root, "_try", entered(api, name=""))
    assert (page.context["form"].errors, page.context["outcome"].problem) == ({}, "")


def test_untried_request_is_published_only_after_a_warning(root: Browser, api: WebApi) -> None:
    api.says({"a": 1})
    page = post(root, "_publish", entered(api))
    assert (page.context["untried"], Tool.objects.exists()) == (True, False)
    tried = post(root, "_try", entered(api)).context["form"]["tried"].value()
    page = post(root, "_publish", entered(api, tried=tried, retries="1"))
    assert page.context["untried"]
    page = post(root, "_publish", entered(api, tried=tried))
    row = Tool.objects.get()
    assert page.headers["Location"] == reverse("admin:mcp_app_tool_change", args=[row.pk])
    assert (row.source, row.description, row.input_schema["required"]) == (
        "http",
        "Look up an order.",
        ["id"],
    )
    assert row.request["parameters"] == [
        {"argument": "id", "in": "path"},
        {"argument": "note", "in": "query"},
    ]


@pytest.mark.parametrize("name", ["a b", "taken"])
def test_errors_of_the_name_stand_beside_the_missing_test(name: str, root: Browser) -> None:
    post(root, "_untried", entered(name="taken"))
    page = post(root, "_publish", entered(name=name))
    assert (page.context["untried"], list(page.context["form"].errors)) == (True, ["name"])


def test_draft_is_saved_untried(root: Browser) -> None:
    page = post(root, "_draft", entered())
    draft = Draft.objects.get()
    assert page.headers["Location"] == reverse("admin:mcp_app_draft_change", args=[draft.pk])
    assert (draft.source, draft.key, Tool.objects.exists()) == ("http", "order", False)


def test_edited_draft_is_tested_and_saved_on_the_form_of_the_request(root: Browser, api: WebApi) -> None:
    page = post(root, "_draft", entered(api))
    draft = Draft.objects.get()
    edit = root.get(page.headers["Location"]).context["card"].edit_url
    assert edit == f"{ADD}?draft={draft.pk}"
    form = root.get(edit).context["form"]
    assert form["address"].value() == f"{api.origin}/orders/{{id}}?v=2&note={{note}}"
    api.says({"a": 1})
    seen = {"mcp-draft": f"{draft.pk}:{draft.version}"}
    tested = post(root, "_try", entered(api) | seen, edit)
    assert (tested.context["outcome"].problem, tested.context["draft"]) == ("", draft)
    assert post(root, "_publish", entered(api, description="New.") | seen, edit).status_code == 302
    again = Draft.objects.get()
    assert (again.pk, again.values["description"], Tool.objects.exists()) == (draft.pk, "New.", False)
    stale = post(root, "_draft", entered(api, description="Newer.") | seen, edit)
    assert stale.context["form"].non_field_errors()
    assert Draft.objects.get().values["description"] == "New."


def test_draft_of_a_stored_tool_keeps_its_other_changes_and_its_note(root: Browser) -> None:
    post(root, "_untried", entered())
    row = Tool.objects.get(name="order")
    changed = {**row.request, "path": "/v3/{id}"}
    note = {"note": "Why", "title": "Order"}
    draft = save_draft(kind=Tool, entry=row, actor=None, request=changed, **note)
    address = reverse("admin:mcp_app_tool_http_change", args=[row.pk])
    page = root.get(reverse("admin:mcp_app_tool_change", args=[row.pk]))
    edit = page.context["card"].edit_url
    assert edit == f"{address}?draft={draft.pk}"
    values = {name: entered()[name] for name in entered() if name != "name"}
    post(root, "_draft", {**values, "address": "https://api.example.com/v4/{id}?note={note}"}, edit)
    draft.refresh_from_db()
    assert (draft.note, draft.values["title"], draft.values["request"]["path"]) == (
        "Why",
        "Order",
        "/v4/{id}",
    )
    title_only = {**draft.values, "title": "Only"}
    Draft.objects.filter(pk=draft.pk).update(values={"title": title_only["title"]})
    other = root.get(reverse("admin:mcp_app_tool_change", args=[row.pk])).context["card"].edit_url
    assert other == f"{reverse('admin:mcp_app_tool_change', args=[row.pk])}?draft={draft.pk}"


def test_stored_tool_is_shown_and_changed(root: Browser) -> None:
    body = '{"note": "{note}", "fixed": [1, true]}'
    values = entered(method="PUT", body_mode="json", body=body, address="https://api.example.com/o/{id}?v=2")
    post(
        root, "_untried", {**values, "headers": "X-A: 1\r\nX-B: {tenant}", "idempotent": "on", "retries": "2"}
    )
    row = Tool.objects.get()
    address = reverse("admin:mcp_app_tool_http_change", args=[row.pk])
    assert address in root.get(reverse("admin:mcp_app_tool_change", args=[row.pk])).content.decode()
    form = root.get(address).context["form"]
    again = {name: form[name].value() for name in values if name != "arguments"}
    assert json.loads(again["body"]) == json.loads(body)
    given = {name: "" if value is None else str(value) for name, value in again.items()}
    kept = {
        "headers": form["headers"].value(),
        "idempotent": "on",
        "retries": "2",
        "seen": form["seen"].value(),
    }
    schema = json.dumps(
        {**row.input_schema, "properties": {**row.input_schema["properties"], "id": {"type": "integer"}}}
    )
    page = post(root, "_publish", {**given, **kept, "arguments": "{}", "input_schema": schema}, address)
    assert page.status_code == 302
    after = Tool.objects.get()
    assert after.request == row.request
    assert after.input_schema["properties"]["id"] == {"type": "integer"}


def test_request_beyond_the_form_leads_to_the_json_form(root: Browser) -> None:
    request = {
        "origin": "https://api.example.com", "method": "GET", "path": "/",
        "parameters": [{"argument": "a", "in": "query", "style": "pipeDelimited", "explode": False}],
    }  # fmt: skip
    row = Tool.objects.create(name="order", source="http", request=request)
    answer = root.get(reverse("admin:mcp_app_tool_http_change", args=[row.pk]))
    assert answer.headers["Location"] == reverse("admin:mcp_app_tool_change", args=[row.pk])


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"address": "/orders"}, "address"),
        ({"address": "https://{host}/"}, "address"),
        ({"address": "https://a.example/x?y=a{b}"}, "address"),
        ({"headers": "no colon"}, "headers"),
        ({"headers": "Authorization: x"}, "headers"),
        ({"method": "POST", "body_mode": "json", "body": "{"}, "body"),
        ({"mapping": "a["}, "mapping"),
        ({"success": "fine"}, "success"),
        ({"retries": "2", "method": "POST"}, "retries"),
        ({"name": "a b"}, "name"),
        ({"output_schema": '{"type": "array"}'}, "output_schema"),
    ],
)
def test_error_stands_beside_its_field(root: Browser, values: dict[str, str], field: str) -> None:
    page = post(root, "_untried", entered(**values))
    assert list(page.context["form"].errors) == [field]
    assert not Tool.objects.exists()


def test_permissions_are_those_of_adding_trying_and_publishing(
    client: Browser, django_user_model: Any, api: WebApi
) -> None:
    user = django_user_model.objects.create_user("editor", is_staff=True)
    client.force_login(user)
    assert client.get(ADD).status_code == 403

    def give(*names: str) -> None:
        user.user_permissions.add(*Permission.objects.filter(codename__in=names))

    give("add_tool", "view_tool")
    assert client.get(ADD).status_code == 200
    assert post(client, "_try", entered(api)).status_code == 403
    assert post(client, "_untried", entered(api)).status_code == 403
    assert post(client, "_draft", entered(api)).status_code == 302
    give("try_entries")
    assert post(client, "_try", entered(api)).status_code == 200
    assert len(api.requests) == 1


def test_get_sends_nothing(root: Browser, api: WebApi) -> None:
    root.get(ADD, {**entered(api), "_try": "1"})
    assert api.requests == []


def test_user_who_may_not_view_credentials_cannot_try_one(
    api: WebApi, client: Browser, django_user_model: Any
) -> None:
    save_credential(actor=None, name="shop", kind="bearer", secret={"token": SECRET}, origins=[api.origin])
    request = {
        "origin": api.origin, "method": "GET", "path": "/orders/{id}", "credential": "shop",
        "parameters": [{"argument": "id", "in": "path"}],
    }  # fmt: skip
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    row = save_entry(kind=Tool, actor=None, source=HTTP, name="order", request=request, input_schema=schema)
    user = django_user_model.objects.create_user("editor", password="x", is_staff=True)
    codenames = ("view_tool", "add_tool", "change_tool", "try_entries")
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client.force_login(user)
    assert "shop" not in client.get(ADD).content.decode()
    values = entered(api, address=f"{api.origin}/other/{{id}}", credential="shop", arguments='{"id": "7"}')
    for address in (ADD, reverse("admin:mcp_app_tool_http_change", args=[row.pk])):
        page = post(client, "_try", values, address)
        assert "credential" in page.context["form"].errors
    assert api.requests == []


@pytest.mark.parametrize(
    "value", ["1e999", "NaN", "1" * 30, r'"\ud800"', r'"\u0000"', '{"\\ud800": 1}', "[" * 90 + "]" * 90]
)
@pytest.mark.parametrize("button", ["_live", "_try", "_draft", "_untried"])
def test_value_that_cannot_be_stored_is_refused(root: Browser, api: WebApi, button: str, value: str) -> None:
    body = {"method": "POST", "body_mode": "json", "_sure": "1", "body": f'{{"a": {value}, "n": "{{note}}"}}'}
    schema = {"input_schema": f'{{"type": "object", "properties": {{"id": {{"default": {value}}}}}}}'}
    for values in (body, schema, {"arguments": f'{{"id": "7", "note": {value}}}'}):
        assert post(root, button, entered(api, **values)).status_code in (200, 302)
        for row in (*Tool.objects.all(), *Draft.objects.all()):
            check_storable(row.values if isinstance(row, Draft) else [row.request, row.input_schema])


def rows(*given: dict[str, str]) -> dict[str, str]:
    """Return rows as the form posts them."""
    found = {"rows-TOTAL_FORMS": str(len(given)), "rows-INITIAL_FORMS": "0"}
    usual = {"kind": "string", "place": "", "description": "", "example": "", "default": "", "found": ""}
    for number, each in enumerate(given):
        found |= {f"rows-{number}-{name}": value for name, value in {**usual, **each}.items()}
    return found


ROWS = rows(
    {"name": "id", "kind": "integer", "description": "The number.", "example": "7", "found": "path"},
    {"name": "note", "default": "none", "found": "query"},
    {"name": "X-Tenant", "place": "header", "required": "on"},
    {"name": "tags", "place": "query", "kind": "array", "example": "a, b"},
    {"name": "session", "place": "cookie"},
    {"name": "gone", "DELETE": "on", "place": "query"},
    {"name": ""},
)


def test_rows_make_the_schema_and_place_arguments(root: Browser) -> None:
    post(root, "_untried", {**entered(), **ROWS})
    row = Tool.objects.get()
    assert row.input_schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "description": "The number.", "examples": [7]},
            "note": {"type": "string", "default": "none"},
            "tags": {"type": "array", "items": {"type": "string"}, "examples": [["a", "b"]]},
            "X-Tenant": {"type": "string"},
            "session": {"type": "string"},
        },
        "required": ["id", "X-Tenant"],
        "additionalProperties": False,
    }
    assert row.request["parameters"] == [
        {"argument": "id", "in": "path"},
        {"argument": "note", "in": "query", "default": "none"},
        {"argument": "tags", "in": "query"},
        {"argument": "X-Tenant", "in": "header", "name": "X-Tenant"},
        {"argument": "session", "in": "cookie"},
    ]


def test_stored_tool_shows_its_rows_and_can_be_saved_unchanged(root: Browser) -> None:
    post(root, "_untried", {**entered(), **ROWS})
    before = Tool.objects.get()
    address = reverse("admin:mcp_app_tool_http_change", args=[before.pk])
    form = root.get(address).context["form"]
    shown = {each["name"].value(): (each["found"].value(), each["place"].value()) for each in form.rows}
    assert shown == {
        "id": ("path", ""), "note": ("query", ""), "X-Tenant": ("header", ""), "tags": ("query", ""),
        "session": ("cookie", "cookie"), None: (None, None),
    }  # fmt: skip
    given = {name: form[name].value() for name in form.fields}
    given |= {"input_schema": form["schema_seen"].value(), "output_schema": "", "arguments": "{}"}
    for each in (*form.rows, form.rows.management_form):
        given |= {each.add_prefix(name): each[name].value() for name in each.fields}
    values = {
        name: "on" if value is True else str(value) for name, value in given.items() if value or value == 0
    }
    values = {name: value for name, value in values.items() if value != "False"}
    page = post(root, "_publish", values, address)
    assert page.status_code == 302
    after = Tool.objects.get()
    assert (after.request, after.input_schema) == (before.request, before.input_schema)


def test_changed_json_replaces_rows(root: Browser) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string", "enum": ["a"]}}}
    post(root, "_untried", {**entered(), **ROWS, "input_schema": json.dumps(schema)})
    properties = Tool.objects.get().input_schema["properties"]
    assert (properties["id"], "description" in properties["note"]) == (
        {"type": "string", "enum": ["a"]},
        False,
    )


def test_row_keeps_what_it_cannot_show(root: Browser) -> None:
    schema = json.dumps({"type": "object", "properties": {"id": {"type": "string", "enum": ["a"]}}})
    given = rows({"name": "id", "description": "A letter.", "found": "path"})
    post(root, "_untried", {**entered(), **given, "input_schema": schema, "schema_seen": schema})
    expected = {"type": "string", "enum": ["a"], "description": "A letter."}
    assert Tool.objects.get().input_schema["properties"]["id"] == expected


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"name": "id", "kind": "integer", "default": "x"}, "is not an integer"),
        ({"name": "id", "kind": "", "example": "NaN"}, "is not JSON"),
        ({"name": "note", "kind": "boolean", "example": "maybe"}, "is not true or false"),
        ({"name": "note", "place": "query"}, "remove the placeholder"),
        ({"name": "other", "place": "body"}, "has no body"),
        ({"name": "a b", "place": "query"}, "Use letters"),
        ({"name": "", "place": "query"}, "Enter a name"),
        ({"name": "Authorization", "place": "header"}, "Only a credential"),
    ],
)
def test_bad_row_is_explained_and_nothing_is_saved(
    given: dict[str, str], problem: str, root: Browser
) -> None:
    page = post(root, "_untried", {**entered(), **rows(given)})
    assert problem in page.content.decode()
    assert not Tool.objects.exists()


def test_body_row_becomes_a_member_and_its_default_is_sent(root: Browser, api: WebApi) -> None:
    values = entered(api, method="POST", address=f"{api.origin}/orders", body_mode="json", arguments="{}")
    given = rows({"name": "count", "kind": "integer", "place": "body", "default": "3"})
    page = post(root, "_try", {**values, **given, "body": '{"fixed": 1}', "_sure": "1"})
    assert page.context["outcome"].problem == ""
    assert json.loads(api.requests[0].body) == {"fixed": 1, "count": 3}


def test_preview_follows_rows_and_uses_their_examples(root: Browser) -> None:
    answer = post(root, "_live", {**entered(), **ROWS, "arguments": "{}"}).json()
    assert answer["request"].startswith("GET https://api.example.com/orders/7?v=2&note=none&tags=a&tags=b")
    assert "X-Tenant: {X-Tenant}" in answer["request"]
    assert [(row["name"], row["found"]) for row in answer["rows"]][:3] == [
        ("id", "path"), ("note", "query"), ("tags", "query"),
    ]  # fmt: skip
    assert json.loads(answer["schema"])["required"] == ["id", "X-Tenant"]


@pytest.mark.parametrize(
    ("button", "total"), [("_live", "2"), ("_try", "2"), ("_live", "x"), ("_live", "9" * 30)]
)
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"id": {"examples": {"a": 1}}}},
        {"properties": {"id": {"examples": 1}}},
        {"properties": {"id": 1, "note": []}},
        {"properties": [], "required": 5},
        {"properties": {"id": {"type": ["string"], "default": {}, "description": []}}, "required": [[]]},
    ],
)
def test_malformed_schema_or_rows_are_refused(root: Browser, button: str, total: str, schema: Any) -> None:
    rows = {
        "rows-TOTAL_FORMS": total,
        "rows-INITIAL_FORMS": "0",
        "rows-0-name": "id",
        "rows-0-default": "[" * 99,
    }
    assert post(root, button, entered(input_schema=json.dumps(schema), **rows)).status_code in (200, 302)
