"""One callback for many connections, in turns of the event loop."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from mcp_app.transports import event_loop_turns


async def test_callbacks_run_in_order_in_bounded_turns() -> None:
    count = event_loop_turns.TOGETHER * 3 + 1
    called: list[Any] = []
    event_loop_turns.run_in_turns(called.append, range(count))
    assert not called
    seen = []
    while len(called) < count:
        await asyncio.sleep(0)
        seen.append(len(called))
    assert called == list(range(count))
    assert seen == [
        event_loop_turns.TOGETHER,
        2 * event_loop_turns.TOGETHER,
        3 * event_loop_turns.TOGETHER,
        count,
    ]


async def test_failing_callback_does_not_block_later_turns() -> None:
    loop = asyncio.get_running_loop()
    failures: list[Any] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    done = loop.create_future()

    def work(number: int) -> None:
        if number == 0:
            raise ValueError("one of many")
        if number == event_loop_turns.TOGETHER:
            done.set_result(None)

    event_loop_turns.run_in_turns(work, range(event_loop_turns.TOGETHER + 1))
    await done
    assert [str(each) for each in failures] == ["one of many"]


async def test_empty_work_takes_no_turn() -> None:
    called: list[Any] = []
    event_loop_turns.run_in_turns(called.append, [])
    await asyncio.sleep(0)
    assert not called


async def test_garbage_collection_waits_for_last_turn() -> None:
    collected_at: list[int] = []
    done: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            collected_at.append(len(done))

    count = event_loop_turns.TOGETHER * 3
    kept: list[list[int]] = []

    def work(number: int) -> None:
        kept.extend([number] for _ in range(10))
        done.append(number)

    thresholds = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(1, 1, 1)
    try:
        event_loop_turns.run_in_turns(work, range(count))
        while len(done) < count:
            await asyncio.sleep(0)
        kept.extend([number] for number in range(100))
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(note)
    assert not [at for at in collected_at if 0 < at < count]
    assert gc.isenabled()


@pytest.mark.parametrize("fails_at", [0, event_loop_turns.TOGETHER, event_loop_turns.TOGETHER * 2])
async def test_failed_turn_reenables_garbage_collection(fails_at: int) -> None:
    done: list[int] = []

    def work(number: int) -> None:
        done.append(number)
        if number == fails_at:
            raise LookupError

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    event_loop_turns.run_in_turns(work, range(event_loop_turns.TOGETHER * 2 + 1))
    while event_loop_turns.TOGETHER * 2 not in done:
        await asyncio.sleep(0)
    assert gc.isenabled()


async def test_disabled_garbage_collection_stays_disabled() -> None:
    done: list[int] = []
    gc.disable()
    try:
        event_loop_turns.run_in_turns(done.append, range(event_loop_turns.TOGETHER + 1))
        while len(done) <= event_loop_turns.TOGETHER:
            await asyncio.sleep(0)
        assert not gc.isenabled()
    finally:
        gc.enable()
