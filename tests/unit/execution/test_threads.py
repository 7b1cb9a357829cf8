"""Bounded threads: as many run as may, and one that only waits lets another run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from mcp_app.execution.running.threads import Threads, own_place
from tests.bounds import SLACK


@pytest.fixture
async def threads() -> AsyncIterator[Threads]:
    made = Threads(2)
    yield made
    made.close()


async def until(condition: object) -> None:
    async with asyncio.timeout(5 + SLACK):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.005)


class Busy:
    """Work that runs until it is told to end."""

    def __init__(self) -> None:
        self.running = 0
        self.end = threading.Event()

    def __call__(self) -> str:
        self.running += 1
        self.end.wait(5)
        return "done"


async def test_no_more_threads_run_than_the_limit(threads: Threads) -> None:
    busy = Busy()
    tasks = [asyncio.create_task(threads.run(busy)) for _ in range(5)]
    await until(lambda: busy.running == 2)
    await asyncio.sleep(0.05)
    assert busy.running == 2
    busy.end.set()
    assert await asyncio.gather(*tasks) == ["done"] * 5


async def test_a_thread_nobody_waits_for_keeps_its_place_until_it_ends(threads: Threads) -> None:
    deaf, next_one = Busy(), Busy()
    tasks = [asyncio.create_task(threads.run(deaf)) for _ in range(2)]
    await until(lambda: deaf.running == 2)
    for task in tasks:
        task.cancel()
    following = asyncio.create_task(threads.run(next_one))
    await asyncio.sleep(0.05)
    assert next_one.running == 0
    deaf.end.set()
    next_one.end.set()
    assert await following == "done"


async def test_work_that_was_cancelled_before_it_began_never_runs(threads: Threads) -> None:
    busy, unwanted = Busy(), Busy()
    tasks = [asyncio.create_task(threads.run(busy)) for _ in range(2)]
    await until(lambda: busy.running == 2)
    queued = asyncio.create_task(threads.run(unwanted))
    await asyncio.sleep(0)
    queued.cancel()
    busy.end.set()
    await asyncio.gather(*tasks)
    assert await threads.run(lambda: "free again") == "free again"
    assert unwanted.running == 0


async def test_a_thread_that_gives_its_place_back_lets_others_run(threads: Threads) -> None:
    loop = asyncio.get_running_loop()
    answers = [loop.create_future() for _ in range(2)]

    async def away(number: int) -> str:
        place = own_place_of[number]
        place.give_back()
        answer: str = await answers[number]
        await place.take()
        return answer

    own_place_of = {}

    def asking(number: int) -> str:
        place = own_place()
        assert place is not None
        own_place_of[number] = place
        return asyncio.run_coroutine_threadsafe(away(number), loop).result(5)

    tasks = [asyncio.create_task(threads.run(asking, number)) for number in range(2)]
    async with asyncio.timeout(5):
        assert await threads.run(lambda: "meanwhile") == "meanwhile"
    await until(lambda: len(own_place_of) == 2)
    for number, answer in enumerate(answers):
        answer.set_result(f"answer {number}")
    assert await asyncio.gather(*tasks) == ["answer 0", "answer 1"]


def test_a_thread_of_its_own_has_no_place() -> None:
    assert own_place() is None
