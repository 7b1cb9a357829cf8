"""Rows of a source that fetches its entries are written through the services alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError

from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import Mirrored, mirror
from mcp_app.catalogue.changes.rolling_back import roll_back
from mcp_app.catalogue.snapshots.identity import identity_of
from mcp_app.catalogue.sources.code import CODE
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.catalogue.sources.preset.source import PRESET
from mcp_app.models import AuditEvent, CatalogueChange, Tool
from mcp_app.testing import Client, call_tool
from tests.integration.catalogue.toys import FeedSource, greeting, registered, schema

TEXTS = {"hello": "Hello, {who}!", "bye": "Bye, {who}."}
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def feed() -> Iterator[FeedSource]:
    source = FeedSource()
    with registered(source):
        fetch(source, TEXTS)
        yield source


def fetch(source: Any, texts: dict[str, str], actor: Any = None, why: str = "") -> Mirrored:
    definitions = {name: greeting(name, schema(text)) for name, text in texts.items()}
    return services.mirror_entries(source=source, kind=Tool, definitions=definitions, actor=actor, why=why)


def offered() -> set[str]:
    async def names() -> set[str]:
        async with Client(stored=True) as client:
            return {tool["name"] for tool in await client.list_tools()}

    return asyncio.run(names()) & {*TEXTS, "ada"}


def said(name: str) -> str:
    return str(call_tool(name, {"who": "Ada"}, stored=True)["content"][0]["text"])


def test_fetched_tools_are_offered_and_called() -> None:
    row = Tool.objects.get(name="hello")
    assert (row.source, row.fixed_arguments) == ("feed", {"language": "en"})
    assert offered() == {"hello", "bye"}
    assert said("hello") == "Hello, Ada!"


def test_fetch_is_one_revision_in_history_and_audit(feed: FeedSource, someone: Any) -> None:
    done = fetch(feed, {"hello": "Good day, {who}!"}, someone, "weekly")
    found = CatalogueChange.objects.filter(revision=done.revision).order_by("key")
    assert [*found.values_list("key", "action", "actor", "why")] == [
        ("bye", "missing", someone.pk, "weekly"),
        ("hello", "mirrored", someone.pk, "weekly"),
    ]
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.detail["changed"], event.detail["why"]) == ("catalogue.mirrored", 2, "weekly")
    assert (offered(), said("hello")) == ({"hello"}, "Good day, Ada!")


def test_fetch_without_a_difference_makes_no_revision(feed: FeedSource) -> None:
    assert fetch(feed, TEXTS) == Mirrored()


def test_tool_missing_from_its_feed_is_hidden_until_it_returns(feed: FeedSource) -> None:
    hello = Tool.objects.get(name="hello")
    services.save_entry(kind=Tool, actor=None, name="ada", preset_of=hello, fixed_arguments={"who": "Ada"})
    assert offered() == {"hello", "bye", "ada"}
    fetch(feed, {})
    assert offered() == set()
    for row in Tool.objects.filter(name__in=["hello", "ada"]):
        assert source_of(row).problem(row) == "its source no longer has it"
    assert fetch(feed, TEXTS).changed == 2
    assert offered() == {"hello", "bye", "ada"}


def test_values_of_administrators_survive_a_fetch(feed: FeedSource) -> None:
    row = services.update_entry(
        entry=Tool.objects.get(name="hello"), actor=None, title="Greet", calls_per_minute=3
    )
    fetch(feed, {**TEXTS, "hello": "Good day, {who}!"})
    row.refresh_from_db()
    assert (row.title, row.calls_per_minute, row.drifted) == ("Greet", 3, True)


def test_refused_definition_changes_no_row_and_keeps_others(feed: FeedSource) -> None:
    done = fetch(feed, {"hello": "x" * 101, "bye": "So long, {who}."})
    assert done.unreadable == ("hello: The text is longer than 100 characters.",)
    assert (said("hello"), said("bye")) == ("Hello, Ada!", "So long, Ada.")


def test_name_of_another_source_is_not_overwritten(feed: FeedSource) -> None:
    mirror()
    assert fetch(feed, {**TEXTS, "add": "Add, {who}."}).refused == ("add",)
    assert Tool.objects.get(name="add").source == "code"


def test_extra_columns_are_part_of_the_identity(feed: FeedSource) -> None:
    before = identity_of(Tool.objects.get(name="hello"))
    feed.language = "de"
    assert fetch(feed, TEXTS).changed == 2
    assert identity_of(Tool.objects.get(name="hello")) != before


def test_code_mirror_keeps_fetched_rows() -> None:
    mirror()
    assert not Tool.objects.filter(source="feed", missing=True).exists()


@pytest.mark.parametrize("source", [CODE, PRESET], ids=lambda source: str(source.stored))
def test_rows_of_other_sources_are_not_written(source: Any) -> None:
    with pytest.raises(ValueError, match="are not fetched"):
        fetch(source, TEXTS)


def test_fetch_needs_the_permission_to_publish(feed: FeedSource, django_user_model: Any) -> None:
    with pytest.raises(PermissionDenied):
        fetch(feed, {}, django_user_model.objects.create_user("nobody"))
    assert not Tool.objects.filter(source="feed", missing=True).exists()


def test_refusals_name_the_source(feed: FeedSource) -> None:
    row = Tool.objects.get(name="hello")
    with pytest.raises(ValidationError, match="is defined in the feed and stays"):
        services.delete_entry(entry=row, actor=None)
    with pytest.raises(ValidationError, match="This is defined in the feed and cannot be changed here"):
        services.update_entry(entry=row, actor=None, name="other")
    fetch(feed, {})
    row.refresh_from_db()
    services.delete_entry(entry=row, actor=None)
    deleted = CatalogueChange.objects.get(action="deleted", key="hello")
    with pytest.raises(ValidationError, match="comes back when the source has it again"):
        roll_back(to=deleted, actor=None)
