"""The demo catalogue, with an example of each kind of tool, prompt and resource."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import time
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import BaseModel, Field

from mcp_app import Context, ToolError, conf, prompt, resource, tool
from mcp_app.contrib.demo import arithmetic

# JavaScript clients would round larger numbers (RFC 8259 section 6).
_EXACT: Final = 2**53 - 1
_STARTED: Final = time.monotonic()
_LANGUAGES: Final = (
    "C", "C#", "C++", "CSS", "Go", "HTML", "Java", "JavaScript", "Kotlin", "PHP", "Python", "Ruby", "Rust",
    "Shell", "SQL", "Swift", "TypeScript",
)  # fmt: skip
_SEVERITIES: Final = ("critical", "error", "warning", "info", "debug")

WholeNumber = Annotated[int, Field(ge=-_EXACT, le=_EXACT)]


@tool(title="Echo", read_only=True, idempotent=True, open_world=False)
async def echo(text: str) -> str:
    """Return the given text unchanged. Useful to test the connection.

    Args:
        text: The text to send back.
    """
    return text


@tool(title="Add two whole numbers", read_only=True, idempotent=True, open_world=False)
async def add(a: WholeNumber, b: WholeNumber) -> int:
    """Add two whole numbers and return the sum as text and as structured content.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


@tool(title="Calculator", read_only=True, idempotent=True, open_world=False)
async def calculate(
    expression: Annotated[str, Field(min_length=1, max_length=arithmetic.MAX_CHARACTERS)],
) -> str:
    """Evaluate an arithmetic expression exactly as Python would and return its value.

    Supports whole and decimal numbers, + - * / // % **, signs and parentheses. No variables, functions or
    comparisons. Very large numbers are refused.

    Args:
        expression: The expression, for example (2 + 3) * 4 ** 2 / 7.
    """
    try:
        return str(arithmetic.evaluate(expression))
    except arithmetic.ArithmeticFault as fault:
        raise ToolError(str(fault)) from None


@tool(title="Current time", read_only=True, idempotent=False, open_world=False)
async def get_timestamp() -> str:
    """Return the current date and time in UTC, in ISO 8601 form such as 2025-01-31T12:00:00+00:00."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@tool(title="Count slowly", background=True, timeout=900, read_only=True, idempotent=True, open_world=False)
async def count(
    ctx: Context,
    to: Annotated[int, Field(ge=1, le=100_000)],
    delay_seconds: Annotated[float, Field(ge=0, le=60)] = 0.1,
) -> str:
    """Count from 1 upwards with a pause before each step, reporting progress. Shows long-running work.

    Args:
        to: The number to count to.
        delay_seconds: The pause before each step in seconds.
    """
    for number in range(1, to + 1):
        await asyncio.sleep(delay_seconds)
        ctx.progress(number, to, f"{number} of {to}")
    return f"counted to {to}"


@tool(title="Burn CPU time", background=True, timeout=900, read_only=True, idempotent=True, open_world=False)
def burn(seconds: Annotated[float, Field(gt=0, le=3_600)]) -> str:
    """Keep one processor core busy without ever checking for cancellation. Shows that cancelling stops work.

    Args:
        seconds: How long to burn, in seconds.
    """
    end = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
    return f"burned {seconds:g} seconds in {rounds} rounds"


class Person(BaseModel):
    """The form of ``ask_name``."""

    name: str = Field(
        title="Name", description="What you would like to be called.", min_length=1, max_length=100
    )


@tool(title="Ask for a name", read_only=True, idempotent=False, open_world=False)
async def ask_name(ctx: Context) -> str:
    """Ask the person behind the client for their name and greet them. The client must support elicitation."""
    answer = await ctx.aelicit("What is your name?", Person)
    if answer.action != "accept":
        raise ToolError("No name was given: the question was declined or closed.")
    return f"Hello, {answer.content['name']}!"


@prompt(title="Review code", completions={"language": list(_LANGUAGES)})
def code_review(code: str, language: str = "") -> str:
    """Ask for a review of a piece of code.

    Args:
        code: The code to review.
        language: The programming language of the code.
    """
    kind = f"{language} code" if language else "code"
    return (
        f"Review the following {kind}. Look for mistakes, security problems, unclear names and missing "
        f"tests. Name the line for each finding, the most serious first, and suggest a fix.\n\n{code}"
    )


@prompt(title="Analyse logs", completions={"severity": list(_SEVERITIES)})
def analyze_logs(timeframe: str, severity: str = "") -> str:
    """Ask for an analysis of the logs of a period.

    Args:
        timeframe: The period to look at, for example "the last 24 hours".
        severity: The lowest severity to include.
    """
    only = f" Only include entries of severity {severity} or worse." if severity else ""
    return (
        f"Analyse the logs of {timeframe}.{only} Group what belongs together, say how often each problem "
        "occurred and when it began, name the most likely cause, and say what to do first."
    )


@resource("server://info", title="Server information", mime_type="application/json")
def server_info() -> str:
    """Name, version and uptime in seconds of this server, its Python version and process id, as JSON."""
    settings = conf.get()
    info = {
        "name": settings.server_name,
        "version": settings.server_version,
        "uptime": round(time.monotonic() - _STARTED, 3),
        "python": platform.python_version(),
        "pid": os.getpid(),
    }
    return json.dumps(info)


@resource("demo://greeting/{name}", title="Greeting", mime_type="text/plain")
def greeting(name: str) -> str:
    """A greeting for the person named in the address."""
    return f"Hello, {name}!"
