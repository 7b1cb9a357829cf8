"""The first step of a task at once: the same task, context and errors as in a later turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
import uvloop

from mcp_app.execution.calls.first_step import begin, run

variable: ContextVar[str] = ContextVar("variable", default="")


def start(work: Coroutine[Any, Any, None]) -> None:
    begin(work, asyncio.get_running_loop())


async def test_what_does_not_wait_is_over_at_once() -> None:
    said: list[str] = []

    async def work() -> None:
        said.append("done")

    start(work())
    assert said == ["done"]


async def test_the_task_is_the_same_before_and_after_a_wait_and_so_is_its_caller_s() -> None:
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


async def test_it_begins_outside_of_every_task_too() -> None:
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


async def test_context_variables_are_the_caller_s_and_do_not_flow_back() -> None:
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


async def test_a_timeout_of_the_first_step_ends_a_later_wait() -> None:
    over = loop_future()

    async def work() -> None:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            over.set_result("timed out")

    start(work())
    assert await over == "timed out"


async def test_groups_and_cancel_scopes_may_be_opened_in_the_first_step() -> None:
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


async def test_a_cancel_between_the_first_and_the_second_step_arrives() -> None:
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


async def test_a_first_step_may_begin_another_task() -> None:
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


async def test_what_ends_the_process_leaves_the_caller_its_task() -> None:
    own = asyncio.current_task()

    async def work() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(work())
    assert asyncio.current_task() is own
    asyncio.get_running_loop().call_soon(variable.set, "the loop goes on")
    await asyncio.sleep(0)


async def test_a_factory_of_the_application_makes_the_tasks() -> None:
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


def test_uvloop_makes_the_first_step_at_once_and_the_others_in_its_turns() -> None:
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


async def test_what_never_waits_runs_to_its_end_without_a_task() -> None:
    found: list[Any] = []

    async def work() -> None:
        found.append(asyncio.current_task())

    def outside() -> None:
        run(work())
        over.set_result(list(found))

    over = loop_future()
    asyncio.get_running_loop().call_soon(outside)
    assert await over == [None]


async def test_context_variables_do_not_flow_back_from_what_never_waits() -> None:
    found: list[str] = []

    async def work() -> None:
        found.append(variable.get())
        variable.set("inner")

    variable.set("outer")
    run(work())
    assert (found, variable.get()) == (["outer"], "outer")


async def test_what_was_not_to_wait_is_told_so() -> None:
    said: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        except RuntimeError as error:
            said.append(str(error))

    run(work())
    assert said == ["What never waits did wait."]
