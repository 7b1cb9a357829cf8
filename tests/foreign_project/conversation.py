"""Expectations of the official client, and of a plain one, of the foreign project."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.clients.raw_http import Mcp, RawClient

WRITTEN = {"count_orders", "latest_products", "yearly_report"}
EXPOSED = {"orders_create", "orders_list", "orders_retrieve", "sales_get", "sales_list"}
STOP_SECONDS = 30.0
# Those of the owner of the key.
ORDERS = [{"id": 1, "product": "Lamp", "year": 2025}]
# In a year without other orders.
NEW_ORDER = {"product": "Lamp", "year": 2023}


async def hold(port: int, key: str = "", *, is_exposed: bool = False) -> None:
    """List and call all tools on both sides of 2026-07-28; the background one with progress."""
    for mode in ("legacy", "auto"):
        async with Client(_transport(port, key), mode=mode) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert listed == (WRITTEN | EXPOSED if is_exposed else WRITTEN), listed
            await _call_written(client)
            if is_exposed:
                await _call_exposed(client)


async def order(port: int, key: str) -> None:
    """Create one order as the user of the key."""
    async with Client(_transport(port, key)) as client:
        await _create_an_order(client)


def _transport(port: int, key: str) -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return streamable_http_client(
        f"http://127.0.0.1:{port}/mcp", http_client=httpx2.AsyncClient(headers=headers, timeout=60)
    )


async def _call_written(client: Client) -> None:
    counted = await client.call_tool("count_orders", {"year": 2026})
    assert counted.structured_content == {"result": 0}, counted
    latest = await client.call_tool("latest_products", {"limit": 0})
    assert latest.structured_content == {"result": []}, latest
    told: list[float] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    report = await client.call_tool("yearly_report", {"year": 2026}, progress_callback=heard)
    text: Any = report.content[0]
    assert text.text == "0 orders in 2026", report
    assert told, "no progress was told"


async def _call_exposed(client: Client) -> None:
    own = await client.call_tool("orders_list", {})
    assert own.structured_content is not None
    assert own.structured_content["result"][:1] == ORDERS, own
    one = await client.call_tool("orders_retrieve", {"pk": 1})
    assert one.structured_content == ORDERS[0], one
    of_another = await client.call_tool("orders_retrieve", {"pk": 2})
    assert of_another.is_error, of_another
    sold = await client.call_tool("sales_list", {"year": 2025})
    assert sold.structured_content is not None
    assert [row["id"] for row in sold.structured_content["rows"]] == [1, 2], sold
    row = await client.call_tool("sales_get", {"pk": 1})
    assert row.structured_content == ORDERS[0], row
    await _create_an_order(client)


async def _create_an_order(client: Client) -> None:
    """Create an order through the project's own viewset, and read it back."""
    made = await client.call_tool("orders_create", NEW_ORDER)
    assert made.structured_content is not None, made
    key = made.structured_content["id"]
    assert made.structured_content == {"id": key, **NEW_ORDER}, made
    again = await client.call_tool("orders_retrieve", {"pk": key})
    assert again.structured_content == made.structured_content, again
    refused = await client.call_tool("orders_create", {**NEW_ORDER, "product": "Nothing we ever sold"})
    assert refused.is_error, refused


def stops_with_an_open_stream(
    port: int, process: subprocess.Popen[bytes], key: str = "", *, is_told: bool = True
) -> None:
    """Check that a listening client does not delay shutdown; with ``is_told``, its stream ends properly."""
    client = Mcp.at(port, token=key or None)
    client.initialize()
    with client.get_stream() as stream:
        stream.next(10.0)
        process.terminate()
        begun = time.monotonic()
        while is_told and stream.next(STOP_SECONDS) is not None:
            pass
        process.wait(STOP_SECONDS)
        print(f"   stopped after {time.monotonic() - begun:.1f} s", flush=True)
    client.close()


def everything_else_is_the_projects(project: Any) -> None:
    """Check project URLs, library URLs beside them, and library pages in the project's URLconf."""
    expected = {
        "/api/orders/": 403,
        "/admin/login/": 200,
        "/ops/connect/": 200,
        "/ops/server.json": 200,
        "/ops/console/": 404,  # Channels is not installed yet.
        "/ops/api/": 404,  # drf-spectacular is not installed yet.
        "/nowhere/": 404,
        "/metrics": 200,
        "/healthz": 200,
    }
    found = {path: project.status(path) for path in expected}
    assert found == expected, found
    with RawClient("127.0.0.1", project.port) as client:
        assert b'"lifespan"' not in client.request("GET", "/healthz").body
