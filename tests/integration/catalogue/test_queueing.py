"""Queueing options: administrators choose background, queue, retries, priority and concurrency of tools."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from mcp_app import tool
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.models import CatalogueChange, Tool

pytestmark = pytest.mark.django_db(transaction=True)


def plain() -> str:
    """Return nothing; code has no queueing options."""
    return "x"


def long() -> str:
    """Return nothing; code has every queueing option."""
    return "x"


@pytest.fixture(autouse=True)
def _mirrored() -> None:
    tool(idempotent=True)(plain)
    tool(background=True, idempotent=True, retries=3, queue="slow", priority=4, max_running=7)(long)
    mirror()


def _row(name: str) -> Tool:
    return Tool.objects.get(name=name)


def _entry(name: str) -> ToolEntry:
    entry = current_snapshot.refreshed_view(frozenset()).tool(name)
    assert entry is not None
    return entry


def _queueing(entry: ToolEntry) -> tuple[Any, ...]:
    return entry.background, entry.retries, entry.queue, entry.priority, entry.max_running


def test_queueing_options_default_to_the_code() -> None:
    assert _queueing(_entry("plain")) == (False, 0, "", 0, None)
    assert _queueing(_entry("long")) == (True, 3, "slow", 4, 7)


def test_administrator_moves_a_tool_to_the_background_with_history() -> None:
    services.update_entry(
        entry=_row("plain"), actor=None, background=True, retries=1, queue="gpu", priority=9, max_running=2
    )
    assert _queueing(_entry("plain")) == (True, 1, "gpu", 9, 2)
    after = CatalogueChange.objects.filter(key="plain").latest("pk").after
    assert after is not None
    assert (after["background"], after["queue"], after["max_running"]) == (True, "gpu", 2)


def test_row_wins_over_code_even_with_zero() -> None:
    services.update_entry(entry=_row("long"), actor=None, retries=0, priority=0, max_running=1)
    assert _queueing(_entry("long")) == (True, 0, "slow", 0, 1)


def test_preset_inherits_queueing_options_unless_overridden() -> None:
    services.update_entry(entry=_row("add"), actor=None, background=True, queue="gpu", max_running=2)
    services.save_tool_preset(
        actor=None, name="five", preset_of=_row("add"), fixed_arguments={"b": 5}, max_running=1
    )
    assert _queueing(_entry("five")) == (True, 0, "gpu", 0, 1)


@pytest.mark.parametrize(
    ("name", "values", "field", "says"),
    [
        ("add", {"retries": 1}, "retries", "declares idempotent"),
        ("plain", {"retries": 11}, "retries", "at most 10"),
        ("plain", {"queue": "a b"}, "queue", "letters, digits"),
        ("plain", {"queue": "x\x06\x163"}, "queue", "letters, digits"),
        ("plain", {"priority": 10}, "priority", "0 to 9"),
        ("plain", {"max_running": 0}, "max_running", "at least 1"),
        ("long", {"background": False}, "background", "cannot be switched off"),
    ],
)
def test_invalid_queueing_option_is_refused_at_its_field(
    name: str, values: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        services.update_entry(entry=_row(name), actor=None, **values)
    assert list(refused.value.message_dict) == [field]
    assert says in refused.value.message_dict[field][0]


def test_retries_end_when_the_tool_is_no_longer_idempotent() -> None:
    services.update_entry(entry=_row("plain"), actor=None, background=True, retries=2)
    tool(plain)  # Reloaded without ``idempotent``.
    current_snapshot.refresh_now(force=True)
    assert _entry("plain").retries == 0


def test_background_added_by_code_reaches_the_row() -> None:
    tool(background=True)(plain)
    mirror()
    assert _row("plain").background
