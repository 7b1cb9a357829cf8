"""Values in the fixed query of an HTTP tool may be keys: no record and no error contains them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from mcp_app.catalogue.definitions.content import ToolError, ToolResult
from mcp_app.catalogue.sources.http.calls import called
from mcp_app.catalogue.sources.http.plan import RequestPlan
from mcp_app.conf import Settings
from mcp_app.credentials.outgoing import stored
from mcp_app.observability.correlation import Correlation, correlated
from mcp_app.observability.redaction import Redactor
from tests.servers.web_api import WebApi
from tests.unit.egress.sites import response, serve_kept

KEY = "k3y/of+the=server"
SHORT = "n1-2"
QUERY = f"key={quote(KEY, safe='')}&n={SHORT}"
FORMS = (KEY, quote(KEY, safe=""), SHORT)


@pytest.fixture
async def api(settings: Any) -> AsyncIterator[WebApi]:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",), "MESSAGE_LOG_PAYLOAD_BYTES": 2_000}
    found = WebApi()
    async with serve_kept(found.handle) as found.site:
        yield found


def plan(api: WebApi, **values: Any) -> RequestPlan:
    usual = {
        "origin": api.origin, "method": "GET", "path": f"/orders?{QUERY}",
        "parameters": [{"argument": "note", "in": "query"}],
    }  # fmt: skip
    return RequestPlan.read({**usual, **values})


async def call(plan: RequestPlan) -> tuple[ToolResult | ToolError, list[dict[str, Any]]]:
    """Return the result or the error of a call, and its records."""
    sent: list[Any] = []
    result: ToolResult | ToolError
    with correlated(Correlation(sent=sent)):
        try:
            result = await called(plan, {"note": "urgent"})
        except ToolError as error:
            result = error
    redactor = Redactor(Settings().redacted_names)
    return result, stored([each.copy() for each in sent], redactor, b"{}", 2_000)


async def test_record_has_the_arguments_and_not_the_fixed_values(api: WebApi) -> None:
    heard: list[str] = []

    def answer(request: Any) -> bytes:
        heard.append(request.line.split(" ")[1])
        return response(json.dumps({"next": f"/orders?{QUERY}", "key": KEY}).encode())

    api.answer = answer
    result, (record,) = await call(plan(api))
    assert heard == [f"/orders?{QUERY}&note=urgent"]
    assert record["url"].endswith("/orders?key=[redacted]&n=[redacted]&note=urgent")
    assert [value for value in FORMS[:2] if value in json.dumps(record)] == []
    # Results are data, of which nothing is removed.
    assert isinstance(result, ToolResult)
    assert result.structured["key"] == KEY


@pytest.mark.parametrize("text", [KEY, quote(KEY, safe=""), json.dumps(KEY)])
async def test_repeated_value_is_in_no_error(api: WebApi, text: str) -> None:
    api.answer = lambda _: response(f"No {text}".encode(), status="403 Forbidden", kind="text/plain")
    result, records = await call(plan(api))
    assert "403" in str(result)
    assert [value for value in FORMS[:2] if value in f"{result} {json.dumps(records)}"] == []


async def test_record_of_a_following_page_has_no_fixed_value(api: WebApi) -> None:
    api.answer = lambda heard: response(
        b"[1]", *([] if "page=2" in heard.line else [f'Link: </orders?page=2&{QUERY}>; rel="next"'])
    )
    _, records = await call(plan(api, pages={"kind": "link"}))
    assert [each["url"].partition("?")[2] for each in records] == [
        "key=[redacted]&n=[redacted]&note=urgent",
        "page=2&key=[redacted]&n=[redacted]",
    ]
    assert [value for value in FORMS if value in json.dumps([each["url"] for each in records])] == []


async def test_query_without_fixed_values_is_recorded(api: WebApi) -> None:
    api.answer = lambda _: response(b"{}")
    _, (record,) = await call(plan(api, path="/orders"))
    assert record["url"].endswith("/orders?note=urgent")
