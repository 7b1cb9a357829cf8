"""The next await of a sleeping task, started without waking the task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_app.transports.streamable_http.inline_steps import begin


@pytest.fixture
async def waiting() -> asyncio.Task[Any]:
    """Return a task that waits for something to await."""
    loop = asyncio.get_running_loop()
    given: asyncio.Future[Any] = loop.create_future()

    async def wait() -> Any:
        return await (await given)

    task = loop.create_task(wait())
    task.give = given.set_result  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    return task


async def at_once(work: Any, task: asyncio.Task[Any]) -> Any:
    """Return the rest of ``work`` after a loop callback has started it for ``task``."""
    loop = asyncio.get_running_loop()
    begun: asyncio.Future[Any] = loop.create_future()
    loop.call_soon(lambda: begun.set_result([begin(work, task)]))
    return (await begun)[0]


async def test_non_waiting_work_finishes_without_waking_task(waiting: Any) -> None:
    done: list[Any] = []

    async def work() -> None:
        done.append(asyncio.current_task())

    assert await at_once(work(), waiting) is None
    assert done == [waiting]
    assert not waiting.done()
    waiting.cancel()


async def test_waiting_work_is_continued_by_its_task(waiting: Any) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    seen: list[Any] = []

    async def work() -> None:
        async with asyncio.timeout(10):
            seen.append(asyncio.current_task())
            await first.wait()
            seen.append(asyncio.current_task())
        await second.wait()
        seen.append(asyncio.current_task())

    waiting.give(await at_once(work(), waiting))
    first.set()
    await asyncio.sleep(0)
    second.set()
    await waiting
    assert seen == [waiting] * 3


async def test_exception_is_raised_in_task(waiting: Any) -> None:
    async def work() -> None:
        raise OSError("gone")

    waiting.give(await at_once(work(), waiting))
    with pytest.raises(OSError, match="gone"):
        await waiting


async def test_cancellation_reaches_waiting_work(waiting: Any) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    waiting.give(await at_once(work(), waiting))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == ["cancelled"]


async def test_work_may_outlive_cancellation(waiting: Any) -> None:
    go_on = asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await go_on.wait()
            done.append("tidied up")

    waiting.give(await at_once(work(), waiting))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    go_on.set()
    await waiting
    assert done == ["tidied up"]
