"""Unexpected exceptions of all kinds of entries are logged with their answers and hidden from clients."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from mcp_app import Context, ToolError
from mcp_app.observability.incidents import StoredException
from mcp_app.streams.gateway import Streams
from tests.unit.catalogue.entries import prompt_entry, resource_entry, tool_entry
from tests.unit.handlers.desk import Desk, offer

SECRET = "planted-secret-value"


def fail() -> str:
    """Fail."""
    raise LookupError(f"password={SECRET}")


async def fail_at_once() -> str:
    """Fail without waiting."""
    return fail()


async def fail_later() -> str:
    """Fail after waiting."""
    await asyncio.sleep(0)
    return fail()


async def fail_with_context(ctx: Context) -> str:
    """Fail in a tool that takes a context."""
    return fail()


async def fail_to_complete(value: str, others: Any) -> list[str]:
    """Fail to complete."""
    return [fail()]


async def read_failing(ctx: Context) -> str:
    """Read a resource that fails."""
    return str(await ctx.aread_resource("notes://failing"))


def refuse() -> str:
    """Report an error."""
    raise ToolError("no such customer")


def greet(name: str = "") -> str:
    """Greet, or not."""
    return fail()


REF = {"type": "ref/prompt", "name": "greet"}
CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "tool at once": ("tools/call", {"name": "fail_at_once"}, "fail_at_once"),
    "tool that waits": ("tools/call", {"name": "fail_later"}, "fail_later"),
    "tool in a thread": ("tools/call", {"name": "fail"}, ""),
    "tool with a context": ("tools/call", {"name": "fail_with_context"}, "fail_with_context"),
    "tool that reads a resource": ("tools/call", {"name": "read_failing"}, ""),
    "prompt": ("prompts/get", {"name": "greet"}, "greet"),
    "resource": ("resources/read", {"uri": "notes://failing"}, ""),
    "completion": (
        "completion/complete",
        {"ref": REF, "argument": {"name": "name", "value": ""}},
        "fail_to_complete",
    ),
}


@pytest.fixture
async def desk(streams: Streams) -> Desk:
    made = Desk(streams, message_log=True)
    await made.open()
    tools = (fail, fail_at_once, fail_later, fail_with_context, read_failing, refuse)
    offer(
        tools=[tool_entry(each, number) for number, each in enumerate(tools, 1)],
        prompts=[prompt_entry(greet, completions={"name": fail_to_complete})],
        resources=[resource_entry(fail, "notes://failing")],
    )
    return made


async def logged(desk: Desk) -> list[tuple[str, str]]:
    """Return the stored incidents: number and exception."""
    await desk.process.log.flush()
    batches = [orjson.loads(encoded) for _, encoded in await desk.streams.messages.read("0", 100)]
    for batch in batches:
        for index, number, _ in batch.get("incidents", ()):
            assert number in str(batch["lines"][index])
    return [(number, text) for batch in batches for _, number, text in batch.get("incidents", ())]


@pytest.mark.requirement("SEC-09")
@pytest.mark.parametrize("kind", CALLS)
async def test_exception_is_logged_with_the_answer_that_names_its_incident(kind: str, desk: Desk) -> None:
    method, params, caller = CALLS[kind]
    answer = str(await desk.request(method, params))
    assert "LookupError" not in answer
    ((number, text),) = await logged(desk)
    assert f"(incident {number})" in answer
    assert SECRET not in text
    found = StoredException.read(text)
    assert found is not None
    assert found.exception == "LookupError"
    functions = [frame.function for frame in found.frames]
    assert functions[-1] == "fail"
    assert not caller or caller in functions
    assert all(frame.file.startswith("tests/unit/handlers/") for frame in found.frames if frame.own)


async def test_expected_error_is_logged_without_an_exception(desk: Desk) -> None:
    answer = await desk.request("tools/call", {"name": "refuse"})
    assert answer["result"]["isError"]
    assert await logged(desk) == []


async def test_client_cannot_attach_an_exception_to_its_own_error(desk: Desk) -> None:
    answer = str(await desk.request("tools/call", {"name": "fail_at_once"}))
    number = answer.partition("(incident ")[2][:8]
    await desk.request("tools/call", {"name": f"(incident {number})"}, 2)
    assert [each for each, _ in await logged(desk)] == [number]
