"""Application code of each kind; each raises the requested exception."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from typing import Any

from django.utils.functional import lazy

from mcp_app import Context, ToolError, prompt, resource, tool


class Odd(BaseException):
    """Neither an Exception nor a known BaseException, with a ``str()`` that raises."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class Unspeakable(ToolError):
    """An Exception whose ``str()`` raises."""

    def __str__(self) -> str:
        raise SystemExit(2)


def _deep() -> BaseException:
    error: BaseException = KeyboardInterrupt()
    for _ in range(2_000):
        error = BaseExceptionGroup("deep", [error])
    return error


KINDS: dict[str, Callable[[], BaseException]] = {
    "interrupt": KeyboardInterrupt,
    "exit": lambda: SystemExit(3),
    "generator": GeneratorExit,
    "cancelled": asyncio.CancelledError,
    "stop": StopIteration,
    "odd": Odd,
    "unspeakable": Unspeakable,
    "group": lambda: BaseExceptionGroup("both", [KeyboardInterrupt(), SystemExit(), GeneratorExit()]),
    "deep": _deep,
}


def fault(kind: str) -> BaseException:
    """Return a new exception of this kind."""
    return KINDS[kind]()


@tool
async def at_once(kind: str) -> str:
    """Fails without waiting."""
    raise fault(kind)


@tool
async def later(ctx: Context, kind: str) -> str:
    """Fails after its answer has become a stream."""
    ctx.progress(1)
    await asyncio.sleep(0.2)
    raise fault(kind)


@tool
def in_thread(kind: str) -> str:
    """Fails in a thread."""
    raise fault(kind)


async def _fail(kind: str) -> None:
    await asyncio.sleep(0)
    raise fault(kind)


@tool
async def in_own_task(kind: str) -> str:
    """Fails in a task of its own, which lets asyncio raise the exception out of the event loop."""
    await asyncio.gather(asyncio.create_task(_fail(kind)))
    return "not reached"


@tool
async def in_callback(kind: str) -> str:
    """Fails in a callback of the event loop, and waits for it in vain."""

    def fail() -> None:
        failed.set_result(None)
        raise fault(kind)

    failed = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(fail)
    await failed
    raise fault(kind)


@tool
async def in_text(kind: str) -> Any:
    """Fails when its result is written."""

    def fail() -> str:
        raise fault(kind)

    return lazy(fail, str)()


@tool(background=True)
async def on_worker(kind: str) -> str:
    """Fails on the event loop of a worker."""
    await asyncio.gather(asyncio.create_task(_fail(kind)))
    return "not reached"


@tool(background=True)
def on_workers_thread(kind: str) -> str:
    """Fails in a thread of a worker."""
    raise fault(kind)


@tool(background=True)
def interrupt_worker() -> str:
    """Sends its process what Ctrl-C sends."""
    signal.raise_signal(signal.SIGINT)
    return "interrupted"


@resource("raising://{kind}")
def failing(kind: str) -> str:
    """Fails when it is read."""
    raise fault(kind)


@tool
def through_resource(ctx: Context, kind: str) -> Any:
    """Fails where it reads a resource, whose code runs in a task."""
    return ctx.read_resource(f"raising-async://{kind}")


@resource("raising-async://{kind}")
async def failing_async(kind: str) -> str:
    """Fails on the event loop when it is read."""
    raise fault(kind)


def candidates(value: str, others: Mapping[str, str]) -> list[str]:
    """Fail in a thread of the database."""
    raise fault(value)


async def candidates_async(value: str, others: Mapping[str, str]) -> list[str]:
    """Fail on the event loop."""
    raise fault(value)


@prompt(completions={"kind": candidates, "other": candidates_async})
async def broken(kind: str = "", other: str = "") -> str:
    """Fails when it is rendered."""
    raise fault(kind)
