"""Start of an awaitable on behalf of a waiting task, without waking the task.

Waking a task for one write costs several times as much as the write. Most writes finish without waiting, and
the task need not wake for them. If a write has to wait, its task continues it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from functools import partial
from types import coroutine
from typing import Any


def begin(work: Awaitable[Any], task: asyncio.Task[Any]) -> Awaitable[None] | None:
    """Run ``work`` on behalf of ``task`` until it first waits. Return the rest, or None if it has finished.

    Call this from a callback of the event loop, because ``task`` must be waiting and no other task may be
    running. ``task`` must await the returned rest, which raises the exception of ``work`` if it failed.
    """
    loop = task.get_loop()
    steps = work.__await__()
    # Code that wraps the application may use timeouts and cancel scopes, which need a current task.
    asyncio._enter_task(loop, task)
    try:
        awaited = next(steps)
    except StopIteration:
        return None
    except Exception as error:  # noqa: BLE001 - the task of the work handles its errors
        return _failure(error)
    finally:
        asyncio._leave_task(loop, task)
    return _rest(steps, awaited)


@coroutine
def _failure(error: Exception) -> Generator[Any, Any, None]:
    yield from ()
    raise error


@coroutine
def _rest(steps: Generator[Any, Any, Any], awaited: Any) -> Generator[Any, Any, None]:
    while True:
        try:
            yield awaited
        except BaseException as error:  # noqa: BLE001 - the work receives cancellations as well
            proceed = partial(steps.throw, error)
        else:
            proceed = partial(next, steps)
        try:
            awaited = proceed()
        except StopIteration:
            return
