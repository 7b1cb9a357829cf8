"""Bounded threads: as many run as may, and one that only waits lets another run."""

from __future__ import annotations

import asyncio
import sys
import threading
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError as FutureCancelled

import pytest

from mcp_app.execution.calls.threads import Threads, Work, own_work
from tests.bounds import SLACK


@pytest.fixture
async def threads() -> AsyncIterator[Threads]:
    made = Threads(2)
    yield made
    await made.close()


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


class Asking:
    """Work that waits for an answer on the event loop, and for the end of ``busy`` after that."""

    def __init__(self, busy: Busy | None = None) -> None:
        self.answer = asyncio.Event()
        self.away: list[Work] = []
        self._loop = asyncio.get_running_loop()
        self._busy = busy

    def __call__(self, number: int) -> str:
        work = own_work()
        assert work is not None

        async def question() -> str:
            self.away.append(work)
            await self.answer.wait()
            return f"answer {number}"

        try:
            return asyncio.run_coroutine_threadsafe(work.away(question), self._loop).result(5)
        finally:
            if self._busy is not None:
                self._busy()


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
    asking = Asking()
    tasks = [asyncio.create_task(threads.run(asking, number)) for number in range(2)]
    async with asyncio.timeout(5):
        assert await threads.run(lambda: "meanwhile") == "meanwhile"
    await until(lambda: len(asking.away) == 2)
    asking.answer.set()
    assert await asyncio.gather(*tasks) == ["answer 0", "answer 1"]


async def test_who_comes_back_from_a_client_waits_for_a_place_again(threads: Threads) -> None:
    busy = Busy()
    asking = Asking(busy)
    tasks = [asyncio.create_task(threads.run(asking, number)) for number in range(2)]
    await until(lambda: len(asking.away) == 2)
    others = [Busy(), Busy()]
    tasks += [asyncio.create_task(threads.run(other)) for other in others]
    await until(lambda: all(other.running for other in others))
    asking.answer.set()
    await asyncio.sleep(0.05)
    assert busy.running == 0
    others[0].end.set()
    await until(lambda: busy.running == 1)
    await asyncio.sleep(0.05)
    assert busy.running == 1
    others[1].end.set()
    busy.end.set()
    assert await asyncio.gather(*tasks) == ["answer 0", "answer 1", "done", "done"]
    assert len(threads._threads) <= 2


async def test_a_question_that_was_cancelled_leaves_no_thread_too_many(threads: Threads) -> None:
    for _ in range(5):
        asking = Asking()
        tasks = [asyncio.create_task(threads.run(asking, number)) for number in range(2)]
        await until(lambda asking=asking: len(asking.away) == 2)
        questions = asyncio.all_tasks() - {asyncio.current_task(), *tasks}
        assert await threads.run(lambda: "meanwhile") == "meanwhile"
        for question in questions:
            question.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(error) for error in ended} == {FutureCancelled}
    busy = Busy()
    tasks = [asyncio.create_task(threads.run(busy)) for _ in range(5)]
    await until(lambda: busy.running == 2)
    await asyncio.sleep(0.05)
    assert busy.running == 2
    busy.end.set()
    assert await asyncio.gather(*tasks) == ["done"] * 5


async def test_one_wake_up_of_the_loop_brings_back_all_that_ended_meanwhile(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    woken: list[object] = []
    wake = loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *call: (woken.append(call), wake(*call))[1])
    works = [threads.start(int, "3") for _ in range(50)]
    while not all(work.done() for work in works):
        threading.Event().wait(0.001)  # The loop stands still, as in a long turn.
    assert await asyncio.gather(*(work.outcome() for work in works)) == [3] * 50
    assert len(woken) == 1


async def test_what_a_thread_raises_is_raised_even_what_ends_iterations(threads: Threads) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.run(next, iter([]))
    with pytest.raises(SystemExit):
        await threads.run(sys.exit, 3)
    assert await threads.run(int, "3") == 3


async def test_work_that_is_over_keeps_nothing_alive(threads: Threads) -> None:
    class Argument:
        pass

    argument = Argument()
    kept = weakref.ref(argument)
    work = threads.start(id, argument)
    del argument
    await work.outcome()
    assert kept() is None


async def test_an_end_can_be_waited_for_after_the_caller_has_given_up(threads: Threads) -> None:
    busy = Busy()
    work = threads.start(busy)
    caller = asyncio.create_task(work.outcome())
    await until(lambda: busy.running == 1)
    caller.cancel()
    await work.end(0.01)
    assert work.running()
    busy.end.set()
    async with asyncio.timeout(5):
        await work.end()
    assert work.done()
    assert not work.running()


def test_a_thread_of_its_own_has_no_work() -> None:
    assert own_work() is None


async def test_the_threads_of_one_pool_serve_one_event_loop_after_the_other(threads: Threads) -> None:
    def elsewhere() -> int:
        return int(asyncio.run(threads.run(int, "4")))

    assert await threads.run(int, "3") == 3
    assert await asyncio.to_thread(elsewhere) == 4
    assert await threads.run(int, "5") == 5
