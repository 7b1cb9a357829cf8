"""subscriptions/listen of 2026-07-28 at two processes: events of any process reach every stream."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.bounds import SLACK
from tests.clients.raw_http import EventStream
from tests.clients.raw_modern import PREFIX, Modern
from tests.integration.http.conftest import OpenSession
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import LiveServer, eventually

TOOLS = {"toolsListChanged": True}
CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
WATCHED = "fault://resource"
SUBSCRIPTION = PREFIX + "subscriptionId"
# No worker runs here, so the test writes the session records.
RECORD = """
from mcp_app.models import Session
from mcp_app.message_log.writer import drain_once
from mcp_app.sessions.services import end_session_now
from mcp_app.streams.stores.message_queue import SyncMessageQueue
queue = SyncMessageQueue.connect()
while drain_once(queue): pass
queue.close()
rows = Session.objects.filter(pk__regex="^x-[0-9a-f]{30}$", address="127.0.0.1", ended_at=None)
"""


def listen(live: LiveServer, process: int, asked: dict[str, Any], request_id: Any = 1) -> EventStream:
    """Open a stream that acknowledges the whole filter."""
    stream = Modern(live.ports[process], request_id=request_id).listen(asked)
    told = stream.message()
    assert told["method"] == "notifications/subscriptions/acknowledged"
    assert told["params"] == {"notifications": asked, "_meta": {SUBSCRIPTION: request_id}}
    return stream


def told(stream: EventStream) -> tuple[str, Any]:
    message = stream.message(3)
    return message["method"], message["params"]["_meta"][SUBSCRIPTION]


@pytest.fixture(autouse=True)
def _spare_is_on(admin: OtherProcess, live: LiveServer) -> None:
    """Enable the tool ``spare`` in both processes, so that no test receives the notification of this
    switch.
    """
    admin.switch("spare", on=True)
    for port in live.ports:
        client = Modern(port)
        eventually(lambda at=client: "spare" in str(at.request("tools/list", {})), 5, "the tool is offered")  # type: ignore[misc]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as held:
        yield held


@pytest.mark.requirement("SUB-05", "SUB-06", "SUB-07")
def test_change_by_another_process_reaches_every_stream_within_a_second(
    live: LiveServer, admin: OtherProcess, stack: ExitStack
) -> None:
    ids = (0, "x", 0, "x")
    streams = [
        stack.enter_context(listen(live, process % 2, TOOLS, request_id))
        for process, request_id in enumerate(ids)
    ]
    other = stack.enter_context(listen(live, 0, {"promptsListChanged": True}))
    for on in (False, True):
        changed = admin.switch("spare", on=on)
        for stream, request_id in zip(streams, ids, strict=True):
            assert told(stream) == (CHANGED, request_id)
            assert time.time() - changed < 1 + SLACK
        names = str(Modern(live.ports[1]).request("tools/list", {}))
        assert ("'spare'" in names) == on
    assert other.quiet(0.2)


@pytest.mark.requirement("SUB-06", "RES-11")
def test_resource_update_reaches_all_processes_and_legacy_clients(
    live: LiveServer, open_session: OpenSession, stack: ExitStack
) -> None:
    asked = {"resourceSubscriptions": [WATCHED]}
    streams = [stack.enter_context(listen(live, process, asked, process)) for process in (0, 1)]
    older = open_session(process=1)
    older.call("resources/subscribe", {"uri": WATCHED})
    reading = stack.enter_context(older.get_stream())
    Modern(live.ports[0]).request("tools/call", {"name": "touch", "arguments": {"uri": WATCHED}})
    for number, stream in enumerate(streams):
        message = stream.message(3)
        assert (message["method"], message["params"]["uri"]) == (UPDATED, WATCHED)
        assert message["params"]["_meta"] == {SUBSCRIPTION: number}
    assert reading.message(3) == {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": WATCHED}}


@pytest.mark.requirement("SUB-09", "T-MOD-04")
def test_stopping_process_completes_its_listen_requests(live: LiveServer, stack: ExitStack) -> None:
    streams = [stack.enter_context(listen(live, 1, TOOLS, request_id)) for request_id in (0, "x")]
    live.restart(1, signal.SIGTERM)
    for stream, request_id in zip(streams, (0, "x"), strict=True):
        (last,) = stream.messages(3)
        assert last["id"] == request_id
        assert last["result"]["resultType"] == "complete"
        assert last["result"]["_meta"][SUBSCRIPTION] == request_id


@pytest.mark.requirement("SUB-13")
def test_open_stream_is_recorded_and_ended_on_disconnect(live: LiveServer, admin: OtherProcess) -> None:
    def open_ones() -> int:
        return int(admin.run(RECORD + "result = rows.count()"))

    eventually(lambda: open_ones() == 0, 10, "those of other tests are ended")
    stream = listen(live, 0, {})
    eventually(lambda: open_ones() == 1, 10, "the stream is on record")
    stream.cut()
    eventually(lambda: open_ones() == 0, 10, "its end is on record")


@pytest.mark.requirement("SUB-09")
def test_operator_ends_a_stream_of_any_process(
    live: LiveServer, admin: OtherProcess, stack: ExitStack
) -> None:
    stream = stack.enter_context(listen(live, 1, TOOLS, "mine"))
    end = RECORD + "result = sum(end_session_now(session_id=row.pk) for row in rows)"
    eventually(lambda: admin.run(end), 10, "it is on record")
    assert stream.message()["result"]["_meta"][SUBSCRIPTION] == "mine"
    assert stream.message() is None
