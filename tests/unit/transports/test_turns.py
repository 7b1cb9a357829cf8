"""The same for many connections, in turns of the event loop."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from mcp_app.transports import turns


async def test_everything_is_called_in_order_and_others_run_in_between() -> None:
    count = turns.TOGETHER * 3 + 1
    called: list[Any] = []
    turns.take_turns([partial(called.append, number) for number in range(count)])
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

    def fail() -> None:
        raise ValueError("one of many")

    turns.take_turns([fail, *[lambda: None] * turns.TOGETHER, lambda: done.set_result(None)])
    await done
    assert [str(each) for each in failures] == ["one of many"]


async def test_nothing_to_do_takes_no_turn() -> None:
    turns.take_turns([])
