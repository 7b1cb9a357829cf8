"""Querying tools over HTTP on PostgreSQL: opened connections, and state left by a call."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.clients.raw_http import Mcp
from tests.clients.raw_wire import request_bytes
from tests.process.installation import free_port
from tests.servers import postgres
from tests.servers.live import LiveServer, eventually

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(postgres.binaries() is None, reason=postgres.MISSING),
]
CALLS = 1_000
# As in docs/operate/database.md: own queries, threads of tools, and short-lived connections.
DOCUMENTED = 8 + 8 + 3
KEPT_SECONDS = 10.0
POOL_SIZE = 4
POOLER = """
[databases]
mcp = host={folder} dbname=mcp user=mcp
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
"""


@pytest.fixture(scope="module")
def database() -> Iterator[postgres.PostgreSQL]:
    folder = Path(tempfile.mkdtemp(prefix="mcp-pg-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        running = stack.enter_context(postgres.PostgreSQL(folder))
        running.create_tables()
        yield running


@pytest.fixture(scope="module")
def live(database: postgres.PostgreSQL) -> Iterator[LiveServer]:
    settings = "tests.process.querying_app.settings"
    with LiveServer(1, settings=settings, env={"DATABASE_URL": database.url}) as server:
        yield server


@pytest.fixture
def pooled(database: postgres.PostgreSQL) -> Iterator[LiveServer]:
    """Return a server behind PgBouncer in transaction mode."""
    program, port = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin"), free_port()
    if program is None:
        pytest.skip("no PgBouncer: install the package pgbouncer")
    file = database.folder / "pgbouncer.ini"
    file.write_text(POOLER.format(folder=database.folder, port=port, size=POOL_SIZE))
    file.chmod(0o644)
    pooler = subprocess.Popen([*postgres.as_unprivileged(), program, "-q", str(file)], cwd=database.folder)
    try:
        address = f"postgresql://mcp@127.0.0.1:{port}/mcp"
        eventually(lambda: accepts(address), what="the pooler")
        settings = "tests.process.querying_app.settings"
        with LiveServer(1, settings=settings, env={"DATABASE_URL": address, "POOLED": "yes"}) as server:
            yield server
    finally:
        pooler.terminate()
        pooler.wait(20)


def accepts(address: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(address):
        return True
    return False


@pytest.fixture
def client(live: LiveServer) -> Iterator[Mcp]:
    with closing(live.mcp()) as made:
        made.initialize()
        yield made


async def at_once(client: Mcp, name: str, calls: int) -> list[Any]:
    """Return the results of concurrent calls of a tool, each on its own connection."""
    port = client.client.port
    opened = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(calls)))

    async def answer(reader: asyncio.StreamReader) -> Any:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = int(head.partition("content-length:")[2].partition("\r\n")[0])
        return json.loads(await reader.readexactly(size))["result"]["structuredContent"]["result"]

    try:
        for _, writer in opened:
            body = json.dumps(client.request_message("tools/call", {"name": name})).encode()
            writer.write(request_bytes("POST", client.path, client.client.authority, client.headers(), body))
        return await asyncio.gather(*(answer(reader) for reader, _ in opened))
    finally:
        for _, writer in opened:
            writer.close()


def value(client: Mcp, tool: str, **arguments: Any) -> Any:
    result = client.tool(tool, **arguments)["result"]
    assert not result.get("isError"), result
    return result["structuredContent"]["result"]


def test_thousand_concurrent_calls_respect_documented_connection_limit(
    client: Mcp, database: postgres.PostgreSQL
) -> None:
    found = asyncio.run(at_once(client, "look_up", CALLS))
    assert len(found) == CALLS
    pids = {pid for pid, _ in found}
    assert max(count for _, count in found) <= DOCUMENTED
    left = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)"
    with psycopg.connect(database.url, autocommit=True) as observer:

        def are_closed() -> bool:
            row = observer.execute(left, [list(pids)]).fetchone()
            return row is not None and row[0] == 0

        eventually(are_closed, KEPT_SECONDS + 5, "the end of the connections of tools")


def test_transaction_pooler_serves_thousand_calls_with_fewer_connections(
    pooled: LiveServer, database: postgres.PostgreSQL
) -> None:
    with psycopg.connect(database.url) as observer:
        row = observer.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = 'mcp' AND backend_type = 'client backend'"
        ).fetchone()
    assert row is not None
    with closing(pooled.mcp()) as client:
        client.initialize()
        found = asyncio.run(at_once(client, "look_up", CALLS))
        assert len(found) == CALLS
        assert max(count for _, count in found) <= row[0] + POOL_SIZE
        before = value(client, "groups")
        assert value(client, "leave_transaction_open")
        assert value(client, "groups") == before
        assert client.tool("enrol_whole", group="undone", fails=True)["result"]["isError"]
        assert value(client, "groups") == before


def test_atomic_requests_does_not_wrap_tool_in_transaction(client: Mcp) -> None:
    value(client, "enrol", group="first")
    assert client.tool("enrol", group="second", fails=True)["result"]["isError"]
    assert client.tool("enrol_whole", group="third", fails=True)["result"]["isError"]
    assert {"first", "second", "third"} & set(value(client, "groups")) == {"first", "second"}


def test_open_transaction_of_call_reaches_no_other_call(client: Mcp) -> None:
    before = value(client, "groups")
    assert all(asyncio.run(at_once(client, "leave_transaction_open", 50)))
    assert all(names == before for names in asyncio.run(at_once(client, "groups", 50)))


@pytest.mark.parametrize("changer", ["change", "change_in_thread"])
def test_language_and_time_zone_set_by_tool_end_with_call(client: Mcp, changer: str) -> None:
    before = value(client, "seen")
    assert value(client, "seen_in_thread") == before
    assert before != ["fr", "Asia/Tokyo"]
    assert value(client, changer) == ["fr", "Asia/Tokyo"]
    # On the same client connection, which has its own context, and on others.
    assert value(client, "seen") == before
    assert value(client, "seen_in_thread") == before
    assert all(each == before for each in asyncio.run(at_once(client, "seen", 20)))
