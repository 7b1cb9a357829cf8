"""Synchronous execution of a task's first step, which asyncio would defer to the next turn of the event loop.

Most tools finish in this step. Their task then never has to be scheduled or to wake a waiter.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

Step = Callable[[], None]


def begin(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
    """Run ``work`` as a task of the running ``loop``, synchronously until it first waits.

    The same task runs it from start to end, so timeouts and cancel scopes also work in the first step.
    """
    if loop.get_task_factory() is not None:
        loop.create_task(work)
    elif sys.version_info >= (3, 12):
        asyncio.Task(work, loop=loop, eager_start=True)
    elif "call_soon" in getattr(loop, "__dict__", ("call_soon",)):
        loop.create_task(work)  # ``call_soon`` has been replaced already, or cannot be replaced.
    else:
        _begin(work, loop)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` to its end in a copy of the current context, as a task would. It must never wait."""
    context = copy_context()
    try:
        context.run(work.send, None)
        # The work waits although it should not, and nothing would resume it.
        context.run(work.throw, RuntimeError("Inline work suspended unexpectedly."))
    except StopIteration:
        return
    work.close()


def _begin(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
    context = copy_context()
    step = _step_of(work, loop, context)
    outer = asyncio.current_task(loop)
    if outer is None:
        context.run(step)
        return
    _leave_task(loop, outer)
    try:
        context.run(step)
    finally:
        _enter_task(loop, outer)


def _step_of(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop, context: Context) -> Step:
    """Return the first step of a new task for ``work``.

    Before Python 3.12, a task hands its first step only to the ``call_soon`` of its loop, so replace that.
    """
    held: list[Step] = []
    call_soon = loop.call_soon

    def hold(callback: Any, *arguments: Any, context: Context | None = None) -> Any:
        if context is own:
            return held.append(callback)
        return call_soon(callback, *arguments, context=context)  # Another caller, such as a finalizer.

    own = context
    vars(loop)["call_soon"] = hold
    try:
        asyncio.Task(work, loop=loop, context=context)
    finally:
        del vars(loop)["call_soon"]
    return held[0]
