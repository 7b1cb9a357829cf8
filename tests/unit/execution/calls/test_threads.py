"""Bounded threads: the limit of running threads, and slots lent out during waits."""

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
    """Work that runs until told to end."""

    def __init__(self) -> None:
        self.running = 0
        self.end = threading.Event()

    def __call__(self) -> str:
        self.running += 1
        self.end.wait(5)
        return "done"


class Asking:
    """Work that waits for an answer on the event loop, then for the end of ``busy``."""

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


async def test_running_threads_are_bounded(threads: Threads) -> None:
    busy = Busy()
    tasks = [asyncio.create_task(threads.run(busy)) for _ in range(5)]
    await until(lambda: busy.running == 2)
    await asyncio.sleep(0.05)
    assert busy.running == 2
    busy.end.set()
    assert await asyncio.gather(*tasks) == ["done"] * 5


async def test_abandoned_thread_keeps_its_slot_until_its_end(threads: Threads) -> None:
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


async def test_work_cancelled_in_queue_never_runs(threads: Threads) -> None:
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


async def test_waiting_thread_lends_its_slot(threads: Threads) -> None:
    asking = Asking()
    tasks = [asyncio.create_task(threads.run(asking, number)) for number in range(2)]
    async with asyncio.timeout(5):
        assert await threads.run(lambda: "meanwhile") == "meanwhile"
    await until(lambda: len(asking.away) == 2)
    asking.answer.set()
    assert await asyncio.gather(*tasks) == ["answer 0", "answer 1"]


async def test_thread_back_from_waiting_needs_a_slot_again(threads: Threads) -> None:
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


async def test_cancelled_question_does_not_add_threads(threads: Threads) -> None:
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


async def test_one_loop_wakeup_collects_all_finished_work(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    woken: list[object] = []
    wake = loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *call: (woken.append(call), wake(*call))[1])
    works = [threads.start(int, "3") for _ in range(50)]
    while not all(work.done() for work in works):
        threading.Event().wait(0.001)  # The loop is blocked, as in a long turn.
    assert await asyncio.gather(*(work.outcome() for work in works)) == [3] * 50
    assert len(woken) == 1


async def test_thread_exceptions_propagate_including_stop_iteration(threads: Threads) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.run(next, iter([]))
    with pytest.raises(SystemExit):
        await threads.run(sys.exit, 3)
    assert await threads.run(int, "3") == 3


async def test_finished_work_keeps_no_reference_to_arguments(threads: Threads) -> None:
    class Argument:
        pass

    argument = Argument()
    kept = weakref.ref(argument)
    work = threads.start(id, argument)
    del argument
    await work.outcome()
    assert kept() is None


async def test_end_of_abandoned_work_can_be_awaited(threads: Threads) -> None:
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


def test_own_work_is_none_outside_pool() -> None:
    assert own_work() is None


async def test_pool_serves_successive_event_loops(threads: Threads) -> None:
    def elsewhere() -> int:
        return int(asyncio.run(threads.run(int, "4")))

    assert await threads.run(int, "3") == 3
    assert await asyncio.to_thread(elsewhere) == 4
    assert await threads.run(int, "5") == 5
