"""The load of the background rows: single calls for latencies, concurrent calls for the rate."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import orjson

from benchmarks import scenarios
from benchmarks.load import WrongAnswer
from tests.clients.raw_http import EventStream, Mcp, events_of
from tests.servers.live import LiveServer, eventually

END_OF_BODY = b"0\r\n\r\n"
AT_ONCE = 16


def _text(message: dict[str, Any]) -> str:
    try:
        text: str = message["result"]["content"][0]["text"]
    except (KeyError, IndexError, TypeError):
        raise WrongAnswer(f"not a result: {json.dumps(message)[:300]}") from None
    return text


def _open(client: Mcp, tool: str, number: int, **arguments: Any) -> EventStream:
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": number}}
    message = {"jsonrpc": "2.0", "id": f"{tool}-{number}", "method": "tools/call", "params": params}
    found = client.client.open_stream("POST", client.path, client.headers(), orjson.dumps(message))
    if not isinstance(found, EventStream):
        raise WrongAnswer(f"{found.status} {found.body[:300]!r}")
    return found


def start_seconds(
    connection: HTTPConnection, headers: dict[str, str], number: int, database: Path
) -> tuple[float, float]:
    """Return the seconds to the call's first line:

    from its POST on an open connection, and from acceptance.
    """
    params = {"name": "start", "arguments": {}}
    message = {"jsonrpc": "2.0", "id": f"start-{number}", "method": "tools/call", "params": params}
    body = orjson.dumps(message)
    sent = time.monotonic()
    connection.request("POST", "/mcp", body, headers)
    answer = events_of(connection.getresponse().read())[-1]
    monotonic, wall = map(float, _text(json.loads(answer.data)).split())
    return monotonic - sent, wall - _accepted_at(database)


def _accepted_at(database: Path) -> float:
    with closing(sqlite3.connect(database)) as opened:
        (text,) = opened.execute("SELECT max(accepted_at) FROM mcp_app_call").fetchone()
    said = datetime.fromisoformat(text).replace(tzinfo=UTC)
    # SQLite's clock truncates to milliseconds: on average it is half a millisecond early.
    left_out = 0.0 if said.microsecond % 1000 else 0.0005
    return said.timestamp() + left_out


def progress_seconds(client: Mcp, number: int, count: int) -> list[float]:
    """Return the seconds from each report of a tool to its arrival here."""
    found = []
    with _open(client, "report", number, count=count) as stream:
        for _ in range(count):
            message = stream.message()
            arrived = time.monotonic()
            if message is None or message.get("method") != "notifications/progress":
                raise WrongAnswer(f"not progress: {message}")
            found.append(arrived - float(message["params"]["message"]))
        if _text(stream.message()) != "done":
            raise WrongAnswer("the reporting tool did not end")
    return found


def stop_seconds(client: Mcp, number: int, stopped: Path) -> float:
    """Return the seconds from the cancellation of a call to the last line of its tool."""
    stopped.unlink(missing_ok=True)
    with _open(client, "hold", number) as stream:
        if stream.message().get("method") != "notifications/message":
            raise WrongAnswer("the tool to be stopped did not start")
        sent = time.monotonic()
        client.notify("notifications/cancelled", {"requestId": f"hold-{number}"})
        eventually(lambda: stopped.exists() and stopped.read_text(), 10, "the end of the tool")
        if "error" not in stream.message():
            raise WrongAnswer("the cancelled call was answered")
    return float(stopped.read_text()) - sent


def open_session(server: LiveServer) -> Mcp:
    with closing(server.mcp(0)) as client:
        client.initialize()
    return client.via(server.ports[0])


async def calls_per_second(port: int, headers: dict[str, str], seconds: float, mark: str) -> float:
    """Return completed calls per second with ``AT_ONCE`` calls in flight."""
    deadline = time.monotonic() + seconds
    began = time.monotonic()
    counts = await asyncio.gather(
        *(_caller(port, headers, deadline, f"{mark}-{each}") for each in range(AT_ONCE))
    )
    return sum(counts) / (time.monotonic() - began)


async def _caller(port: int, headers: dict[str, str], deadline: float, mark: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while time.monotonic() < deadline:
        count += 1
        params = {"name": "start", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": f"{mark}-{count}", "method": "tools/call", "params": params}
        writer.write(scenarios.request(port, "POST", headers, message))
        answer = await reader.readuntil(END_OF_BODY)
        if b'"result"' not in answer or b'"isError"' in answer or f'"{mark}-{count}"'.encode() not in answer:
            raise WrongAnswer(f"{answer[-400:]!r}")
    writer.close()
    await writer.wait_closed()
    return count
