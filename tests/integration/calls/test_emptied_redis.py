"""Redis is emptied: open streams deliver later messages, and returning clients are served."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from tests.clients.raw_http import Answer, Mcp
from tests.integration.calls.conftest import CAPABILITIES, Installation, unexplained
from tests.servers.live import eventually

GAP = "Earlier messages of this stream are no longer kept."


@pytest.fixture(scope="module")
def server() -> Iterator[Installation]:
    with Installation(2, settings="tests.integration.http.settings", worker=True) as server:
        assert isinstance(server, Installation)
        yield server
        assert not unexplained(server), server.logs()[-4000:]


@pytest.fixture
def session(server: Installation) -> Iterator[Mcp]:
    """Open a session whose record is in the database."""
    with closing(server.mcp(0)) as client:
        client.initialize(capabilities=CAPABILITIES)
        with closing(sqlite3.connect(server.folder / "data" / "db.sqlite3")) as database:
            query = "SELECT 1 FROM mcp_app_session WHERE id = ?"
            found = lambda: database.execute(query, [client.session]).fetchone()  # noqa: E731
            eventually(found, 20, "the session's record")
        yield client


def warnings(messages: list[Any]) -> list[str]:
    """Return the server's own warnings on a stream."""
    found = [each["params"] for each in messages if each.get("method") == "notifications/message"]
    return [each["data"] for each in found if each["logger"] == "mcp.stream"]


def empty(server: Installation) -> None:
    with redis.Redis.from_url(server.redis.url, protocol=2) as client:
        client.flushall()


def test_call_is_resumed_at_its_process_after_redis_was_emptied(server: Installation, session: Mcp) -> None:
    arguments = {"name": "resumed", "seconds": 4.0}
    with session.open_call("tools/call", {"name": "hold", "arguments": arguments}) as stream:
        stream.next()
        position = str(stream.last_event_id)
        empty(server)
    answer = session.via(server.ports[1]).try_get_stream(position)
    assert isinstance(answer, Answer)  # The other process cannot know whether the call will be answered.
    assert answer.status == 400
    with session.get_stream(position) as resumed:
        messages = resumed.messages(30)
    assert warnings(messages) == [GAP]
    assert messages[-1]["result"]["content"][0]["text"] == "resumed"


def test_standalone_stream_continues_with_a_gap_warning(server: Installation, session: Mcp) -> None:
    with session.get_stream() as stream:
        stream.next()
        position = str(stream.last_event_id)
        empty(server)
        assert warnings([stream.message(30)]) == [GAP]
    for process in (0, 1):  # A client that keeps its last event id is served each time.
        with session.via(server.ports[process]).get_stream(position) as again:
            assert warnings([again.message()]) == [GAP]
