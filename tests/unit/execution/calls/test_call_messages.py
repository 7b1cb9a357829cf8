"""Messages of a running call: progress, logs and questions, from loop and threads; silence after its end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import orjson
import pytest

from mcp_app.catalogue.definitions.content import CannotAsk
from mcp_app.execution.calls.call import Cancelled, RunningCall
from mcp_app.execution.calls.context import Context
from mcp_app.execution.calls.reply import Reply
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams
from tests.unit.execution.stage import (
    CANCELLED,
    DONE,
    Stage,
    begun,
    in_thread,
    never,
    result,
    session_with,
)
from tests.unit.execution.store import moody


@pytest.mark.requirement("PROG-01", "PROG-02")
async def test_progress_increases_and_carries_token(stage: Stage) -> None:
    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        for progress in (1, 1, 0.5, 2):
            context.progress(progress, 2, f"at {progress}")
        return result()

    said = await stage.said(stage.start(work, progress_token=7))
    assert [message["params"] for message in said[:-1]] == [
        {"progressToken": 7, "progress": 1, "total": 2, "message": "at 1"},
        {"progressToken": 7, "progress": 2, "total": 2, "message": "at 2"},
    ]


async def test_non_waiting_call_is_answered_after_its_messages(stage: Stage) -> None:
    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        context.progress(1)
        context.info("on the way")
        return result()

    call = stage.start(work, waits=False)
    assert (call.outcome, call.task, stage.calls.running) == ("ok", None, 0)
    said = await stage.said(call)
    assert [message.get("method") for message in said] == [
        "notifications/progress",
        "notifications/message",
        None,
    ]
    assert said[-1] == DONE


async def test_non_waiting_call_failure_becomes_error_answer(stage: Stage) -> None:
    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        raise ValueError

    call = stage.start(work, waits=False)
    assert call.outcome == "error"
    assert (await stage.said(call))[0]["error"]["code"] == -32603


@pytest.mark.requirement("PROG-01")
async def test_progress_without_token_is_not_sent(stage: Stage) -> None:
    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        context.progress(1)
        return result()

    call = stage.start(work, progress_token=None)
    assert await stage.said(call) == [DONE]
    assert call.reply.stream == ""


@pytest.mark.requirement("PROG-04")
@pytest.mark.parametrize("threaded", [False, True])
async def test_frequent_progress_is_throttled_but_last_value_is_sent(stage: Stage, threaded: bool) -> None:
    def report(context: Context) -> str:
        for progress in range(1, 500):
            context.progress(progress)
        return "done"

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        report(context)
        return result()

    said = await stage.said(stage.start(in_thread(report) if threaded else work))
    values = [message["params"]["progress"] for message in said[:-1]]
    assert values[-1] == 499
    assert len(values) < 20
    assert "result" in said[-1]


async def test_throttled_progress_is_sent_without_further_report(streams: Streams) -> None:
    stage = Stage(streams, progress_per_second=1000.0)

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        for progress in range(1, 100):
            context.progress(progress)
        return await never(call, context)

    call = stage.start(work)
    assert not await call.reply.settled(3600)
    reader = streams.reader(stage.session.id, call.reply.stream, call.reply.epoch, 0)
    newest = None
    async with asyncio.timeout(5):
        while newest != 99:
            newest = orjson.loads((await reader.next(1))[-1].data)["params"]["progress"]
    reader.close()
    await stage.calls.close(0.001)


@pytest.mark.requirement("PROG-03")
async def test_call_is_silent_after_its_end(stage: Stage) -> None:
    kept: list[Context] = []

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        kept.append(context)
        context.info("before")
        return result()

    reply = Reply(stage.streams, stage.session, 2)
    call = stage.start(work, reply=reply)
    other = stage.start(never, request_id=2, reply=reply)
    while not call.outcome:
        await asyncio.sleep(0)
    kept[0].info("after")
    kept[0].progress(1)
    kept[0].close_stream()
    await asyncio.to_thread(kept[0].info, "after, from a thread")
    await asyncio.to_thread(kept[0].progress, 2)
    with pytest.raises(Cancelled):
        await kept[0].aroots()
    with pytest.raises(Cancelled):
        await asyncio.to_thread(kept[0].roots)
    await begun(other)
    other.cancel("")
    said = await stage.said(call)
    assert [message.get("params", {}).get("data") for message in said] == ["before", None, None]


@pytest.mark.requirement("PROG-03")
async def test_cancelled_call_drops_throttled_progress(stage: Stage) -> None:
    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        for progress in range(1, 100):
            context.progress(progress)
        return await never(call, context)

    call = stage.start(work)
    await begun(call)
    call.cancel("")
    said = await stage.said(call)
    assert 99 not in [message.get("params", {}).get("progress") for message in said]


@pytest.mark.requirement("LOG-02")
async def test_log_messages_below_session_level_are_not_sent(stage: Stage) -> None:
    stage.session.log_level = "warning"

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        context.info("no")
        context.warning("yes")
        context.log("emergency", "very", logger="own")
        return result()

    said = await stage.said(stage.start(work))
    assert [message["params"] for message in said[:-1]] == [
        {"level": "warning", "logger": "target", "data": "yes"},
        {"level": "emergency", "logger": "own", "data": "very"},
    ]


@pytest.mark.requirement("LOG-06")
async def test_log_messages_above_limit_are_dropped_with_one_warning(streams: Streams) -> None:
    stage = Stage(streams, log_messages_per_call=2)

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        for number in range(10):
            context.info(number)
        return result()

    said = await stage.said(stage.start(work))
    assert [message["params"]["data"] for message in said[:2]] == [0, 1]
    assert said[2]["params"]["level"] == "warning"
    assert "More than 2" in said[2]["params"]["data"]
    assert len(said) == 4


async def test_logged_data_is_copied_when_logged(stage: Stage) -> None:
    def log(context: Context) -> str:
        data = {"state": "first"}
        context.info(data)
        data["state"] = "second"
        return "done"

    said = await stage.said(stage.start(in_thread(log)))
    assert said[0]["params"]["data"] == {"state": "first"}


@pytest.mark.parametrize("progress", [float("nan"), float("inf"), True, "1"])
@pytest.mark.parametrize("threaded", [False, True])
async def test_non_finite_progress_raises_in_caller(stage: Stage, progress: Any, threaded: bool) -> None:
    def report(context: Context) -> str:
        with pytest.raises(ValueError, match="finite number"):
            context.progress(progress)
        return "done"

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        report(context)
        return result()

    assert await stage.said(stage.start(in_thread(report) if threaded else work)) == [DONE]


async def test_messages_of_thread_precede_its_result(stage: Stage) -> None:
    def talk(context: Context) -> str:
        for number in range(50):
            context.info(number)
        return "done"

    said = await stage.said(stage.start(in_thread(talk)))
    assert [message["params"]["data"] for message in said[:-1]] == list(range(50))


async def test_thread_waits_for_answer_to_its_question(stage: Stage) -> None:
    call = stage.start(in_thread(lambda context: context.roots()[0]["uri"]))
    await stage.answer(call, {"roots": [{"uri": "file:///home"}]})
    assert (await stage.said(call))[-1]["result"] == result("file:///home")


@pytest.mark.parametrize("by", ["cancel", "deadline", "shutdown"])
async def test_stopped_call_releases_thread_waiting_for_answer(stage: Stage, by: str) -> None:
    released: list[type[BaseException]] = []
    gone = threading.Event()

    def ask(context: Context) -> None:
        try:
            context.roots()
        except BaseException as error:
            released.append(type(error))
            raise
        finally:
            gone.set()

    call = stage.start(in_thread(ask))
    question = await stage.question(call)
    call._stop(by)
    said = await stage.said(call)
    assert await asyncio.to_thread(gone.wait, 5)
    assert released == [Cancelled]
    assert said[-2]["method"] == "notifications/cancelled"
    assert said[-2]["params"]["requestId"] == question["id"]


async def test_question_of_stopped_thread_is_refused_immediately(stage: Stage) -> None:
    stopped = threading.Event()
    refused: list[int] = []
    gone = threading.Event()

    def ask(context: Context) -> None:
        stopped.wait(5)
        for question in (context.roots, lambda: context.read_resource("a://b")):
            try:
                question()
            except Cancelled:
                refused.append(1)
        gone.set()

    call = stage.start(in_thread(ask))
    await begun(call)
    call.cancel("")
    said = await stage.said(call)
    stopped.set()
    assert await asyncio.to_thread(gone.wait, 5)
    assert (said, refused) == ([CANCELLED], [1, 1])


async def test_pending_question_is_withdrawn_when_call_finishes(stage: Stage) -> None:
    left: list[asyncio.Task[Any]] = []

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        left.append(asyncio.create_task(context.aroots()))
        while not call._asked:
            await asyncio.sleep(0)
        return result()

    call = stage.start(work)
    said = await stage.said(call)
    await asyncio.wait(left, timeout=5)
    assert left[0].cancelled()
    assert [message.get("method") for message in said] == ["roots/list", "notifications/cancelled", None]


async def test_sync_question_in_async_code_raises_runtime_error(stage: Stage) -> None:
    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        with pytest.raises(RuntimeError, match="begins with 'a'"):
            context.roots()
        return result()

    assert await stage.said(stage.start(work)) == [DONE]


async def test_question_unsupported_by_revision_is_not_sent(streams: Streams) -> None:
    several = {"type": "array", "items": {"type": "string", "enum": ["tea", "milk"]}}

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        with pytest.raises(CannotAsk, match="choice of several values"):
            await context.aelicit("Which?", {"type": "object", "properties": {"drinks": several}})
        return result()

    stage = Stage(streams, session_with(version="2025-06-18"))
    assert await stage.said(stage.start(work)) == [DONE]


async def test_cancel_wins_if_withdrawing_question_fails(stage: Stage) -> None:
    call = stage.start(lambda call, context: call.ask("roots/list", {}))
    await stage.question(call)

    async def away(session: str, request_id: str) -> None:
        raise StreamsUnavailable("away")

    stage.streams.requests.drop = away  # type: ignore[method-assign]
    call.cancel("")
    assert (await stage.said(call))[-1] == CANCELLED


async def test_answer_survives_brief_log_outage(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_app.execution.calls.reply.FINISH_RETRY_SECONDS", (0.0,))
    log = moody(stage.streams)
    log.faults = [None, None, StreamsUnavailable("away")]

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        context.info("first")
        return result()

    assert (await stage.said(stage.start(work)))[-1] == DONE


async def test_stopped_thread_is_logged_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    free = threading.Event()
    call = stage.start(in_thread(lambda _: free.wait(5)))
    await begun(call)
    call.cancel("first")
    call.cancel("second")
    await stage.said(call)
    free.set()
    assert [record.getMessage() for record in caplog.records if record.name == "mcp.call"] == [
        "tools/call 'target' runs in a thread and may continue after its cancellation (first)"
    ]
