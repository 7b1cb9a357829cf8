"""The share of one caller in the requests to an origin (INT-16)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mcp_app.egress import EgressFailed, Request, exchange
from mcp_app.egress.turns import Turns
from tests.unit.egress.sites import Heard, Names, response, serve_kept

HOME = Names(site_test=[["127.0.0.1"]])


class Order:
    """Turns, and the callers that have one in the order in which they got it."""

    def __init__(self, most: int) -> None:
        self.turns = Turns(most)
        self.got: list[str] = []
        self.tasks: dict[str, list[asyncio.Task[None]]] = {}

    async def want(self, *callers: str) -> None:
        for caller in callers:
            task = asyncio.create_task(self._wait(caller))
            self.tasks.setdefault(caller, []).append(task)
        await _settled()

    async def _wait(self, caller: str) -> None:
        await self.turns.acquire(caller)
        self.got.append(caller)

    async def end(self, *callers: str) -> list[str]:
        """End turns, and return the callers that got a turn through it."""
        before = len(self.got)
        for caller in callers:
            self.turns.release(caller)
            await _settled()
        return self.got[before:]


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("most", "wanted", "got"),
    [
        (4, "aaaa", "aa"),
        (4, "aaaabb", "aabb"),
        (4, "aaaabbb", "aabb"),
        (1, "ab", "a"),
        (3, "aaab", "ab"),
        # Requests of the installation itself have no caller and no share.
        (3, ["", "", "", ""], ["", "", ""]),
    ],
)
async def test_caller_has_at_most_half_of_the_turns(
    most: int, wanted: Sequence[str], got: Sequence[str]
) -> None:
    order = Order(most)
    await order.want(*wanted)
    assert order.got == list(got)


async def test_waiting_callers_get_turns_in_rotation() -> None:
    order = Order(2)
    await order.want(*"abaaabbbccc")
    assert order.got == ["a", "b"]
    assert await order.end("a", "b") == ["a", "b"]
    assert await order.end("a", "b") == ["c", "a"]
    assert await order.end("c", "a") == ["b", "c"]


async def test_cancelled_caller_gives_its_turn_to_the_next() -> None:
    order = Order(2)
    await order.want(*"abab")
    waiting = order.tasks["a"][1]
    # The turn is given before the task runs again, and the task is cancelled meanwhile.
    order.turns.release("a")
    waiting.cancel()
    await _settled()
    assert waiting.cancelled()
    assert await order.end("b") == ["b"]
    assert await order.end("b") == []
    assert order.turns.is_idle


async def test_cancelled_waiting_caller_is_forgotten() -> None:
    order = Order(2)
    await order.want(*"aabb")
    for caller in "ab":
        order.tasks[caller][1].cancel()
        await _settled()
    assert await order.end(*"ab") == []
    assert order.turns.is_idle


async def test_slow_requests_of_one_caller_leave_turns_for_others() -> None:
    release = asyncio.Event()

    async def hold(request: Heard, writer: asyncio.StreamWriter) -> None:
        if "slow" in request.line:
            await release.wait()
        writer.write(response())

    async with serve_kept(hold) as site:

        async def ask(path: str, caller: str, seconds: float = 5.0) -> bytes:
            request = Request("GET", site.url(path))
            policy = site.policy(seconds=seconds)
            async with exchange(request, policy, caller=caller, resolve=HOME) as answer:
                return await answer.read()

        tasks = [asyncio.create_task(ask("/slow", "one")) for _ in range(40)]
        while len(site.requests) < site.policy().concurrent // 2:
            await asyncio.sleep(0.01)
        with pytest.raises(EgressFailed, match="seconds") as failure:
            await ask("/quick", "one", 0.1)
        assert not failure.value.sent
        assert await ask("/quick", "another") == b"{}"
        assert len(site.requests) == site.policy().concurrent // 2 + 1
        release.set()
        assert await asyncio.gather(*tasks) == [b"{}"] * 40
