"""Exceptions of application code stay its own failures, unless meant for the server."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import uvloop

from mcp_app.execution.calls.exceptions import Suspended
from mcp_app.foreign_code import Escaped, contained, outlast

FAILURES = [
    KeyboardInterrupt(),
    SystemExit(2),
    GeneratorExit(),
    asyncio.CancelledError(),
    BaseExceptionGroup("both", [KeyboardInterrupt(), ValueError()]),
]
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def fail(error: BaseException) -> None:
    with contained():
        raise error


async def fail_at_once(error: BaseException) -> None:
    fail(error)


async def fail_later(error: BaseException) -> None:
    await asyncio.sleep(0)
    fail(error)


@pytest.mark.parametrize("error", FAILURES, ids=repr)
@pytest.mark.parametrize("run", [fail_at_once, fail_later, partial(asyncio.to_thread, fail)])
@pytest.mark.usefixtures("handled_ctrl_c")
async def test_process_ending_exception_becomes_ordinary_failure(
    error: BaseException, run: Callable[[BaseException], Awaitable[None]]
) -> None:
    with pytest.raises(Escaped) as found:
        await asyncio.ensure_future(run(error))
    assert found.value.__cause__ is error


@pytest.mark.parametrize("error", [ValueError("x"), Suspended()], ids=repr)
def test_ordinary_exceptions_and_server_signals_pass(error: BaseException) -> None:
    with pytest.raises(type(error)):
        fail(error)


async def test_real_cancellation_passes() -> None:
    async def work() -> None:
        with contained():
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closed_coroutine_raises_no_failure() -> None:
    passed: list[type[BaseException]] = []

    async def work() -> None:
        try:
            with contained():
                await asyncio.Event().wait()
        except BaseException as error:
            passed.append(type(error))
            raise

    steps = work()

    async def begin() -> None:
        await steps

    task = asyncio.create_task(begin())
    await asyncio.sleep(0)
    # As when a stopped loop is collected together with pending work.
    task.get_coro().close()  # type: ignore[union-attr]
    assert passed == [GeneratorExit]
    task.cancel()
    with pytest.raises((asyncio.CancelledError, RuntimeError)):
        await task


def test_ctrl_c_passes_without_handler() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), contained():
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            outlast(partial(signal.raise_signal, signal.SIGINT), lambda: False)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("make", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.usefixtures("handled_ctrl_c")
def test_event_loop_survives_exceptions_of_tasks_and_callbacks(
    make: Callable[[], asyncio.AbstractEventLoop], error: type[BaseException]
) -> None:
    loop = make()

    async def fails() -> None:
        raise error

    def fail_too() -> None:
        raise error

    async def main() -> list[object]:
        failing = asyncio.create_task(fails())
        loop.call_soon(fail_too)
        neighbour = asyncio.create_task(asyncio.sleep(0.01, "done"))
        return [type(found) for found in await asyncio.gather(failing, return_exceptions=True)] + [
            await neighbour
        ]

    task = loop.create_task(main())
    assert outlast(partial(loop.run_until_complete, task), task.done) == [error, "done"]
    # In a thread, like the loop of a worker.
    thread = threading.Thread(target=outlast, args=(loop.run_forever, lambda: False))
    thread.start()
    loop.call_soon_threadsafe(fail_too)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    assert not thread.is_alive()
    loop.close()


@pytest.mark.usefixtures("handled_ctrl_c")
def test_event_loop_ends_with_exception_of_main_task() -> None:
    loop = asyncio.new_event_loop()

    async def main() -> None:
        sys.exit(3)

    task = loop.create_task(main())
    with pytest.raises(SystemExit):
        outlast(partial(loop.run_until_complete, task), task.done)
    loop.close()
