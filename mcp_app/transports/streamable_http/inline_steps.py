"""Begins what a waiting task would await next, without waking it.

To wake a task, let it look around and send it to sleep again costs several times what it then writes. Most
writes never wait: for them the task may sleep on. One that does wait is left to its task to go on with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from functools import partial
from types import coroutine
from typing import Any


def begin(work: Awaitable[Any], task: asyncio.Task[Any]) -> Awaitable[None] | None:
    """Run ``work`` on behalf of ``task`` up to where it first waits; what is left of it, None if nothing is.

    The task must be waiting for something else, and no other may be running: call it from a callback of the
    event loop. What is left is for that task to await; if the work failed, that is the exception.
    """
    loop = task.get_loop()
    steps = work.__await__()
    # Timeouts and cancel scopes, which whatever wraps the application may have put around this, name a task.
    asyncio._enter_task(loop, task)
    try:
        awaited = next(steps)
    except StopIteration:
        return None
    except Exception as error:  # noqa: BLE001 - the work's own faults are its task's to handle
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
        except BaseException as error:  # noqa: BLE001 - a cancellation is for the work to hear of
            proceed = partial(steps.throw, error)
        else:
            proceed = partial(next, steps)
        try:
            awaited = proceed()
        except StopIteration:
            return
