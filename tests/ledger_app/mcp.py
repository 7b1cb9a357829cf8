"""Background tools that cooperate, block, ask or ignore cancellation. Each writes the ledger."""

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
    """Record a step in the ledger, then report it to the client."""
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
    """Run steps; restartable when its process is lost."""
    return await _steps(ctx, nonce, steps, delay)


@tool(background=True, idempotent=False, timeout=120)
async def work_once(ctx: Context, nonce: str, steps: int, delay: float = 0.1) -> str:
    """Run steps; must never be started twice."""
    return await _steps(ctx, nonce, steps, delay)


@tool()
async def work_here(ctx: Context, nonce: str, steps: int, delay: float = 0.1) -> str:
    """Run steps in the web process."""
    return await _steps(ctx, nonce, steps, delay)


@tool(background=True, idempotent=True, retries=2, timeout=120)
def work_in_thread(ctx: Context, nonce: str, steps: int, delay: float = 0.1) -> str:
    """Run steps in synchronous code and check for cancellation at each."""
    with _run(nonce) as run:
        for number in range(1, steps + 1):
            _say(ctx, run, number, steps)
            time.sleep(delay)
        return f"{nonce} {run.name} {steps}"


@tool(background=True, idempotent=False, timeout=120)
def spin(nonce: str, seconds: float) -> str:
    """Use processor time and ignore cancellation."""
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
    """Sleep in its thread and ignore cancellation."""
    with _run(nonce) as run:
        for _ in range(round(seconds / ALIVE_SECONDS)):
            time.sleep(ALIVE_SECONDS)
            run.note("alive")
        return f"{nonce} {run.name}"


@tool(background=True, idempotent=False, timeout=120)
def listen(nonce: str, seconds: float) -> str:
    """Read from a socket that never receives data."""
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
    """Block the event loop: async code that never awaits."""
    with _run(nonce) as run:
        for _ in range(round(seconds / ALIVE_SECONDS)):
            time.sleep(ALIVE_SECONDS)
            run.note("alive")
        return f"{nonce} {run.name}"


def _keep_lock(nonce: str, seconds: float) -> str:
    """Run C code that holds the interpreter lock, as a regular expression or a sort does."""
    with _run(nonce) as run:
        run.note("alive", os.getpid())
        end = time.monotonic() + seconds
        sleep = ctypes.PyDLL(None).sleep  # PyDLL, unlike CDLL, keeps the lock during the call.
        while (left := end - time.monotonic()) > 0:
            sleep(int(left) + 1)
        return f"{nonce} {run.name}"


@tool(background=True, idempotent=True, retries=2, timeout=120)
def keep_lock(nonce: str, seconds: float) -> str:
    """Hold the interpreter lock; restartable when its process is lost."""
    return _keep_lock(nonce, seconds)


@tool(background=True, idempotent=False, timeout=120)
def keep_lock_once(nonce: str, seconds: float) -> str:
    """Hold the interpreter lock; must never be started twice."""
    return _keep_lock(nonce, seconds)


@tool(background=True, idempotent=False, timeout=120)
async def keep_lock_async(nonce: str, seconds: float) -> str:
    """Hold the interpreter lock on the event loop; must never be started twice."""
    return _keep_lock(nonce, seconds)


@tool(background=True, idempotent=True, retries=2, timeout=10)
def keep_lock_too_long(nonce: str, seconds: float) -> str:
    """Hold the interpreter lock beyond its timeout."""
    return _keep_lock(nonce, seconds)


@tool(background=True, timeout=1)
async def too_slow(nonce: str) -> str:
    """Exceed its timeout."""
    with _run(nonce):
        await asyncio.sleep(60)
    return nonce


@tool(task_required=True, timeout=60)
async def ask_slowly(ctx: Context, nonce: str) -> str:
    """Ask after a delay, when a client that accepts tasks has one."""
    with _run(nonce):
        await asyncio.sleep(0.3)
        answer = await ctx.aelicit("What is your name?", str)
    return f"Hello, {answer.value}!"


@tool(task_required=True, timeout=60)
async def long_work(nonce: str, seconds: float = 0.5) -> str:
    """Work that newer clients must accept as a task."""
    with _run(nonce):
        await asyncio.sleep(seconds)
    return nonce


@tool(background=True, timeout=60)
async def ask(ctx: Context, nonce: str) -> str:
    """Ask the client's user."""
    with _run(nonce):
        answer = await ctx.aelicit("What is your name?", str)
        return f"Hello, {answer.value}!" if answer else f"No name: {answer.action}."


@tool(timeout=60)
async def ask_here(ctx: Context, nonce: str) -> str:
    """Ask the client's user from the web process."""
    with _run(nonce):
        answer = await ctx.aelicit("What is your name?", str)
        return f"Hello, {answer.value}!"


@tool(needs_approval=True, timeout=60)
async def approved_ask(ctx: Context, nonce: str) -> str:
    """Ask the client's user after an operator's approval."""
    with _run(nonce):
        return f"Hello, {(await ctx.aelicit('What is your name?', str)).value}!"


@tool(background=True, timeout=60)
def ask_in_thread(ctx: Context, nonce: str) -> str:
    """Ask the client's user from synchronous code."""
    with _run(nonce):
        answer = ctx.elicit("What is your name?", str)
        return f"Hello, {answer.value}!" if answer else f"No name: {answer.action}."


@tool(background=True, timeout=60)
async def sample(ctx: Context, nonce: str) -> str:
    """Sample the client's model."""
    with _run(nonce):
        result = await ctx.asample("Say something.", max_tokens=10)
        return str(result["content"]["text"])


@tool(background=True, timeout=60)
def sample_in_thread(ctx: Context, nonce: str) -> str:
    """Sample the client's model from synchronous code."""
    with _run(nonce):
        result = ctx.sample("Say something.", max_tokens=10)
        return str(result["content"]["text"])


@tool(background=True, permission="auth.view_group")
async def guarded(nonce: str) -> str:
    """Require a permission."""
    with _run(nonce):
        return nonce


@tool(background=True, idempotent=False, timeout=120)
async def ignore(nonce: str, seconds: float) -> str:
    """Ignore cancellation in async code."""
    with _run(nonce) as run:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(ALIVE_SECONDS)
            run.note("alive")
        return f"{nonce} {run.name}"


def _start_programs(run: Run) -> list[int]:
    """Start a child process, a child in its own session, and a child whose parent has exited."""
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
    """Start programs and ignore cancellation until the first of them exits."""
    with _run(nonce) as run:
        return str(os.waitpid(_start_programs(run)[0], 0))


@tool(background=True, idempotent=False, timeout=120)
async def forget_programs(nonce: str, seconds: float = 90) -> str:
    """Start programs and stop them, but leave them running when cancelled."""
    with _run(nonce) as run:
        started = _start_programs(run)
        await asyncio.sleep(seconds)
        for pid in started:
            os.kill(pid, signal.SIGKILL)
        return nonce


@resource("ledger://read")
def read() -> str:
    """Run in its own thread briefly."""
    return "read"


@tool(background=True, idempotent=False, timeout=120)
def read_and_doze(ctx: Context, nonce: str, seconds: float) -> str:
    """Read a resource, then ignore cancellation."""
    with _run(nonce) as run:
        ctx.read_resource("ledger://read")
        for _ in range(round(seconds / ALIVE_SECONDS)):
            time.sleep(ALIVE_SECONDS)
            run.note("alive")
        return f"{nonce} {run.name}"


@tool(background=True, timeout=120)
async def shout(ctx: Context, nonce: str, count: int, size: int) -> str:
    """Send many messages at full speed."""
    with _run(nonce) as run:
        for number in range(1, count + 1):
            run.note("alive", number)
            ctx.info(f"{nonce} {run.name} {number} {'x' * size}")
            await asyncio.sleep(0)
        return nonce


@tool(background=True)
async def repeat(value: Any) -> str:
    """Return its argument."""
    return str(value)


@tool(background=True)
async def fill(size: int) -> str:
    """Return a long result."""
    return "x" * size


@tool
async def fill_late(ctx: Context, size: int, says: bool = True) -> str:
    """Return a long result, on a stream if it reports something first."""
    if says:
        ctx.info("begins")
    return "x" * size


@tool(needs_approval=True, idempotent=True, retries=2, timeout=60)
async def approved_work(ctx: Context, nonce: str, steps: int, delay: float = 0.1) -> str:
    """Run steps after approval; restartable when its process is lost."""
    ctx.progress(0, steps, "begins")
    return await _steps(ctx, nonce, steps, delay)


@tool(needs_approval=True, timeout=1)
async def approved_nap(nonce: str, seconds: float) -> str:
    """Sleep within its timeout, which excludes the wait for approval."""
    with _run(nonce):
        await asyncio.sleep(seconds)
        return nonce


@tool(needs_approval=True)
async def approved_quick(nonce: str) -> str:
    """Return immediately after approval."""
    with _run(nonce):
        return nonce


@tool(needs_approval=True)
async def approved_unlock(
    nonce: str, digits: Annotated[str, Field(json_schema_extra={"writeOnly": True})]
) -> str:
    """Accept a write-only secret."""
    with _run(nonce):
        return nonce


@tool(needs_approval=True, four_eyes=True)
async def approved_by_another(nonce: str) -> str:
    """Require approval by another user."""
    with _run(nonce):
        return nonce


@tool
def fork(nonce: str) -> int:
    """Fork in the web process and leave the child running."""
    child = os.fork()
    if not child:
        with suppress(BaseException):
            time.sleep(600)
        os._exit(0)
    return child


@tool
async def quick(nonce: str) -> str:
    """Return immediately in the web process."""
    return nonce


@tool(timeout=60)
async def stroll(ctx: Context, nonce: str, steps: int, delay: float = 0.1) -> str:
    """Run steps in the web process of the request and report them on its stream."""
    return await _steps(ctx, nonce, steps, delay)


@tool(max_result_tokens=10_000)
async def report(lines: int) -> str:
    """Return many lines in the web process without waiting."""
    return long_text(lines)


@tool(max_result_tokens=10_000)
async def report_with_context(ctx: Context, lines: int) -> str:
    """Return many lines without waiting, after a log message."""
    ctx.info("begins")
    return long_text(lines)


@tool(max_result_tokens=10_000)
def report_from_thread(lines: int) -> str:
    """Return many lines in a thread of the web process."""
    return long_text(lines)


@tool(background=True, max_result_tokens=10_000)
async def report_in_background(lines: int) -> str:
    """Return many lines in a worker."""
    return long_text(lines)


def long_text(lines: int) -> str:
    """Return numbered lines of a hundred bytes."""
    return "".join(f"{number:09d} é{'.' * 87}\n" for number in range(lines))
