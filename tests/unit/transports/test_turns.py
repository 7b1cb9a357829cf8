"""The same for many connections, in turns of the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_app.transports import turns


async def test_everything_is_called_in_order_and_others_run_in_between() -> None:
    count = turns.TOGETHER * 3 + 1
    called: list[Any] = []
    turns.take_turns(called.append, range(count))
    assert not called
    seen = []
    while len(called) < count:
        await asyncio.sleep(0)
        seen.append(len(called))
    assert called == list(range(count))
    assert seen == [turns.TOGETHER, 2 * turns.TOGETHER, 3 * turns.TOGETHER, count]


async def test_one_that_fails_keeps_no_later_turn_waiting() -> None:
    loop = asyncio.get_running_loop()
    failures: list[Any] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    done = loop.create_future()

    def work(number: int) -> None:
        if number == 0:
            raise ValueError("one of many")
        if number == turns.TOGETHER:
            done.set_result(None)

    turns.take_turns(work, range(turns.TOGETHER + 1))
    await done
    assert [str(each) for each in failures] == ["one of many"]


async def test_nothing_to_do_takes_no_turn() -> None:
    called: list[Any] = []
    turns.take_turns(called.append, [])
    await asyncio.sleep(0)
    assert not called
