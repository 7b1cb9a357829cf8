"""``@tool(atomic=True)``: all writes of a call are committed, or none."""

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
    """Create a group."""
    Group.objects.create(name=name)
    if fails:
        raise ToolError("no room")
    return str(transaction.get_connection().in_atomic_block)


@pytest.mark.parametrize("background", [False, True])
def test_atomic_tool_rolls_back_on_exception(background: bool) -> None:
    tool(atomic=True, background=background)(enrol)
    assert call_tool("enrol", {"name": "kept"})["content"][0]["text"] == "True"
    failed = call_tool("enrol", {"name": "undone", "fails": True})
    assert failed == {"content": [{"type": "text", "text": "no room"}], "isError": True}
    assert names() == ["kept"]


def test_tool_without_atomic_keeps_each_write() -> None:
    tool(enrol)
    assert call_tool("enrol", {"name": "a"})["content"][0]["text"] == "False"
    call_tool("enrol", {"name": "b", "fails": True})
    assert names() == ["a", "b"]


def test_atomic_tool_returning_an_error_result_keeps_its_writes() -> None:
    @tool(atomic=True)
    def half() -> ToolResult:
        """Create a group and return an error."""
        Group.objects.create(name="kept")
        return ToolResult("no room", is_error=True)

    assert call_tool("half")["isError"]
    assert names() == ["kept"]


async def test_cancelled_atomic_tool_rolls_back() -> None:
    @tool(atomic=True)
    def long(ctx: Context) -> None:
        """Create a group and wait for the cancellation."""
        Group.objects.create(name="undone")
        ctx.info("written")
        while True:
            ctx.raise_if_cancelled()

    async with Client(timeout=2.0) as client:
        with pytest.raises(TimeoutError):
            await client.call_tool("long")
    assert [group async for group in Group.objects.all()] == []


def test_returned_rows_are_read_inside_the_transaction() -> None:
    @tool(atomic=True)
    def locked() -> Any:
        """Return locked rows."""
        Group.objects.create(name="a")
        return Group.objects.select_for_update().values("name")

    assert call_tool("locked")["content"][0]["text"] == '[{"name":"a"}]'


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_atomic_tool_cannot_elicit(version: str, caplog: pytest.LogCaptureFixture) -> None:
    @tool(atomic=True)
    def ask(ctx: Context) -> str:
        """Create a group and elicit."""
        Group.objects.create(name="undone")
        return str(ctx.elicit("Really?", bool))

    with caplog.at_level(logging.ERROR, "mcp.tool"):
        refused = call_tool("ask", elicit={"value": True}, version=version)
    assert "incident" in refused["content"][0]["text"]
    assert "An atomic tool cannot ask" in caplog.text
    assert names() == []


def test_celery_task_can_be_atomic() -> None:
    from celery import Celery

    application = Celery("atomic", set_as_current=False)

    @application.task(name="atomic.twice")
    def twice(name: str) -> None:
        """Create a group twice."""
        Group.objects.create(name=name)
        Group.objects.create(name=name)

    expose.celery_task(twice, atomic=True)
    assert call_tool("twice", {"name": "a"})["isError"]
    assert names() == []
    with pytest.raises(IntegrityError):
        twice("a")
    assert names() == ["a"]


def test_async_function_cannot_be_atomic() -> None:
    async def write() -> None:
        """Do nothing."""

    with pytest.raises(DefinitionError, match=r"write: atomic=True needs a synchronous function.*def"):
        tool(atomic=True)(write)
