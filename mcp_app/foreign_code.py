"""Keeps what application code raises inside its own call.

Python lets ``KeyboardInterrupt``, ``SystemExit`` and ``GeneratorExit`` pass every ``except Exception``, and
asyncio lets the first two pass the event loop. Small libraries raise them for ordinary failures, which would
end the process with the calls of everybody.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

Task = asyncio.Task[Any]
T = TypeVar("T")

log = logging.getLogger("mcp.process")


class Passing(BaseException):
    """A signal of this server that application code, and what surrounds it, has to let pass."""


class Escaped(Exception):
    """The failure of application code that raised what is not an ``Exception``; that is its cause."""


class contained:  # noqa: N801 - reads as a context manager of the standard library does
    """Within this context, application code fails with ``Escaped`` where it would end more than itself."""

    __slots__ = ("_task",)

    def __enter__(self) -> None:
        """Remember the task, to recognize its end."""
        self._task = _current_task()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise ``Escaped`` in place of the error."""
        if kind is not None and error is not None and not issubclass(kind, Exception):
            let_pass(error, self._task)
            raise Escaped("Application code raised what is not an Exception.") from error


def let_pass(error: BaseException, task: Task | None) -> None:
    """Raise ``error`` again if it is not a failure of the application code that ``task`` runs.

    That is a signal of this server, a real cancellation, the end of the task's coroutine, or Ctrl-C. Without
    a ``task`` the code can neither be cancelled nor be closed.
    """
    if isinstance(error, Passing) or _is_ctrl_c(error):
        raise error
    if task is not None:
        if isinstance(error, asyncio.CancelledError) and task.cancelling():
            raise error
        # Thrown in by whoever closes the coroutine, while the task does not run.
        if isinstance(error, GeneratorExit) and _current_task() is not task:
            raise error


def outlast(run: Callable[[], T], is_over: Callable[[], bool]) -> T:
    """Return what ``run`` returns, which runs an event loop; run it again when a callback ends it early.

    A task or a callback of application code that raises ``KeyboardInterrupt`` or ``SystemExit`` stops the
    loop, on which others run. Once ``is_over``, what the loop raises is raised here.
    """
    while True:
        try:
            return run()
        except (KeyboardInterrupt, SystemExit) as error:
            if is_over() or _is_ctrl_c(error):
                raise
            log.exception("Application code on the event loop tried to end the process, which goes on")


def _is_ctrl_c(error: BaseException) -> bool:
    """Return True if this may be Ctrl-C, which Python raises in the main thread if no code handles it."""
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def _current_task() -> Task | None:
    with suppress(RuntimeError):  # There is no event loop.
        return asyncio.current_task()
    return None
