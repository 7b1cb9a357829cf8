"""Containment of exceptions that application code raises.

In Python ``KeyboardInterrupt``, ``SystemExit`` and ``GeneratorExit`` are not caught by ``except
Exception``, and the first two even end the event loop of asyncio. Small libraries raise them for ordinary
failures. Without containment, such a failure would end the process and all its other calls.
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
    """An exception of this server that application code must not catch."""


class Escaped(Exception):
    """Application code raised an exception that is not an ``Exception``. That exception is the cause."""


class contained:  # noqa: N801 - reads as a context manager of the standard library does
    """A context manager that converts application code's exceptions beyond ``Exception`` to ``Escaped``."""

    __slots__ = ("_task",)

    def __enter__(self) -> None:
        """Remember the current task, in order to recognize its cancellation."""
        self._task = _current_task()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise ``Escaped`` from an error that is not an ``Exception``."""
        if kind is not None and error is not None and not issubclass(kind, Exception):
            let_pass(error, self._task)
            raise Escaped("Application code raised what is not an Exception.") from error


def let_pass(error: BaseException, task: Task | None) -> None:
    """Raise ``error`` again unless it is a failure of the application code that ``task`` runs.

    Raised again are exceptions of this server, real cancellations, the closing of the task's coroutine, and
    Ctrl-C. Without a ``task``, the code can be neither cancelled nor closed.
    """
    if isinstance(error, Passing) or _is_ctrl_c(error):
        raise error
    if task is not None:
        if isinstance(error, asyncio.CancelledError) and task.cancelling():
            raise error
        # Raised when other code closes the coroutine while its task does not run.
        if isinstance(error, GeneratorExit) and _current_task() is not task:
            raise error


def outlast(run: Callable[[], T], is_over: Callable[[], bool]) -> T:
    """Run the event loop with ``run`` and return its result. Restart the loop if a callback ends it early.

    If application code in a task or callback raises ``KeyboardInterrupt`` or ``SystemExit``, the event loop
    stops, but other calls need it. Once ``is_over`` returns True, exceptions of the loop are raised.
    """
    while True:
        try:
            return run()
        except (KeyboardInterrupt, SystemExit) as error:
            if is_over() or _is_ctrl_c(error):
                raise
            log.exception(
                "Application code on the event loop tried to exit the process. The process continues."
            )


def _is_ctrl_c(error: BaseException) -> bool:
    """Return True if this may be Ctrl-C. Python raises it in the main thread if there is no other handler."""
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def _current_task() -> Task | None:
    with suppress(RuntimeError):  # No event loop is running.
        return asyncio.current_task()
    return None
