"""An application as type checkers see it: what is right passes, what is wrong is found where it is written.

Each ``type: ignore`` here names a fault that must be found; one that is not is reported as unused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date
from typing import Annotated, Any, assert_type

from django.contrib.auth.models import Group
from pydantic import BaseModel, Field

from mcp_app import (
    Context,
    CreateMessageResult,
    File,
    Image,
    Message,
    ToolError,
    ToolResult,
    anotify_resource_updated,
    expose,
    notify_resource_updated,
    prompt,
    resource,
    tool,
)
from mcp_app.testing import Client, call_tool


class Loan(BaseModel):
    """A loan."""

    book: str
    due: date


@tool
def word_count(text: str, unique: bool = False) -> int:
    """Count words."""
    return len(text.split())


assert_type(word_count("to be"), int)


@tool(read_only=True, timeout=5, tags=["loans"], icons=["https://example.com/loan.png"])
async def due_loans(before: date, limit: Annotated[int, Field(ge=1)] = 10) -> list[Loan]:
    """List loans."""
    return [Loan(book="Emma", due=before)][:limit]


loans: Callable[..., Awaitable[list[Loan]]] = due_loans


@tool(background=True, idempotent=True, retries=2, queue="slow", needs_approval=True, four_eyes=True)
def report(ctx: Context, year: int) -> ToolResult:
    """Write a report."""
    for month in ctx.track(range(12), "month {}"):
        assert_type(month, int)
    said = ctx.sample("Summarize.", max_tokens=5)
    assert_type(said, CreateMessageResult)
    assert_type(said.text, str)
    assert_type(ctx.has_permission("library.close"), bool)
    if not ctx.elicit("Really?", bool):
        raise ToolError("No.")
    return ToolResult([said.text, Image(b"", "image/png")], structured={"year": year})


@tool(atomic=True)
def rename(name: str) -> None:
    """Rename."""
    notify_resource_updated(f"books://{name}")


@prompt(completions={"language": ["en", "de"]})
def recommend(author: str, language: str = "en") -> list[str | Message]:
    """Recommend a book."""
    return [Message("I know every book.", role="assistant"), f"A book by {author}, in {language}."]


assert_type(recommend("Austen"), list[str | Message])


@resource("books://{name}", mime_type="text/plain", size=3)
async def book(name: str) -> File:
    """A book."""
    await anotify_resource_updated(f"books://{name}")
    return File("text", "text/plain")


expose.model(
    Group,
    fields=["id", "name"],
    filters={"name": ["startswith"]},
    order=["name"],
    queryset=lambda ctx: Group.objects.filter(user=ctx.user),
    timeout=5,
)


async def test_it() -> None:
    """Ask as a client."""
    async with Client(permissions={"library.close"}, elicit={"value": True}) as client:
        assert_type(await client.call_tool("word_count", {"text": "x"}), dict[str, Any])
        await client.subscribe("books://emma")
        assert_type(await client.notification("notifications/resources/updated"), dict[str, Any])
    assert_type(call_tool("word_count", {"text": "x"}), dict[str, Any])


def faults() -> None:
    """Never called: each line has one."""
    tool(readonly=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    tool(timeout="5")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    prompt(background=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    resource("books://x", atomic=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    expose.model(Group, order=["id"])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    word_count(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    notify_resource_updated(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
