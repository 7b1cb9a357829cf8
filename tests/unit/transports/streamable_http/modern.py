"""2026-07-28 requests for the endpoint of one process, and the catalogue entries they use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson

from mcp_app import Context, ToolError
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.protocol.http import header_values
from mcp_app.protocol.http.routing_headers import NAMED_BY
from mcp_app.protocol.messages.envelope import CLIENT_CAPABILITIES, CLIENT_INFO, VERSION
from tests.unit.catalogue.entries import prompt_entry, resource_entry, tool_entry
from tests.unit.transports.streamable_http.asgi import Exchange, Server

V = "2026-07-28"
Changes = dict[str, Any]


def meta(version: str = V, **more: Any) -> dict[str, Any]:
    """Return the ``_meta`` of a request, without members set to None."""
    told = {
        VERSION: version,
        CLIENT_CAPABILITIES: {},
        CLIENT_INFO: {"name": "tests", "version": "1"},
        **more,
    }
    return {name: value for name, value in told.items() if value is not None}


def modern(
    server: Server,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    request_id: Any = 1,
    headers: dict[str, str | None] | None = None,
    told: dict[str, Any] | None = None,
    **send: Any,
) -> Exchange:
    """Start a request as a client of that revision sends it."""
    params = {**(params or {}), "_meta": meta() if told is None else told}
    standard: dict[str, str | None] = {"mcp-protocol-version": V, "mcp-method": method}
    named = params.get(NAMED_BY.get(method, ""))
    if isinstance(named, str):
        standard["mcp-name"] = header_values.encode(named).decode()
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return server.send(message=message, headers={**standard, **(headers or {})}, **send)


async def answered(server: Server, method: str, params: dict[str, Any] | None = None, **more: Any) -> Any:
    """Return the result of a request that must be answered immediately."""
    exchange = await modern(server, method, params, **more).done()
    assert exchange.status == 200, exchange.body
    return exchange.json["result"]


def in_one_piece(exchange: Exchange, server: Server) -> bytes | None:
    """Return the web server's shortcut answer to the same request."""
    body = exchange._body or b""
    answer = server.endpoint.quick(exchange.scope["headers"], body, "127.0.0.1")
    return answer if isinstance(answer, bytes) else None


class Desk:
    """Events observed in and sent to the tools of these tests."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()


async def at_once(text: str = "") -> str:
    """Echoes."""
    return text


def in_thread(text: str = "") -> str:
    """Echoes from a thread."""
    return text


async def logs(ctx: Context) -> str:
    """Logs at every level."""
    for level in ("debug", "info", "warning", "error"):
        ctx.log(level, level)
    return "logged"


async def regional(region: str = "", note: str = "") -> str:
    """Has an annotated argument."""
    return f"{region} {note}"


def fails() -> str:
    """Fails."""
    raise ToolError("as told")


def breaks() -> str:
    """Breaks."""
    raise RuntimeError("secret")


async def asks(ctx: Context) -> str:
    """Sees what its caller declared."""
    return orjson.dumps([ctx.client.can("sampling"), ctx.client.name, ctx.protocol_version]).decode()


def notes() -> str:
    """Notes."""
    return "notes"


def item(key: str) -> str:
    """An item."""
    if key == "lost":
        raise FileNotFoundError
    return key


def review(topic: str) -> str:
    """Reviews."""
    return f"Review {topic}"


SIMPLE = (at_once, in_thread, logs, fails, breaks, asks)
REGION = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "note": {"type": "string"}},
}


def _waiting(desk: Desk) -> tuple[Callable[..., Any], ...]:
    """Return tools that wait until the test releases them."""

    async def slow(ctx: Context) -> str:
        """Says that it begins, then waits."""
        ctx.progress(1, 2)
        ctx.info("begun")
        desk.begun.set()
        try:
            await desk.go_on.wait()
        except asyncio.CancelledError:
            desk.cancelled.set()
            raise
        ctx.progress(2, 2)
        return "done"

    async def silent() -> str:
        """Waits without a word."""
        desk.begun.set()
        try:
            await desk.go_on.wait()
        except asyncio.CancelledError:
            desk.cancelled.set()
            raise
        return "done"

    return slow, silent


def offer(desk: Desk) -> None:
    """Put a small catalogue in use."""
    functions = (*SIMPLE, *_waiting(desk))
    tools = [tool_entry(function, number) for number, function in enumerate(functions, 1)]
    tools.append(tool_entry(regional, len(tools) + 1, input_schema=REGION))
    current_snapshot.replace(
        Catalogue(
            revision=5,
            revisions=dict.fromkeys(KINDS, 5),
            tools=tools,
            prompts=[prompt_entry(review, completions={"topic": ["tea", "tax"]})],
            resources=[resource_entry(notes, "notes://all", mime_type="text/plain")],
            templates=[resource_entry(item, "item://{key}")],
            page_size=4,
            secret=b"cursor",
        )
    )
