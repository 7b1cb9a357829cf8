"""A session being loaded: it resumes when its results arrive, and notifies its watcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from mcp_app.auth.principal import LOOPBACK
from mcp_app.execution.calls.reply import ACCEPTED, Answered
from mcp_app.protocol.errors import SessionNotFound
from mcp_app.transports.streamable_http.shortcut.started import STARTED, StartedSession

NAME: ContextVar[str] = ContextVar("name", default="")


class Steps:
    """Work that waits twice and records its observations."""

    def __init__(self, end: Answered | Exception) -> None:
        loop = asyncio.get_running_loop()
        self.first: asyncio.Future[str] = loop.create_future()
        self.second: asyncio.Future[str] = loop.create_future()
        self.seen: list[str] = []
        self._end = end

    async def work(self) -> Answered:
        NAME.set("its own")
        for each in (self.first, self.second):
            try:
                self.seen.append(await each)
            except ValueError as error:
                self.seen.append(f"{error}")
            self.seen.append(NAME.get())
        if isinstance(self._end, Exception):
            raise self._end
        return self._end


async def over(begun: StartedSession) -> None:
    """Return when there is nothing left to wait for."""
    while begun.waits:
        await asyncio.sleep(0)


async def test_session_resumes_with_each_result_in_its_own_context() -> None:
    steps, told = Steps(ACCEPTED), []
    begun = StartedSession(LOOPBACK, steps.work())
    begun.watch(lambda: told.append(begun.answer))
    assert (begun.waits, begun.answer, told) == (True, None, [])
    steps.first.set_result("one")
    steps.second.set_exception(ValueError("a fault that it understands"))
    await over(begun)
    assert steps.seen == ["one", "its own", "a fault that it understands", "its own"]
    assert told == [ACCEPTED]
    assert NAME.get() == ""
    assert await begun.outcome() is ACCEPTED


async def test_non_waiting_work_finishes_immediately() -> None:
    async def work() -> Answered:
        return ACCEPTED

    begun = StartedSession(LOOPBACK, work())
    assert not begun.waits
    assert begun.answer is ACCEPTED


async def test_yielding_work_resumes_after_other_tasks() -> None:
    async def work() -> Answered:
        await asyncio.sleep(0)
        return ACCEPTED

    begun = StartedSession(LOOPBACK, work())
    assert begun.waits
    await over(begun)
    assert begun.answer is ACCEPTED


@pytest.mark.parametrize("asked", ["before", "after"])
async def test_failure_is_raised_where_request_continues(asked: str) -> None:
    steps, told = Steps(SessionNotFound()), []
    begun = StartedSession(LOOPBACK, steps.work())
    begun.watch(lambda: told.append(begun.answer))
    scope: dict[str, Any] = {}
    begun.resume_in(scope)
    waiting = asyncio.ensure_future(scope[STARTED].outcome()) if asked == "before" else None
    await asyncio.sleep(0)
    steps.first.set_result("one")
    steps.second.set_result("two")
    await over(begun)
    assert told == [None]
    with pytest.raises(SessionNotFound):
        await (waiting or scope[STARTED].outcome())


@pytest.mark.parametrize(
    "answered",
    [Answered(b"{}", 400), Answered(b"{}", 200, ((b"retry-after", b"30"),))],
    ids=["status", "header"],
)
async def test_answer_with_status_or_headers_is_left_to_ordinary_path(answered: Answered) -> None:
    async def work() -> Answered:
        return answered

    begun = StartedSession(LOOPBACK, work())
    assert not begun.waits
    assert begun.answer is None
    assert await begun.outcome() is answered


async def test_removed_watcher_is_not_notified() -> None:
    steps, told = Steps(ACCEPTED), []
    begun = StartedSession(LOOPBACK, steps.work())
    watcher: Callable[[], None] = lambda: told.append(1)  # noqa: E731
    begun.watch(watcher)
    begun.watch(None)
    steps.first.set_result("one")
    steps.second.set_result("two")
    await over(begun)
    assert told == []
