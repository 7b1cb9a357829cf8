"""``@tool(atomic=True)``: all that a call writes is kept, or nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from mcp_app import Context, ToolError, ToolResult, expose, tool
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.testing import Client, call_tool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_tools() -> Iterator[None]:
    with registry.isolated():
        yield


def names() -> list[str]:
    return list(Group.objects.order_by("name").values_list("name", flat=True))


def enrol(name: str, *, fails: bool = False) -> str:
    """Enrol a group."""
    Group.objects.create(name=name)
    if fails:
        raise ToolError("no room")
    return str(transaction.get_connection().in_atomic_block)


@pytest.mark.parametrize("background", [False, True])
def test_what_an_atomic_tool_wrote_is_undone_when_it_raises(background: bool) -> None:
    tool(atomic=True, background=background)(enrol)
    assert call_tool("enrol", {"name": "kept"})["content"][0]["text"] == "True"
    failed = call_tool("enrol", {"name": "undone", "fails": True})
    assert failed == {"content": [{"type": "text", "text": "no room"}], "isError": True}
    assert names() == ["kept"]


def test_without_it_each_write_is_kept() -> None:
    tool(enrol)
    assert call_tool("enrol", {"name": "a"})["content"][0]["text"] == "False"
    call_tool("enrol", {"name": "b", "fails": True})
    assert names() == ["a", "b"]


def test_an_error_result_that_is_returned_keeps_what_was_written() -> None:
    @tool(atomic=True)
    def half() -> ToolResult:
        """Half."""
        Group.objects.create(name="kept")
        return ToolResult("no room", is_error=True)

    assert call_tool("half")["isError"]
    assert names() == ["kept"]


async def test_an_atomic_tool_that_is_cancelled_undoes_what_it_wrote() -> None:
    @tool(atomic=True)
    def long(ctx: Context) -> None:
        """Long."""
        Group.objects.create(name="undone")
        ctx.info("written")
        while True:
            ctx.raise_if_cancelled()

    async with Client(timeout=2.0) as client:
        with pytest.raises(TimeoutError):
            await client.call_tool("long")
    assert [group async for group in Group.objects.all()] == []


def test_rows_are_read_before_the_transaction_ends() -> None:
    @tool(atomic=True)
    def locked() -> Any:
        """Locked."""
        Group.objects.create(name="a")
        return Group.objects.select_for_update().values("name")

    assert call_tool("locked")["content"][0]["text"] == '[{"name":"a"}]'


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_an_atomic_tool_cannot_ask(version: str, caplog: pytest.LogCaptureFixture) -> None:
    @tool(atomic=True)
    def ask(ctx: Context) -> str:
        """Ask."""
        Group.objects.create(name="undone")
        return str(ctx.elicit("Really?", bool))

    with caplog.at_level(logging.ERROR, "mcp.tool"):
        refused = call_tool("ask", elicit={"value": True}, version=version)
    assert "incident" in refused["content"][0]["text"]
    assert "An atomic tool cannot ask" in caplog.text
    assert names() == []


def test_a_task_of_celery_can_be_atomic() -> None:
    from celery import Celery

    application = Celery("atomic", set_as_current=False)

    @application.task(name="atomic.twice")
    def twice(name: str) -> None:
        """Enrol twice."""
        Group.objects.create(name=name)
        Group.objects.create(name=name)

    expose.celery_task(twice, atomic=True)
    assert call_tool("twice", {"name": "a"})["isError"]
    assert names() == []
    with pytest.raises(IntegrityError):
        twice("a")
    assert names() == ["a"]


def test_an_async_function_cannot_be_atomic() -> None:
    async def write() -> None:
        """Write."""

    with pytest.raises(DefinitionError, match=r"write: atomic=True needs a synchronous function.*def"):
        tool(atomic=True)(write)
