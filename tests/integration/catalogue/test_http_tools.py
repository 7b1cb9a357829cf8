"""HTTP tools are catalogue rows like any others, and their credentials leak nowhere (INT-01, 05, 06, 11)."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client as Browser
from django.urls import reverse

from mcp_app.catalogue.changes import drafts, services
from mcp_app.catalogue.changes.rolling_back import roll_back
from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.effects import Effect, declared_effect
from mcp_app.catalogue.snapshots.identity import identity_of
from mcp_app.catalogue.sources.http.answers import MAX_ERROR_BYTES
from mcp_app.catalogue.sources.http.calls import called
from mcp_app.catalogue.sources.http.plan import RequestPlan
from mcp_app.catalogue.sources.http.sending import Recorder
from mcp_app.catalogue.sources.http.source import HTTP
from mcp_app.catalogue.transfer.problems import TransferRefused
from mcp_app.credentials import services as credentials
from mcp_app.credentials import tokens
from mcp_app.models import CatalogueChange, Credential, Tool
from mcp_app.testing import Client, RequestError, call_tool
from tests.integration.catalogue.transfers import bring, exported
from tests.servers.web_api import WebApi, web_api
from tests.unit.egress.sites import Heard, response

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "s3cret-0000-value"
SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "note": {"type": "string"}},
    "required": ["id"],
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Forget what this process keeps of credentials."""
    yield
    credentials._opened.clear()
    tokens._kept.clear()


@pytest.fixture
def api(settings: Any) -> Iterator[WebApi]:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",)}
    with web_api() as found:
        yield found


def plan(api: WebApi, **values: Any) -> dict[str, Any]:
    parameters = [{"argument": "id", "in": "path"}, {"argument": "note", "in": "query"}]
    usual = {"origin": api.origin, "method": "GET", "path": "/orders/{id}", "parameters": parameters}
    return {**usual, **values}


def made(api: WebApi, *, schema: Any = None, row: dict[str, Any] | None = None, **values: Any) -> Tool:
    body = values.get("body", {})
    names = {"id", "note"} if "parameters" not in values else set()
    names |= {body["argument"]} if body.get("argument") else set()
    properties = {name: SCHEMA["properties"].get(name, {}) for name in sorted(names)}  # type: ignore[attr-defined]
    required = ["id"] if "id" in names else []
    usual = {"type": "object", "properties": properties, "required": required}
    return services.save_entry(
        kind=Tool, actor=None, source=HTTP, name="order", request=plan(api, **values),
        input_schema=schema or usual, **(row or {}),
    )  # fmt: skip


def call(arguments: dict[str, Any] | None = None, name: str = "order") -> dict[str, Any]:
    return call_tool(name, {"id": "7"} if arguments is None else arguments, stored=True)


def text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def credential(api: WebApi, kind: str = "bearer", secret: Any = None, **values: Any) -> Credential:
    usual: dict[str, Any] = {"origins": [api.origin], **values}
    return credentials.save_credential(
        actor=None, name="shop", kind=kind, secret=secret or {"token": SECRET}, **usual
    )


@pytest.mark.requirement("INT-16")
def test_calls_of_one_user_leave_turns_for_another_user(api: WebApi, someone: Any, admin_user: Any) -> None:
    made(api)
    release = asyncio.Event()

    async def hold(heard: Heard, writer: asyncio.StreamWriter) -> None:
        while "slow" in heard.line and not release.is_set():
            await asyncio.sleep(0.01)
        writer.write(response())

    api.answer = hold

    async def run() -> None:
        async with Client(stored=True, user=someone) as first, Client(stored=True, user=admin_user) as second:
            slow = [asyncio.create_task(first.call_tool("order", {"id": "slow"})) for _ in range(20)]
            while len(api.requests) < 10:
                await asyncio.sleep(0.01)
            quick = await second.call_tool("order", {"id": "quick"})
            assert quick["structuredContent"] == {}
            assert len(api.requests) == 11
            release.set()
            assert not any(each["isError"] for each in await asyncio.gather(*slow))

    asyncio.run(run())


# The catalogue.


def test_tool_is_listed_with_hints_of_its_method_and_called(api: WebApi) -> None:
    made(api)

    async def listed() -> dict[str, Any]:
        async with Client(stored=True) as client:
            return next(tool for tool in await client.list_tools() if tool["name"] == "order")

    wire = asyncio.run(listed())
    assert wire["annotations"] == {"readOnlyHint": True, "openWorldHint": True}
    assert "outputSchema" not in wire
    result = call({"id": "a/b", "note": "é&"})
    assert result["structuredContent"]["target"] == "/orders/a%2Fb?note=%C3%A9%26"
    assert json.loads(text(result)) == result["structuredContent"]


def test_argument_is_checked_by_the_schema(api: WebApi) -> None:
    made(api)
    assert "id: expected a value" in text(call({}))
    assert api.requests == []


@pytest.mark.requirement("INT-01")
def test_draft_is_published_and_rolled_back(api: WebApi) -> None:
    values = {"name": "order", "request": plan(api), "input_schema": SCHEMA}
    draft = drafts.save_draft(kind=Tool, actor=None, source=HTTP, **values)
    assert not Tool.objects.filter(name="order").exists()
    row = drafts.publish_draft(draft=draft, actor=None)
    first = CatalogueChange.objects.get(kind="tool", entry_id=row.pk)
    services.save_entry(kind=Tool, actor=None, entry=row, request=plan(api, path="/other/{id}"))
    call()
    roll_back(to=first, actor=None)
    call()
    assert api.lines == ["GET /other/7", "GET /orders/7"]


@pytest.mark.requirement("INT-01")
def test_permission_limit_preset_and_switch_apply(api: WebApi, someone: Any) -> None:
    row = made(api, row={"permission": "auth.add_user", "calls_per_minute": 1})
    with pytest.raises(Exception, match="order"):
        call()

    async def twice() -> dict[str, Any]:
        async with Client(stored=True, user=someone) as client:
            first: dict[str, Any] = await client.call_tool("order", {"id": "1"})
            with pytest.raises(RequestError, match="1 call per minute"):
                await client.call_tool("order", {"id": "1"})
            return first

    assert "structuredContent" in asyncio.run(twice())
    services.update_entry(entry=row, actor=None, permission="", calls_per_minute=None)
    services.save_tool_preset(actor=None, name="seven", preset_of=row, fixed_arguments={"id": "7"})
    call({"note": "x"}, "seven")
    assert api.lines == ["GET /orders/1", "GET /orders/7?note=x"]
    services.set_enabled(entries=[row], enabled=False, actor=None)
    with pytest.raises(Exception, match="order"):
        call()


@pytest.mark.requirement("INT-01")
def test_approval_and_background_apply(api: WebApi) -> None:
    row = made(api, row={"needs_approval": True, "background": True})
    assert call()["isError"]
    assert api.requests == []
    assert "structuredContent" in call_tool("order", {"id": "7"}, stored=True, approved=True)
    before = identity_of(row)
    services.save_entry(kind=Tool, actor=None, entry=row, request=plan(api, method="DELETE"))
    assert identity_of(Tool.objects.get(pk=row.pk)) != before


@pytest.mark.requirement("INT-01")
@pytest.mark.parametrize(
    "change",
    [
        {"request": {"method": "DELETE"}},
        {"annotations": {"title": "Order"}},
        {"output_schema": {"type": "object"}},
    ],
    ids=["request", "hints", "schema"],
)
def test_approval_of_a_preset_covers_the_tool_behind_it(api: WebApi, change: dict[str, Any]) -> None:
    row = made(api)
    preset = services.save_tool_preset(
        actor=None, name="seven", preset_of=row, fixed_arguments={"id": "7"}, needs_approval=True
    )
    before = identity_of(preset)
    if "request" in change:
        change = {"request": plan(api, **change["request"])}
    services.save_entry(kind=Tool, actor=None, entry=row, **change)
    assert identity_of(Tool.objects.select_related("preset_of").get(pk=preset.pk)) != before


@pytest.mark.requirement("INT-01")
def test_tool_is_exported_and_imported(api: WebApi) -> None:
    credential(api)
    row = made(api, credential="shop", row={"annotations": {"idempotentHint": True}})
    file = exported()
    [entry] = [each for each in file["tools"] if each["name"] == "order"]
    assert (entry["source"], entry["request"]["credential"]) == ("http", "shop")
    assert SECRET not in json.dumps(file)
    services.delete_entry(entry=row, actor=None)
    bring(file)
    restored = Tool.objects.get(name="order")
    assert (restored.source, restored.request, restored.annotations) == ("http", row.request, row.annotations)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"request": None}, "request"),
        ({"request": {"origin": "x"}}, "request"),
        ({"input_schema": {"type": "object", "properties": {"id": {}}, "required": ["id"]}}, "input_schema"),
        ({"input_schema": {**SCHEMA, "required": []}}, "input_schema"),
        ({"input_schema": {**SCHEMA, "properties": {**SCHEMA["properties"], "more": {}}}}, "input_schema"),  # type: ignore[dict-item]
        ({"output_schema": {"type": "array"}}, "output_schema"),
        ({"annotations": {"readOnly": True}}, "annotations"),
        ({"annotations": {"readOnlyHint": "yes"}}, "annotations"),
        ({"name": "a b"}, "name"),
    ],
)
def test_refusal_names_the_field(api: WebApi, change: dict[str, Any], field: str) -> None:
    values = {"name": "order", "request": plan(api), "input_schema": SCHEMA, **change}
    with pytest.raises(ValidationError) as refusal:
        services.save_entry(kind=Tool, actor=None, source=HTTP, **values)
    assert list(refusal.value.error_dict) == [field]


@pytest.mark.requirement("INT-05")
def test_credential_must_exist_and_be_bound_to_the_origin(api: WebApi) -> None:
    with pytest.raises(ValidationError, match="no credential"):
        made(api, credential="shop")
    credential(api, origins=["https://api.example.com"])
    with pytest.raises(ValidationError, match="not bound"):
        made(api, credential="shop")


@pytest.fixture
def editor(django_user_model: Any) -> Any:
    """Create a user who may publish tools, and may not view credentials."""
    codenames = ("view_tool", "add_tool", "change_tool", "publish_entries")
    user = django_user_model.objects.create_user("editor", password="x", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return user


@pytest.mark.requirement("INT-05")
def test_user_who_may_not_view_credentials_cannot_use_one(api: WebApi, editor: Any, client: Browser) -> None:
    credential(api)
    row = made(api, credential="shop")
    file = exported()
    first = CatalogueChange.objects.get(kind="tool", entry_id=row.pk)
    new = {"name": "new", "request": plan(api, credential="shop"), "input_schema": SCHEMA}
    other = {"request": plan(api, credential="shop", path="/other/{id}")}
    attempts: list[Callable[[], Any]] = [
        lambda: services.save_entry(kind=Tool, actor=editor, source=HTTP, **new),
        lambda: services.save_entry(kind=Tool, actor=editor, entry=row, **other),
        lambda: drafts.save_draft(kind=Tool, actor=editor, source=HTTP, **new),
        lambda: drafts.save_draft(kind=Tool, actor=editor, entry=row, **other),
    ]
    for attempt in attempts:
        with pytest.raises(ValidationError, match="may view credentials"):
            attempt()
    client.force_login(editor)
    answer = client.post("/api/tools/?source=http", new, content_type="application/json")
    assert (answer.status_code, "may view credentials" in answer.content.decode()) == (400, True)
    services.delete_entry(entry=row, actor=None)
    with pytest.raises(ValidationError, match="may view credentials"):
        roll_back(to=first, actor=editor)
    with pytest.raises(TransferRefused, match="may view credentials"):
        bring(file, actor=editor)


@pytest.mark.requirement("INT-05")
def test_user_who_may_not_view_credentials_changes_other_fields(api: WebApi, editor: Any) -> None:
    credential(api)
    row = made(api, credential="shop")
    values = {"request": row.request, "description": "Look up an order."}
    services.save_entry(kind=Tool, actor=editor, entry=row, **values)
    row.refresh_from_db()
    assert (row.request["credential"], row.description) == ("shop", "Look up an order.")
    services.save_entry(kind=Tool, actor=editor, entry=row, request=plan(api))
    row.refresh_from_db()
    assert "credential" not in row.request


@pytest.mark.requirement("INT-11")
def test_declared_output_schema_is_satisfied_or_an_error(api: WebApi) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    made(api, row={"output_schema": schema})
    api.says({"id": 1})
    assert call()["structuredContent"] == {"id": 1}
    api.says({"id": "1"})
    assert "does not fit the tool's output schema" in text(call())


# Credentials.


@pytest.mark.requirement("INT-04")
def test_no_header_of_the_caller_is_forwarded(api: WebApi) -> None:
    credential(api)
    made(api, credential="shop", headers={"X-Fixed": "1"})
    call()
    names = {name.lower() for name, _ in api.requests[0].headers}
    assert names == {"host", "user-agent", "accept", "accept-encoding", "x-fixed", "authorization"}


@pytest.mark.parametrize(("status", "is_renewed"), [("401 Unauthorized", True), ("403 Forbidden", False)])
def test_refused_token_is_renewed_once(api: WebApi, status: str, is_renewed: bool) -> None:
    def answer(heard: Heard) -> bytes:
        if "/token" in heard.line:
            return response(json.dumps({"access_token": f"t{len(api.requests)}"}).encode())
        return response(b'{"why":"no"}', status=status)

    api.answer = answer
    secret = {"client_id": "a", "client_secret": SECRET}
    credential(api, "client_credentials", secret, token_url=f"{api.origin}/token")
    made(api, credential="shop", method="POST")
    shown = text(call())
    assert "The connection's credential was refused" in shown
    tokens_sent = [heard.header("authorization") for heard in api.requests if "/orders" in heard.line]
    assert tokens_sent == ["Bearer t1", "Bearer t3"][: 1 + is_renewed]
    assert SECRET not in shown


@pytest.mark.requirement("INT-05", "INT-06")
def test_secret_is_found_nowhere(
    api: WebApi, caplog: pytest.LogCaptureFixture, someone: Any, client: Browser
) -> None:
    """INT-05, INT-06: the database, logs, exports, error texts and pages."""
    caplog.set_level(logging.DEBUG)
    credential(api, "api_key", {"value": SECRET}, placement={"in": "query", "name": "key"})
    row = made(api, credential="shop")
    shown = [json.dumps(call())]
    assert f"key={SECRET}" in api.lines[0]
    api.answer = lambda heard: response(b"no", kind="text/plain", status="401 Unauthorized")
    shown.append(text(call()))
    api.answer = lambda heard: b"+PONG\r\n\r\n"
    shown.append(text(call()))
    client.force_login(someone)
    for address in (
        reverse("admin:mcp_app_tool_change", args=[row.pk]), "/api/tools/", "/api/audit/",
        "/api/catalogue/export/",
    ):  # fmt: skip
        shown.append(client.get(address).content.decode())
    shown.append(caplog.text)
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            shown.append(repr(cursor.fetchall()))
    assert [each for each in shown if SECRET in each] == []


@pytest.mark.requirement("INT-05", "INT-06")
@pytest.mark.parametrize(
    ("kind", "secret", "placement", "repeated"),
    [
        ("bearer", {"token": SECRET}, {}, SECRET),
        ("basic", {"username": "u", "password": SECRET}, {}, SECRET),
        ("basic", {"username": "u", "password": SECRET}, {}, b64encode(f"u:{SECRET}".encode()).decode()),
        ("api_key", {"value": f"{SECRET}/é"}, {"in": "query", "name": "key"}, f"{SECRET}%2F%C3%A9"),
        ("api_key", {"value": f"{SECRET}/x"}, {"in": "query", "name": "key"}, f"{SECRET}\\/x"),
        ("api_key", {"value": SECRET}, {"name": "X-Key", "prefix": "Token "}, SECRET),
        ("api_key", {"value": SECRET}, {"in": "cookie", "name": "sid"}, SECRET),
        ("api_key", {"value": f"{SECRET}/x y"}, {"name": "X-Key"}, f"{SECRET}%2fx%20y"),
        ("api_key", {"value": f"{SECRET}/x y"}, {"name": "X-Key"}, f"{SECRET}/x%20y"),
        ("api_key", {"value": f"{SECRET}<&"}, {"name": "X-Key"}, f"{SECRET}&lt;&amp;"),
        ("bearer", {"token": SECRET}, {}, b64encode(SECRET.encode()).decode()),
        ("headers", {"headers": {"X-Key": SECRET, "Accept": "application/json"}}, {}, SECRET),
    ],
)
def test_secret_that_a_server_repeats_is_hidden(
    api: WebApi, kind: str, secret: Any, placement: Any, repeated: str
) -> None:
    credential(api, kind, secret, placement=placement)
    made(api, credential="shop", pages={"kind": "link", "max_pages": 1})
    link = f'Link: <{api.origin}/orders/7?key={repeated}>; rel="next"'.encode().decode("latin-1")
    body = f'["{repeated}", "application/json"]'.encode()
    for status in ("200 OK", "401 Unauthorized"):
        api.answer = lambda heard: response(body, link, status=status)  # noqa: B023
        shown = text(call())
        assert (SECRET in shown, repeated in shown, "[hidden]" in shown) == (False, False, True)
        assert "application/json" in shown


@pytest.mark.requirement("INT-05")
def test_cached_answer_belongs_to_the_secret(api: WebApi, clean_redis: str, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    row = credential(api)
    request = RequestPlan.read(plan(api, credential="shop", cache_seconds=60))
    for number in (1, 2):
        api.says({"n": number})
        for _ in range(2):
            assert asyncio.run(called(request, {"id": "7"})).structured == {"n": number}
        credentials.save_credential(actor=None, credential=row, secret={"token": f"another-{number}"})
    assert len(api.requests) == 2
    credentials.save_credential(actor=None, credential=row, expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(ToolError, match="has expired"):
        asyncio.run(called(request, {"id": "7"}))


@pytest.mark.requirement("INT-08")
def test_timeout_includes_the_request_for_a_token(api: WebApi) -> None:
    api.answer = lambda heard: b""  # The server never answers.
    secret = {"client_id": "a", "client_secret": SECRET}
    credential(api, "client_credentials", secret, token_url=f"{api.origin}/token")
    made(api, credential="shop", timeout=0.3)
    assert "no access token within 0.3 seconds" in text(call())


def test_long_address_is_sent_with_a_credential(api: WebApi) -> None:
    credential(api)
    made(api, credential="shop")
    assert call({"id": "7", "note": "x" * 8_000})["structuredContent"]["target"].endswith("x" * 8_000)


@pytest.mark.requirement("INT-05")
def test_address_that_cannot_be_read_gets_no_credential(api: WebApi) -> None:
    credential(api)
    made(api, credential="shop")
    assert "longer than 16384 characters" in text(call({"id": "7", "note": "x" * 20_000}))
    assert api.requests == []


@pytest.mark.parametrize(
    ("method", "own", "effect"),
    [
        ("GET", {}, Effect.READS),
        ("POST", {}, Effect.CHANGES),
        ("DELETE", {}, Effect.DESTROYS),
        ("GET", {"readOnlyHint": False, "destructiveHint": True}, Effect.DESTROYS),
    ],
)
def test_approvers_see_the_effect_that_clients_see(
    api: WebApi, method: str, own: dict[str, Any], effect: Effect
) -> None:
    row = made(api, method=method, row={"annotations": own})
    preset = services.save_tool_preset(actor=None, name="seven", preset_of=row, fixed_arguments={"id": "7"})
    assert (declared_effect(row), declared_effect(preset)) == (effect, effect)


@pytest.mark.requirement("INT-05")
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_secret_in_another_encoding_is_hidden(api: WebApi, encoding: str) -> None:
    credential(api)
    made(api, credential="shop")
    api.answer = lambda heard: response(
        f"a {SECRET} é".encode(encoding), kind=f"text/plain; charset={encoding}"
    )
    assert text(call()) == "a [hidden] é"


@pytest.mark.requirement("INT-05")
def test_secret_at_the_end_of_a_shortened_error_is_hidden(api: WebApi) -> None:
    credential(api)
    body = b"-" * (2 * MAX_ERROR_BYTES - 8) + SECRET.encode() + b"-" * 70_000
    api.answer = lambda heard: response(body, kind="text/plain", status="500 Internal Server Error")
    recorder = Recorder()
    with pytest.raises(ToolError):
        asyncio.run(called(RequestPlan.read(plan(api, credential="shop")), {"id": "7"}, recorder))
    received = recorder.attempts[0].received
    assert received is not None
    assert received.body.strip(b"-") == b"[hidden]"
    assert len(received.body) == 2 * MAX_ERROR_BYTES
