"""Calls of HTTP tools: how answers become results, attempts, cache and pages (INT-08 to INT-15)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from mcp_app.catalogue.definitions.content import ToolError, ToolResult
from mcp_app.catalogue.sources.http.calls import called
from mcp_app.catalogue.sources.http.plan import RequestPlan
from tests.servers.web_api import WebApi, echoed
from tests.unit.egress.sites import Heard, response, serve_kept

TEXT: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@pytest.fixture
async def api(settings: Any) -> AsyncIterator[WebApi]:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",)}
    found = WebApi()
    found.answer = echoed
    async with serve_kept(found.handle) as found.site:
        yield found


async def call(api: WebApi, arguments: dict[str, Any] | None = None, **values: Any) -> ToolResult:
    parameters = [{"argument": "id", "in": "path"}, {"argument": "note", "in": "query"}]
    usual = {"origin": api.origin, "method": "GET", "path": "/orders/{id}", "parameters": parameters}
    return await called(RequestPlan.read({**usual, **values}), arguments or {"id": "7"})


async def refusal(api: WebApi, arguments: dict[str, Any] | None = None, **values: Any) -> str:
    with pytest.raises(ToolError) as error:
        await call(api, arguments, **values)
    return str(error.value)


@pytest.mark.parametrize(
    ("answer", "values", "structured", "shown"),
    [
        (response(b'{"a":[1,2]}'), {}, {"a": [1, 2]}, '{"a":[1,2]}'),
        (response(b"[1]"), {}, {"result": [1]}, "[1]"),
        (response(b'"x"'), {}, {"result": "x"}, "x"),
        (response(b'{"a":[1,2]}'), {"result": {"mapping": "a[1]"}}, {"result": 2}, "2"),
        (
            response(b'{"a":1}'),
            {"result": {"prepend": "Before", "append": "After"}},
            {"a": 1},
            'Before\n{"a":1}\nAfter',
        ),
        (response(b'{"a":1}', kind="application/problem+json"), {}, {"a": 1}, '{"a":1}'),
        (response(b'{"a":1}'), {"result": {"mode": "text"}}, None, '{"a":1}'),
        (response(b"a,b", kind="text/csv"), {}, None, "a,b"),
        (response(b"caf\xe9", kind="text/plain; charset=iso-8859-1"), {}, None, "café"),
        (response(b"", status="204 No Content"), {}, None, "Done (204)."),
        (response(b'{"a":1}', status="404 Not Found"), {"success": "200-299, 404"}, {"a": 1}, '{"a":1}'),
    ],
)
async def test_answer_becomes_a_result(
    api: WebApi, answer: bytes, values: dict[str, Any], structured: Any, shown: str
) -> None:
    api.answer = lambda heard: answer
    result = await call(api, **values)
    assert (result.structured, result.content, result.is_error) == (structured, shown, False)


async def test_binary_answer_becomes_a_file(api: WebApi) -> None:
    api.answer = lambda heard: response(b"%PDF-1.7 x", kind="application/pdf")
    file: Any = (await call(api)).content
    assert (file.data, file.mime_type) == (b"%PDF-1.7 x", "application/pdf")
    assert file.to_block()["type"] == "resource"


async def test_named_members_are_picked(api: WebApi) -> None:
    api.says([{"id": 1, "name": "a", "more": {}}, {"id": 2, "name": "b"}])
    picked = await call(api, {"id": "7", "fields": ["id"]}, result={"fields": True})
    assert picked.structured == {"result": [{"id": 1}, {"id": 2}]}
    whole = await call(api, result={"fields": True})
    assert len(whole.structured["result"][0]) == 3


HOSTILE: Final[dict[str, tuple[bytes, dict[str, Any], str]]] = {
    "not found": (
        response(b'{"error":"no"}', status="404 Not Found"), {}, 'answered 404 Not Found.\n{"error":"no"}'
    ),
    "mapped error": (
        response(b'{"e":{"m":"no"}}', status="409 Conflict"), {"result": {"error_mapping": "e.m"}},
        "answered 409 Conflict.\nno",
    ),
    "redirect away": (
        response(b"", "Location: https://evil.example/", status="302 Found"), {},
        "redirects to another address",
    ),
    "wrong type": (
        response(b"<p>", kind="text/html"), {"result": {"mode": "structured"}},
        "text/html, but JSON was expected",
    ),
    "no JSON": (response(b"{"), {}, "not valid JSON"),
    "no UTF-8": (response(b'{"a":"\xff"}'), {}, "not valid UTF-8"),
    "no UTF-8 text": (response(b"\xff", kind="text/plain"), {}, "not valid UTF-8"),
    "unknown charset": (response(b"x", kind="text/plain; charset=x-none"), {}, "unknown charset"),
    "slow charset": (
        response("é".encode("punycode") * 1_000, kind="text/plain; charset=punycode"), {}, "unknown charset"
    ),
    "no charset": (response(b"x", kind="text/plain; charset=undefined"), {}, "unknown charset"),
    "deep": (response(b"[" * 500 + b"]" * 500), {}, "nested too deeply"),
    "deep, picked": (
        response(b"[" * 1_000 + b"]" * 1_000), {"result": {"fields": True}}, "nested too deeply"
    ),
    "deep error": (
        response(b'{"e":' + b"[" * 300 + b"]" * 300 + b"}", status="409 Conflict"),
        {"result": {"error_mapping": "e"}}, "answered 409 Conflict",
    ),
    "3 GB": (TEXT + b"Content-Length: 3221225472\r\n\r\nx", {}, "larger than the 8192 KiB"),
    "never ends": (
        TEXT + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", {"timeout": 0.3},
        "not complete within 0.3 seconds",
    ),
    "never answers": (b"", {"timeout": 0.3}, "not complete within 0.3 seconds"),
    "other protocol": (b"+PONG\r\n\r\n", {}, "did not speak HTTP"),
    "unoffered coding": (response(b"x", "Content-Encoding: br"), {}, "coding"),
    "mapping fails": (response(b'{"a":1}'), {"result": {"mapping": "length(a)"}}, "length()"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "values", "expected"), HOSTILE.values(), ids=HOSTILE)
@pytest.mark.requirement("INT-08", "INT-12")
async def test_hostile_answer_becomes_an_error_that_names_it(
    api: WebApi, answer: bytes, values: dict[str, Any], expected: str
) -> None:
    api.answer = lambda heard: answer
    shown = await refusal(api, **values)
    assert expected in shown
    assert "127.0.0.1" not in shown
    assert len(shown) < 3_000
    # The connection of an answer that was not read to its end is closed.
    if "\r\n\r\n" in repr(answer) and "larger" in expected:
        await asyncio.wait_for(api.site.closed.wait(), 2)


@pytest.mark.parametrize("allow", [(), ("10.0.0.0/8",)])
@pytest.mark.requirement("INT-08")
async def test_private_address_is_refused(api: WebApi, settings: Any, allow: tuple[str, ...]) -> None:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": allow}
    assert "public internet" in await refusal(api)
    assert api.requests == []


@pytest.mark.requirement("INT-12")
async def test_long_error_body_is_cut(api: WebApi) -> None:
    api.answer = lambda heard: response(b"x" * 500_000, kind="text/plain", status="500 Oops")
    shown = await refusal(api)
    assert shown.endswith(" …")
    assert len(shown) < 2_200


# Attempts.


def failing(api: WebApi, *statuses: str, more: str = "X: 1") -> None:
    """Answer with these statuses, then with success."""
    left = list(statuses)
    api.answer = lambda heard: (
        response(b"{}", more, status=left.pop(0)) if left else response(b'{"done":true}')
    )


@pytest.mark.parametrize(
    ("method", "values", "requests"),
    [
        ("GET", {}, 1),
        ("GET", {"retries": 2}, 3),
        ("GET", {"retries": 1}, 2),
        ("POST", {}, 1),
        ("POST", {"retries": 2, "idempotent": True}, 3),
        ("POST", {"retries": 2, "idempotency_key": True}, 3),
    ],
)
async def test_passing_failure_is_retried_if_the_plan_allows(
    api: WebApi, method: str, values: dict[str, Any], requests: int
) -> None:
    failing(api, "503 Busy", "429 Slow down", more="Retry-After: 0")
    if requests == 3:
        assert (await call(api, method=method, **values)).structured == {"done": True}
    else:
        assert "answered" in await refusal(api, method=method, **values)
    assert len(api.requests) == requests
    [key] = {heard.header("idempotency-key") for heard in api.requests}
    assert (key is None) == ("idempotency_key" not in values)


async def test_retry_after_beyond_the_timeout_is_not_waited_for(api: WebApi) -> None:
    failing(api, "429 Slow down", more="Retry-After: 3600")
    assert "answered 429" in await refusal(api, retries=3, timeout=5)
    assert len(api.requests) == 1


async def test_request_that_was_sent_is_not_repeated(api: WebApi) -> None:
    async def close(heard: Heard, writer: Any) -> None:
        writer.close()

    api.answer = close
    assert "broke off" in await refusal(api, method="POST", retries=0)
    assert len(api.requests) == 1


@pytest.mark.requirement("INT-13")
async def test_sent_request_is_repeated_only_if_it_may(api: WebApi) -> None:
    async def close(heard: Heard, writer: Any) -> None:
        writer.close()

    api.answer = close
    for method, retries, requests in (("PUT", 1, 2), ("POST", 0, 1)):
        api.requests.clear()
        await refusal(api, method=method, retries=retries)
        assert len(api.requests) == requests


async def test_answer_is_cached(api: WebApi, clean_redis: str, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    for value in ({"n": 1}, {"n": 2}):
        api.says(value)
        assert (await call(api, cache_seconds=60)).structured == {"n": 1}
    await call(api, {"id": "8"}, cache_seconds=60)
    assert api.lines == ["GET /orders/7", "GET /orders/8"]


async def test_unusual_lifetime_of_an_answer_is_ignored(api: WebApi, clean_redis: str, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    answer = response(b'{"n":1}', "Cache-Control: max-age=2").replace(b"max-age=2", b"max-age=\xb2")
    api.answer = lambda heard: answer
    for _ in range(2):
        assert (await call(api, cache_seconds=60)).structured == {"n": 1}
    assert len(api.requests) == 1


async def test_cached_answer_is_a_success_for_its_own_tool_only(
    api: WebApi, clean_redis: str, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    api.says({"n": 1}, status="404 Not Found")
    assert (await call(api, cache_seconds=60, success="404")).structured == {"n": 1}
    assert "answered 404" in await refusal(api, cache_seconds=60)


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("Cache-Control: no-store", "x"),
        ("Cache-Control: private", "x"),
        ("Cache-Control: max-age=0", "x"),
        ("Vary: *", "x"),
        ("X: 1", "x" * 300_000),
    ],
    ids=["no-store", "private", "max-age", "vary", "large"],
)
async def test_answer_is_not_cached(
    api: WebApi, clean_redis: str, settings: Any, header: str, body: str
) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    api.says(body, header)
    for _ in range(2):
        await call(api, cache_seconds=60)
    assert len(api.requests) == 2


# Pages.


@pytest.mark.parametrize(
    ("pages", "wanted"),
    [
        ({"kind": "page", "parameter": "page"}, ["", "page=2", "page=3"]),
        ({"kind": "offset", "parameter": "offset"}, ["", "offset=2", "offset=4"]),
        (
            {"kind": "cursor", "parameter": "after", "token": "next", "items": "rows"},
            ["", "after=2", "after=4"],
        ),
        ({"kind": "link"}, ["", "page=2", "page=4"]),
        ({"kind": "page", "parameter": "page[n]"}, ["", "page%5Bn%5D=2", "page%5Bn%5D=3"]),
    ],
)
async def test_pages_are_joined(api: WebApi, pages: dict[str, Any], wanted: list[str]) -> None:
    def answer(heard: Heard) -> bytes:
        start = 2 * (len(api.requests) - 1)
        rows = list(range(start, min(start + 2, 4)))
        more = start + 2 if start < 4 else None
        if pages["kind"] == "link":
            link = f'Link: <{api.origin}/orders/7?page={more}>; rel="next"' if more else "X: 1"
            return response(json.dumps(rows).encode(), link)
        value = {"rows": rows, "next": more} if "items" in pages else rows
        return response(json.dumps(value).encode())

    api.answer = answer
    assert (await call(api, pages=pages)).structured == {"items": [0, 1, 2, 3], "complete": True}
    assert [line.partition("?")[2] for line in api.lines] == wanted


async def test_pages_end_at_their_number_and_at_other_origins(api: WebApi) -> None:
    api.says([1], f"Link: <{api.origin}/orders/7?p=1>; rel=next")
    pages = {"kind": "link", "max_pages": 3}
    result: Any = (await call(api, pages=pages)).structured
    assert (result["items"], result["complete"], len(api.requests)) == ([1, 1, 1], False, 3)
    api.says([1], 'Link: <https://evil.example/>; rel="next"')
    assert (await call(api, pages=pages)).structured == {"items": [1], "complete": True}


async def test_malformed_link_ends_the_pages(api: WebApi) -> None:
    api.answer = lambda heard: response(b"[1]", 'Link: <http://[>; rel="next"')
    assert (await call(api, pages={"kind": "link"})).structured == {"items": [1], "complete": True}
