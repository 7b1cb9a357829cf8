"""The calls of one process: admission, lookup for cancellation, shutdown, cleanup."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.calls.context import Context
from mcp_app.message_log.log import ANSWER, OUTCOME, PAYLOAD
from mcp_app.protocol.errors import InvalidRequest, TooManyRequests
from mcp_app.sessions.exchange import Exchange
from mcp_app.streams.gateway import Streams
from tests.clients.envelopes import envelope_of
from tests.unit.execution.stage import CANCELLED, DONE, Stage, at_once, begun, in_thread, never
from tests.views import SERVER

OTHER = Principal(key="other", name="other", permissions=frozenset())


@pytest.mark.requirement("RPC-03")
async def test_in_flight_request_id_is_refused_until_answered(stage: Stage) -> None:
    call = stage.start(never)
    with pytest.raises(InvalidRequest, match="still in flight") as refused:
        stage.start(at_once)
    assert refused.value.http_status == 200
    assert stage.calls.running == 1
    await begun(call)
    call.cancel("")
    assert await stage.said(call) == [CANCELLED]
    assert await stage.said(stage.start(at_once)) == [DONE]


async def test_integer_and_string_request_ids_are_distinct(stage: Stage) -> None:
    calls = [stage.start(at_once, request_id=request_id) for request_id in (1, "1")]
    assert [(await stage.said(call))[0]["id"] for call in calls] == [1, "1"]


@pytest.mark.requirement("SEC-07")
async def test_running_calls_are_bounded_per_principal(
    streams: Streams,
) -> None:
    stage = Stage(streams, max_running_calls_per_principal=2)
    calls = [stage.start(never, request_id=number) for number in range(2)]
    with pytest.raises(TooManyRequests) as refused:
        stage.start(at_once, request_id=2)
    assert refused.value.http_status == 429
    assert 2 not in stage.session.in_flight
    calls.append(stage.start(never, request_id=3, principal=OTHER))
    calls[0].cancel("")
    await stage.said(calls[0])
    assert "result" in (await stage.said(stage.start(at_once, request_id=4)))[0]
    await stage.calls.close(0.001)
    assert not stage.calls.shares


@pytest.mark.requirement("CAN-01", "CAN-03")
async def test_cancel_affects_exactly_the_named_call(stage: Stage) -> None:
    call = stage.start(never)
    await begun(call)
    assert not stage.calls.cancel(stage.session.id, "1", "")
    assert not stage.calls.cancel(stage.session.id, 2, "")
    assert not stage.calls.cancel("another session", 1, "")
    assert not call.stopped
    assert stage.calls.cancel(stage.session.id, 1, "")
    assert await stage.said(call) == [CANCELLED]
    assert not stage.calls.cancel(stage.session.id, 1, "")


async def test_cancel_by_record_id_stops_modern_request(streams: Streams) -> None:
    mine, other = (Exchange(envelope_of({}, {"name": name}), LOOPBACK.key, SERVER) for name in "ab")
    stage = Stage(streams, mine)
    call = stage.start(never)
    await begun(call)
    assert stage.calls.in_flight() == {mine.record_id: [call]}
    assert not stage.calls.cancel(other.record_id, 1, "")
    assert not stage.calls.cancel(mine.record_id, 2, "")
    assert stage.calls.cancel(mine.record_id, 1, "")
    (said,) = await stage.said(call)
    assert said["error"]["code"] == -32603  # This era publishes no error code for cancellation.


@pytest.mark.requirement("CAN-04")
async def test_cancel_broadcast_from_another_process_stops_call(stage: Stage) -> None:
    call = stage.start(never)
    stage.calls.on_cancel({"resync": True})
    stage.calls.on_cancel({"session": stage.session.id, "request_id": 9})
    await begun(call)
    stage.calls.on_cancel({"session": stage.session.id, "request_id": 1, "reason": "elsewhere"})
    assert await stage.said(call) == [CANCELLED]


async def test_call_timeout_is_capped_by_server_maximum(streams: Streams) -> None:
    stage = Stage(streams, tool_timeout_max_seconds=5.0)
    assert [stage.start(at_once, request_id=t, timeout=t).timeout for t in (1.0, 5.0, 9.0)] == [1.0, 5.0, 5.0]


async def test_shutdown_waits_for_finishing_calls(stage: Stage) -> None:
    go_on = asyncio.Event()

    async def work(call: RunningCall, context: Context) -> dict[str, object]:
        await go_on.wait()
        return DONE["result"]

    call = stage.start(work)
    closing = asyncio.create_task(stage.calls.close(60))
    await begun(call)
    assert not closing.done()
    go_on.set()
    await closing
    assert (call.outcome, call.reply.answers != []) == ("ok", True)


async def test_shutdown_stops_remaining_calls_with_error(stage: Stage) -> None:
    calls = [stage.start(never, request_id=number) for number in range(3)]
    free = threading.Event()
    work = in_thread(lambda context: free.wait(5) and context.roots())
    calls.append(stage.start(work, request_id="in a thread"))
    await stage.calls.close(0.01)
    assert [call.outcome for call in calls] == ["error"] * 4
    assert all(call.stopped for call in calls)
    assert b"The server is stopping." in calls[0].reply.answers[0]
    assert not stage.session.in_flight
    free.set()


async def test_shutdown_of_idle_process_is_immediate(stage: Stage) -> None:
    async with asyncio.timeout(5):
        await stage.calls.close(3600)
    assert stage.calls.running == 0


async def test_each_call_is_one_message_log_line(streams: Streams) -> None:
    stage = Stage(streams)
    stage.log.enabled = True
    call = stage.start(at_once, request_id="r")
    await stage.said(call)
    (line,) = stage.log._pending
    assert line[:2] == (stage.session.id, LOOPBACK.key)
    assert line[PAYLOAD] == call.payload
    assert line[ANSWER] == call.reply.answers[0]
    assert line[OUTCOME:] == ("ok", ("tools/call", "r", "target"), "", ())


async def test_finished_call_leaves_no_garbage_cycles(stage: Stage) -> None:
    def calls() -> int:
        return sum(type(thing) is RunningCall for thing in gc.get_objects())

    await stage.said(stage.start(at_once))
    gc.collect()
    gc.disable()
    try:
        before = calls()
        await stage.said(stage.start(at_once, request_id=2))
        assert calls() == before
    finally:
        gc.enable()
