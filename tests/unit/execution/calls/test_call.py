"""One call: exactly one outcome in any race, and nothing left behind."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from mcp_app.execution.calls import call as module
from mcp_app.execution.calls.call import Cancelled, RunningCall
from mcp_app.execution.calls.context import Context
from mcp_app.protocol.errors import InternalError, InvalidParams
from tests.unit.execution.stage import CANCELLED, DONE, Stage, at_once, begun, never, result


def is_over(stage: Stage, call: RunningCall) -> bool:
    """Return True if nothing of the call is left behind."""
    return not stage.session.in_flight and not stage.calls.shares and not stage.calls._sessions


async def test_result_is_answered_and_nothing_is_left_behind(stage: Stage) -> None:
    call = stage.start(at_once)
    assert await stage.said(call) == [DONE]
    assert (call.outcome, is_over(stage, call)) == ("ok", True)


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (InvalidParams("no such thing"), -32602, "no such thing"),
        (InternalError("broken"), -32603, "broken"),
        (ZeroDivisionError("secret words"), -32603, "Internal error (incident "),
        (InvalidParams("cannot be sent", data={"a": object()}), -32603, "Internal error (incident "),
        (SystemExit(1), -32603, "Internal error (incident "),
        (KeyboardInterrupt(), -32603, "Internal error (incident "),
        (GeneratorExit(), -32603, "Internal error (incident "),
        (asyncio.CancelledError(), -32603, "Internal error (incident "),
        (RecursionError(), -32603, "Internal error (incident "),
        (Cancelled(), -32603, "Internal error (incident "),
    ],
)
@pytest.mark.usefixtures("handled_ctrl_c")
async def test_raised_exception_becomes_one_error_answer(
    stage: Stage, raised: BaseException, code: int, words: str
) -> None:
    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        raise raised

    call = stage.start(work)
    (answer,) = await stage.said(call)
    assert answer["error"]["code"] == code
    assert answer["error"]["message"].startswith(words)
    assert "secret words" not in str(answer)
    assert (call.outcome, is_over(stage, call)) == ("error", True)


@pytest.mark.requirement("CAN-01", "CAN-02")
async def test_cancel_ends_async_code_at_next_await(stage: Stage) -> None:
    call = stage.start(never)
    await begun(call)
    call.cancel("changed my mind")
    assert await stage.said(call) == [CANCELLED]
    assert (call.outcome, is_over(stage, call)) == ("cancelled", True)


async def test_cancel_before_first_step_prevents_work(stage: Stage) -> None:
    loop = asyncio.get_running_loop()
    # A task of another factory takes its first step when the loop schedules it.
    loop.set_task_factory(lambda loop, work, **options: asyncio.Task(work, loop=loop, **options))
    started: list[int] = []

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        started.append(1)
        return result()

    call = stage.start(work)
    call.cancel("")
    assert await stage.said(call) == [CANCELLED]
    assert (started, is_over(stage, call)) == ([], True)


@pytest.mark.requirement("CAN-03")
async def test_cancel_after_end_changes_nothing(stage: Stage) -> None:
    call = stage.start(at_once)
    said = await stage.said(call)
    call.cancel("late")
    assert (said, call.outcome, call.stopped) == ([DONE], "ok", False)


async def test_result_available_before_cancel_wins(stage: Stage) -> None:
    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        call.cancel("from within, without an await to end at")
        return result()

    call = stage.start(work)
    assert await stage.said(call) == [DONE]


async def test_first_of_cancel_and_deadline_decides_outcome(stage: Stage) -> None:
    cleaning = asyncio.Event()
    clean = asyncio.Event()

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        try:
            return await never(call, context)
        finally:
            cleaning.set()
            await clean.wait()

    orders = (("cancel", "deadline", "cancelled"), ("deadline", "cancel", "tool_error"))
    for first, second, expected in orders:
        call = stage.start(work)
        await begun(call)
        call._stop(first)
        await cleaning.wait()
        call._stop(second)
        assert not call.outcome
        clean.set()
        await stage.said(call)
        assert call.outcome == expected
        cleaning.clear()
        clean.clear()


async def test_deadline_uses_timeout_result_of_method(stage: Stage) -> None:
    call = stage.start(never, timeout=0.0, on_timeout=lambda: {**result("too slow"), "isError": True})
    assert await stage.said(call, grace=0.0) == [
        {"jsonrpc": "2.0", "id": 1, "result": {**result("too slow"), "isError": True}}
    ]
    assert (call.outcome, is_over(stage, call)) == ("tool_error", True)


async def test_deadline_without_timeout_result_is_error(stage: Stage) -> None:
    def too_long() -> dict[str, Any]:
        raise InternalError("took too long")

    call = stage.start(never, method="prompts/get", timeout=0.0, on_timeout=too_long)
    (answer,) = await stage.said(call, grace=0.0)
    assert answer["error"] == {"code": -32603, "message": "took too long"}
    assert (call.outcome, is_over(stage, call)) == ("error", True)


async def test_deadline_applies_to_early_streaming_call(stage: Stage) -> None:
    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        context.progress(1)
        return await never(call, context)

    call = stage.start(work, timeout=0.0)
    (_, answer) = await stage.said(call)
    assert answer["result"]["isError"]


async def test_code_ignoring_its_cancel_is_answered_and_logged(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "UNWILLING_SECONDS", 0.0)
    go_on = asyncio.Event()

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        context.info("still here")
        return result()

    call = stage.start(work)
    await begun(call)
    call.cancel("")
    assert await stage.said(call) == [CANCELLED]
    assert "did not stop when cancelled" in caplog.text
    go_on.set()
    assert call.task is not None
    await asyncio.wait([call.task])
    assert (call.outcome, is_over(stage, call)) == ("cancelled", True)
    assert call.reply.answers == [orjson.dumps(CANCELLED)]


async def test_shutdown_answer_differs_from_cancel(stage: Stage) -> None:
    call = stage.start(never)
    await begun(call)
    call.shut_down()
    (answer,) = await stage.said(call)
    assert answer["error"] == {"code": -32603, "message": "The server is stopping."}


async def test_task_cancelled_with_event_loop_is_answered(stage: Stage) -> None:
    call = stage.start(never)
    await begun(call)
    assert call.task is not None
    call.task.cancel()
    (answer,) = await stage.said(call)
    assert answer["error"]["message"] == "The server is stopping."
