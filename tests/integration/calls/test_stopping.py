"""Cancelling background calls: within the bounds of R8, from any process, without affecting other calls."""

from __future__ import annotations

import time

import psutil
import pytest

from tests.clients.raw_http import Mcp
from tests.integration.calls.conftest import Installation, OpenSession, start_call, text_of
from tests.servers.live import eventually

pytestmark = pytest.mark.process

CANCELLED = -32800
# The machine is shared, so timing assertions have some slack.
AIR_SECONDS = 0.5


def cancel(client: Mcp, nonce: str) -> float:
    """Send the cancellation; return the time of sending."""
    sent = time.monotonic()
    assert client.notify("notifications/cancelled", {"requestId": nonce, "reason": "enough"}).status == 202
    return sent


@pytest.mark.parametrize(
    ("tool", "seconds"),
    [("work", 1.0), ("work_in_thread", 2.0), ("spin", 7.0), ("doze", 7.0), ("listen", 7.0), ("hog", 7.0)],
)
@pytest.mark.requirement("CAN-01", "CAN-02", "CAN-04")
def test_cancellation_stops_the_work_in_time_and_spares_other_calls(
    live: Installation, client: Mcp, elsewhere: Mcp, nonce: str, tool: str, seconds: float
) -> None:
    neighbour = f"{nonce}-neighbour"
    with (
        start_call(client, "work_once", nonce=neighbour, steps=round(12 * seconds), delay=0.1) as beside,
        start_call(
            client, tool, nonce=nonce, **({"steps": 600} if "work" in tool else {"seconds": 60})
        ) as stream,
    ):
        live.started(nonce, "alive")
        live.started(neighbour, "alive")
        sent = cancel(elsewhere, nonce)
        eventually(
            lambda: time.monotonic() > sent + seconds + AIR_SECONDS or live.lines(nonce, "stopped"), 10
        )
        assert live.still_for(nonce, 0.5)
        assert live.lines(nonce)[-1].at - sent < seconds + AIR_SECONDS
        answer = stream.messages(30)[-1]
        assert answer["error"]["code"] == CANCELLED
        assert text_of(beside.messages(30)[-1]).startswith(neighbour)
    assert len(live.lines(neighbour, "start")) == 1


def test_uncooperative_call_is_killed_with_its_process(live: Installation, client: Mcp, nonce: str) -> None:
    with start_call(client, "spin", nonce=nonce, seconds=60):
        pid = live.started(nonce, "alive").pid
        assert pid in live.worker_processes[0].children
        cancel(client, nonce)
        eventually(lambda: pid not in live.worker_processes[0].children, 7 + AIR_SECONDS, "its end")
        assert live.still_for(nonce, 0.5)
        # Celery collects the process at its next check, up to 5 seconds later.
        eventually(lambda: not psutil.pid_exists(pid), 10, "that nothing is left of it")
    eventually(lambda: len(live.worker_processes[0].children) == 2, 10, "a new child")


@pytest.mark.requirement("CAN-03")
def test_call_cancelled_before_its_start_never_starts(live: Installation, client: Mcp, nonce: str) -> None:
    busy = [start_call(client, "doze", nonce=f"{nonce}-{number}", seconds=3) for number in range(2)]
    for number in range(2):
        live.started(f"{nonce}-{number}")
    with start_call(client, "work", nonce=nonce, steps=3) as queued:
        cancel(client, nonce)
        assert queued.message(2)["error"]["code"] == CANCELLED
    for stream in busy:
        with stream:
            assert "result" in stream.messages()[-1]
    assert client.tool("repeat", value="after it in the queue")["result"]
    assert live.lines(nonce) == []


@pytest.mark.requirement("SES-06", "SES-07")
def test_ending_the_session_stops_its_calls(
    live: Installation, client: Mcp, elsewhere: Mcp, nonce: str
) -> None:
    stream = start_call(client, "work", nonce=nonce, steps=600)
    live.started(nonce, "alive")
    sent = time.monotonic()
    assert elsewhere.delete().status in (200, 204)
    with stream:
        stream.messages(5)
    assert live.started(nonce, "stopped").at - sent < 1 + AIR_SECONDS
    assert live.still_for(nonce, 0.5)


@pytest.mark.requirement("CAN-03", "SES-05")
def test_another_session_cannot_cancel_a_call(
    live: Installation, client: Mcp, open_session: OpenSession, nonce: str
) -> None:
    stranger = open_session(process=1)
    with start_call(client, "work", nonce=nonce, steps=10) as stream:
        live.started(nonce, "alive")
        cancel(stranger, nonce)
        assert text_of(stream.messages()[-1]).startswith(nonce)


@pytest.mark.requirement("CAN-03")
def test_cancellation_after_the_response_changes_nothing(client: Mcp, nonce: str) -> None:
    with start_call(client, "work", nonce=nonce, steps=1, delay=0) as stream:
        first = stream.next()
        answer = stream.messages()[-1]
    cancel(client, nonce)
    assert first is not None
    with client.get_stream(str(first.id)) as again:
        assert again.messages()[-1] == answer
