"""The same ASGI application on Daphne, which ``runserver`` uses and which sends no startup event."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from mcpsite.redis_server import RedisServer
from tests.clients.raw_http import Mcp, RawClient
from tests.process.installation import PASSED_ON, ROOT, free_port, wait_until
from tests.process.test_up import status_of
from tests.samples.migrated import migrated

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("daphne")
    port = free_port()
    inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment = {**inherited, "DATA_DIR": str(folder), "PORT": str(port), "REDIS_URL": redis_server.url}
    manage = [sys.executable, "manage.py"]
    # Only the tables: the first request mirrors the catalogue here.
    (folder / "db.sqlite3").write_bytes(migrated(ROOT, "mcpsite.settings"))
    with (folder / "daphne.log").open("wb") as log:
        server = subprocess.Popen(
            [*manage, "runserver", "--noreload", f"127.0.0.1:{port}"],
            cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        wait_until(lambda: status_of(port, "/healthz") == 200, 30.0, "Daphne answers")
        yield port
    finally:
        server.terminate()
        server.wait(20)
    assert "Starting ASGI/Daphne" in (folder / "daphne.log").read_text()


def test_session_opens_and_tool_answers(port: int) -> None:
    with closing(Mcp.at(port)) as client:
        client.initialize()
        assert client.tool("add", a=2, b=3)["result"]["structuredContent"] == {"result": 5}
        assert client.delete().status in (200, 204)


def test_events_arrive_while_stream_stays_open(port: int) -> None:
    with closing(Mcp.at(port)) as client:
        client.initialize()
        with client.get_stream() as stream:
            event = stream.next(10.0)
            assert event is not None
            assert event.id


def test_admin_is_served_with_styles(port: int) -> None:
    assert status_of(port, "/admin/login/") == 200
    assert status_of(port, "/static/unfold/css/styles.css") == 200


def test_websocket_is_refused(port: int) -> None:
    upgrade = (
        b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with RawClient("127.0.0.1", port) as client:
        assert client.exchange(upgrade, "GET").status == 403
