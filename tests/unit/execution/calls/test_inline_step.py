"""An eager first step of a task: same task, context and errors as in a later turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
import uvloop

from mcp_app.execution.calls.inline_step import begin, run

variable: ContextVar[str] = ContextVar("variable", default="")


def start(work: Coroutine[Any, Any, None]) -> None:
    begin(work, asyncio.get_running_loop())


async def test_non_waiting_coroutine_finishes_immediately() -> None:
    said: list[str] = []

    async def work() -> None:
        said.append("done")

    start(work())
    assert said == ["done"]


async def test_current_task_is_stable_and_caller_task_is_restored() -> None:
    found: list[Any] = []
    over, own = asyncio.Event(), asyncio.current_task()

    async def work() -> None:
        found.append(asyncio.current_task())
        await asyncio.sleep(0)
        found.append(asyncio.current_task())
        over.set()

    start(work())
    assert asyncio.current_task() is own
    await over.wait()
    first, second = found
    assert isinstance(first, asyncio.Task)
    assert first is second is not own


async def test_first_step_works_outside_any_task() -> None:
    loop, found = asyncio.get_running_loop(), loop_future()

    async def work() -> None:
        found.set_result(asyncio.current_task())

    def outside() -> None:
        begin(work(), loop)
        assert asyncio.current_task() is None

    loop.call_soon(outside)
    assert isinstance(await found, asyncio.Task)


def loop_future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def test_context_variables_are_inherited_and_do_not_leak() -> None:
    found: list[str] = []
    over = asyncio.Event()

    async def work() -> None:
        found.append(variable.get())
        variable.set("inner")
        await asyncio.sleep(0)
        found.append(variable.get())
        over.set()

    variable.set("outer")
    start(work())
    assert variable.get() == "outer"
    await over.wait()
    assert found == ["outer", "inner"]


async def test_timeout_from_first_step_ends_later_wait() -> None:
    over = loop_future()

    async def work() -> None:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            over.set_result("timed out")

    start(work())
    assert await over == "timed out"


async def test_task_groups_and_cancel_scopes_work_in_first_step() -> None:
    over = loop_future()

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            child = group.create_task(asyncio.sleep(0, "child"))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep(3600)
        over.set_result((child.result(), scope.cancelled_caught))

    start(work())
    assert await over == ("child", True)


async def test_cancel_after_first_step_is_delivered() -> None:
    over = loop_future()
    tasks: list[Any] = []

    async def work() -> None:
        tasks.append(asyncio.current_task())
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            over.set_result("cancelled")
            raise

    start(work())
    tasks[0].cancel()
    assert await over == "cancelled"


async def test_first_step_may_start_another_task() -> None:
    said: list[str] = []

    async def inner() -> None:
        said.append("inner")

    async def work() -> None:
        own = asyncio.current_task()
        start(inner())
        assert asyncio.current_task() is own
        said.append("outer")

    start(work())
    assert said == ["inner", "outer"]


async def test_keyboard_interrupt_restores_task_of_caller() -> None:
    own = asyncio.current_task()
    begun: list[Any] = []

    async def work() -> None:
        begun.append(asyncio.current_task())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(work())
    assert asyncio.current_task() is own
    # An exception that nobody reads is logged when the task is collected, in the middle of a later test.
    assert isinstance(begun[0].exception(), KeyboardInterrupt)
    asyncio.get_running_loop().call_soon(variable.set, "the loop goes on")
    await asyncio.sleep(0)


async def test_custom_task_factory_creates_tasks() -> None:
    loop, made, over = asyncio.get_running_loop(), [], asyncio.Event()

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(work)
        return asyncio.Task(work, loop=loop, **options)

    async def work() -> None:
        over.set()

    loop.set_task_factory(factory)
    begun = work()
    start(begun)
    await over.wait()
    assert made == [begun]


def test_uvloop_runs_first_step_eagerly() -> None:
    said: list[str] = []

    async def work() -> None:
        said.append("first")
        await asyncio.sleep(0)
        said.append("second")

    async def main() -> None:
        start(work())
        said.append("caller")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    uvloop.run(main())
    assert said == ["first", "caller", "second"]


async def test_run_executes_non_waiting_coroutine_without_task() -> None:
    found: list[Any] = []

    async def work() -> None:
        found.append(asyncio.current_task())

    def outside() -> None:
        run(work())
        over.set_result(list(found))

    over = loop_future()
    asyncio.get_running_loop().call_soon(outside)
    assert await over == [None]


async def test_run_does_not_leak_context_variables() -> None:
    found: list[str] = []

    async def work() -> None:
        found.append(variable.get())
        variable.set("inner")

    variable.set("outer")
    run(work())
    assert (found, variable.get()) == (["outer"], "outer")


async def test_run_raises_in_waiting_coroutine() -> None:
    said: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        except RuntimeError as error:
            said.append(str(error))

    run(work())
    assert said == ["Inline work suspended unexpectedly."]
