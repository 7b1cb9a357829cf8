"""Background tools of every temper: willing, cooperative, deaf, blocking, asking; each keeps the ledger."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Annotated, Any

from django.conf import settings
from pydantic import Field

from mcp_app import Context, resource, tool
from tests.ledger_app.ledger import Run

ALIVE_SECONDS = 0.1


def _run(nonce: str) -> Run:
    return Run(settings.DATA_DIR / "ledger", nonce)


def _say(ctx: Context, run: Run, number: int, total: int) -> None:
    """The ledger first: what a client is told has happened."""
    run.note("alive", number)
    ctx.info(f"{run.nonce} {run.name} {number}")
    ctx.progress(number, total)


async def _steps(ctx: Context, nonce: str, steps: int, delay: float) -> str:
    with _run(nonce) as run:
        for number in range(1, steps + 1):
            _say(ctx, run, number, steps)
            await asyncio.sleep(delay)
        return f"{nonce} {run.name} {steps}"


@tool(background=True, idempotent=True, retries=2, timeout=120)
async def work(ctx: Context, nonce: str, steps: int, delay: float = 0.1) -> str:
    """Takes steps; may be started again when its process is lost."""
    return await _steps(ctx, nonce, steps, delay)


@tool(background=True, idempotent=False, timeout=120)
async def work_once(ctx: Context, nonce: str, steps: int, delay: float = 0.1) -> str:
    """Takes steps; must never be started twice."""
    return await _steps(ctx, nonce, steps, delay)


@tool()
async def work_here(ctx: Context, nonce: str, steps: int, delay: float = 0.1) -> str:
    """Takes steps in the web process."""
    return await _steps(ctx, nonce, steps, delay)


@tool(background=True, idempotent=True, retries=2, timeout=120)
def work_in_thread(ctx: Context, nonce: str, steps: int, delay: float = 0.1) -> str:
    """Takes steps in synchronous code, looking for a cancel at each."""
    with _run(nonce) as run:
        for number in range(1, steps + 1):
            _say(ctx, run, number, steps)
            time.sleep(delay)
        return f"{nonce} {run.name} {steps}"


@tool(background=True, idempotent=False, timeout=120)
def spin(nonce: str, seconds: float) -> str:
    """Burns the processor and looks at nothing."""
    with _run(nonce) as run:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            tick = time.monotonic() + ALIVE_SECONDS
            while time.monotonic() < tick:
                pass
            run.note("alive")
        return f"{nonce} {run.name}"


@tool(background=True, idempotent=False, timeout=120)
def doze(nonce: str, seconds: float) -> str:
    """Sleeps in its thread and looks at nothing."""
    with _run(nonce) as run:
        for _ in range(round(seconds / ALIVE_SECONDS)):
            time.sleep(ALIVE_SECONDS)
            run.note("alive")
        return f"{nonce} {run.name}"


@tool(background=True, idempotent=False, timeout=120)
def listen(nonce: str, seconds: float) -> str:
    """Reads from a socket on which nothing ever comes."""
    ours, theirs = socket.socketpair()
    with ours, theirs, _run(nonce) as run:
        ours.settimeout(ALIVE_SECONDS)
        for _ in range(round(seconds / ALIVE_SECONDS)):
            try:
                ours.recv(1)
            except TimeoutError:
                run.note("alive")
        return f"{nonce} {run.name}"


@tool(background=True, idempotent=False, timeout=120)
async def hog(nonce: str, seconds: float) -> str:
    """Async code that never awaits: nothing else runs on its event loop."""
    with _run(nonce) as run:
        for _ in range(round(seconds / ALIVE_SECONDS)):
            time.sleep(ALIVE_SECONDS)
            run.note("alive")
        return f"{nonce} {run.name}"


def _keep_lock(nonce: str, seconds: float) -> str:
    """Run C code that keeps the interpreter lock, as a regular expression or a sort does."""
    with _run(nonce) as run:
        run.note("alive", os.getpid())
        end = time.monotonic() + seconds
        sleep = ctypes.PyDLL(None).sleep  # PyDLL, unlike CDLL, keeps the lock during the call.
        while (left := end - time.monotonic()) > 0:
            sleep(int(left) + 1)
        return f"{nonce} {run.name}"


@tool(background=True, idempotent=True, retries=2, timeout=120)
def keep_lock(nonce: str, seconds: float) -> str:
    """Keeps the interpreter lock; may be started again when its process is lost."""
    return _keep_lock(nonce, seconds)


@tool(background=True, idempotent=False, timeout=120)
def keep_lock_once(nonce: str, seconds: float) -> str:
    """Keeps the interpreter lock; must never be started twice."""
    return _keep_lock(nonce, seconds)


@tool(background=True, idempotent=False, timeout=120)
async def keep_lock_async(nonce: str, seconds: float) -> str:
    """Keeps the interpreter lock on the event loop; must never be started twice."""
    return _keep_lock(nonce, seconds)


@tool(background=True, idempotent=True, retries=2, timeout=10)
def keep_lock_too_long(nonce: str, seconds: float) -> str:
    """Keeps the interpreter lock for longer than it may run."""
    return _keep_lock(nonce, seconds)


@tool(background=True, timeout=1)
async def too_slow(nonce: str) -> str:
    """Takes longer than it may."""
    with _run(nonce):
        await asyncio.sleep(60)
    return nonce


@tool(task_required=True, timeout=60)
async def ask_slowly(ctx: Context, nonce: str) -> str:
    """Asks after a while, so that whoever takes tasks has one by then."""
    with _run(nonce):
        await asyncio.sleep(0.3)
        answer = await ctx.aelicit("What is your name?", str)
    return f"Hello, {answer.value}!"


@tool(task_required=True, timeout=60)
async def long_work(nonce: str, seconds: float = 0.5) -> str:
    """What newer clients have to take as a task."""
    with _run(nonce):
        await asyncio.sleep(seconds)
    return nonce


@tool(background=True, timeout=60)
async def ask(ctx: Context, nonce: str) -> str:
    """Asks the person behind the client."""
    with _run(nonce):
        answer = await ctx.aelicit("What is your name?", str)
        return f"Hello, {answer.value}!" if answer else f"No name: {answer.action}."


@tool(needs_approval=True, timeout=60)
async def approved_ask(ctx: Context, nonce: str) -> str:
    """Asks the person behind the client, once an operator has allowed it."""
    with _run(nonce):
        return f"Hello, {(await ctx.aelicit('What is your name?', str)).value}!"


@tool(background=True, timeout=60)
def ask_in_thread(ctx: Context, nonce: str) -> str:
    """Asks the person behind the client from synchronous code."""
    with _run(nonce):
        answer = ctx.elicit("What is your name?", str)
        return f"Hello, {answer.value}!" if answer else f"No name: {answer.action}."


@tool(background=True, timeout=60)
async def sample(ctx: Context, nonce: str) -> str:
    """Has the client's model answer."""
    with _run(nonce):
        result = await ctx.asample("Say something.", max_tokens=10)
        return str(result["content"]["text"])


@tool(background=True, timeout=60)
def sample_in_thread(ctx: Context, nonce: str) -> str:
    """Has the client's model answer synchronous code."""
    with _run(nonce):
        result = ctx.sample("Say something.", max_tokens=10)
        return str(result["content"]["text"])


@tool(background=True, permission="auth.view_group")
async def guarded(nonce: str) -> str:
    """Needs a permission."""
    with _run(nonce):
        return nonce


@tool(background=True, idempotent=False, timeout=120)
async def ignore(nonce: str, seconds: float) -> str:
    """Async code that takes no notice of being cancelled."""
    with _run(nonce) as run:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(ALIVE_SECONDS)
            run.note("alive")
        return f"{nonce} {run.name}"


def _start_programs(run: Run) -> list[int]:
    """One program below this process, one in a session of its own, and one whose parent has ended."""
    sleep = "import time; time.sleep(600)"
    daemon = (
        "import subprocess, sys; "
        f"print(subprocess.Popen([sys.executable, '-c', {sleep!r}], stdout=2, start_new_session=True).pid)"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", sleep], start_new_session=is_own).pid
        for is_own in (False, True)
    ]
    orphan = subprocess.run([sys.executable, "-c", daemon], stdout=subprocess.PIPE, check=True)
    started.append(int(orphan.stdout))
    for pid in started:
        run.note("program", pid)
    run.note("alive", os.getpid())
    return started


@tool(background=True, idempotent=False, timeout=120)
def run_programs(nonce: str) -> str:
    """Starts programs, and looks at nothing until the first of them ends."""
    with _run(nonce) as run:
        return str(os.waitpid(_start_programs(run)[0], 0))


@tool(background=True, idempotent=False, timeout=120)
async def forget_programs(nonce: str, seconds: float = 90) -> str:
    """Starts programs and ends them; but leaves them running when it is cancelled."""
    with _run(nonce) as run:
        started = _start_programs(run)
        await asyncio.sleep(seconds)
        for pid in started:
            os.kill(pid, signal.SIGKILL)
        return nonce


@resource("ledger://read")
def read() -> str:
    """Has a thread of its own for a moment."""
    return "read"


@tool(background=True, idempotent=False, timeout=120)
def read_and_doze(ctx: Context, nonce: str, seconds: float) -> str:
    """Reads a resource, and after that looks at nothing."""
    with _run(nonce) as run:
        ctx.read_resource("ledger://read")
        for _ in range(round(seconds / ALIVE_SECONDS)):
            time.sleep(ALIVE_SECONDS)
            run.note("alive")
        return f"{nonce} {run.name}"


@tool(background=True, timeout=120)
async def shout(ctx: Context, nonce: str, count: int, size: int) -> str:
    """Says much, as fast as it can."""
    with _run(nonce) as run:
        for number in range(1, count + 1):
            run.note("alive", number)
            ctx.info(f"{nonce} {run.name} {number} {'x' * size}")
            await asyncio.sleep(0)
        return nonce


@tool(background=True)
async def repeat(value: Any) -> str:
    """Gives its argument back."""
    return str(value)


@tool(background=True)
async def fill(size: int) -> str:
    """A long answer."""
    return "x" * size


@tool
async def fill_late(ctx: Context, size: int, says: bool = True) -> str:
    """A long answer; on a stream if it says something first."""
    if says:
        ctx.info("begins")
    return "x" * size


@tool(needs_approval=True, idempotent=True, retries=2, timeout=60)
async def approved_work(ctx: Context, nonce: str, steps: int, delay: float = 0.1) -> str:
    """Takes steps, once somebody has allowed it; may be started again when its process is lost."""
    ctx.progress(0, steps, "begins")
    return await _steps(ctx, nonce, steps, delay)


@tool(needs_approval=True, timeout=1)
async def approved_nap(nonce: str, seconds: float) -> str:
    """Sleeps within its time, however long it waited before."""
    with _run(nonce):
        await asyncio.sleep(seconds)
        return nonce


@tool(needs_approval=True)
async def approved_quick(nonce: str) -> str:
    """Would be answered at once, if it were not for the approval."""
    with _run(nonce):
        return nonce


@tool(needs_approval=True)
async def approved_unlock(
    nonce: str, digits: Annotated[str, Field(json_schema_extra={"writeOnly": True})]
) -> str:
    """Is given what nobody may read afterwards."""
    with _run(nonce):
        return nonce


@tool(needs_approval=True, four_eyes=True)
async def approved_by_another(nonce: str) -> str:
    """Needs two people."""
    with _run(nonce):
        return nonce


@tool
def fork(nonce: str) -> int:
    """Forks in the web process, and leaves the child running."""
    child = os.fork()
    if not child:
        with suppress(BaseException):
            time.sleep(600)
        os._exit(0)
    return child


@tool
async def quick(nonce: str) -> str:
    """Answers at once in the web process."""
    return nonce


@tool(timeout=60)
async def stroll(ctx: Context, nonce: str, steps: int, delay: float = 0.1) -> str:
    """Takes steps in the web process that was asked, told of on its stream."""
    return await _steps(ctx, nonce, steps, delay)
