"""Approval options: administrators may require approval, code's requirements stay, presets inherit both."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from mcp_app import tool
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.models import CatalogueChange, Tool

pytestmark = pytest.mark.django_db(transaction=True)


def plain(n: int = 0) -> str:
    """Return nothing; code has no approval options."""
    return "x"


def guarded(n: int = 0) -> str:
    """Return nothing; code has every approval option."""
    return "x"


@pytest.fixture(autouse=True)
def _mirrored() -> None:
    tool(plain)
    tool(needs_approval=True, approval_minutes=5, four_eyes=True, queue="slow")(guarded)
    mirror()


def _row(name: str) -> Tool:
    return Tool.objects.get(name=name)


def _approval(name: str) -> tuple[Any, ...]:
    entry = current_snapshot.refreshed_view(frozenset()).tool(name)
    assert entry is not None
    return entry.needs_approval, entry.approval_minutes, entry.four_eyes, entry.background


def _preset(base: str, **more: Any) -> None:
    services.save_tool_preset(
        actor=None, name="preset", preset_of=_row(base), fixed_arguments={"n": 1}, **more
    )


def test_approval_options_default_to_the_code() -> None:
    assert _approval("plain") == (False, 60, False, False)
    assert _approval("guarded") == (True, 5, True, True)
    assert (_row("guarded").needs_approval, _row("guarded").four_eyes) == (True, True)


def test_administrator_requires_approval_with_history_and_new_revision() -> None:
    before = current_snapshot.refresh_now().revisions["tools"]
    services.update_entry(entry=_row("plain"), actor=None, needs_approval=True, approval_minutes=9)
    assert _approval("plain") == (True, 9, False, True)
    assert current_snapshot.current().revisions["tools"] == before + 1
    after = CatalogueChange.objects.filter(key="plain").latest("pk").after
    assert after is not None
    assert (after["needs_approval"], after["approval_minutes"], after["four_eyes"]) == (True, 9, False)
    services.update_entry(entry=_row("plain"), actor=None, needs_approval=False)
    assert _approval("plain")[0] is False


@pytest.mark.parametrize(
    ("base", "of_base", "of_preset", "expected"),
    [
        ("guarded", {}, {}, (True, 5, True, True)),
        ("guarded", {}, {"approval_minutes": 30}, (True, 30, True, True)),
        ("plain", {"needs_approval": True}, {}, (True, 60, False, True)),
        (
            "plain",
            {"needs_approval": True, "approval_minutes": 3},
            {"four_eyes": True},
            (True, 3, True, True),
        ),
        ("plain", {}, {"needs_approval": True}, (True, 60, False, True)),
        ("plain", {}, {}, (False, 60, False, False)),
    ],
)
def test_preset_inherits_approval_of_its_tool(
    base: str, of_base: dict[str, Any], of_preset: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    services.update_entry(entry=_row(base), actor=None, **of_base)
    _preset(base, **of_preset)
    assert _approval("preset") == expected


@pytest.mark.parametrize(
    ("name", "values", "field", "says"),
    [
        ("guarded", {"needs_approval": False}, "needs_approval", "cannot be switched off"),
        ("guarded", {"four_eyes": False}, "four_eyes", "cannot be switched off"),
        ("guarded", {"background": False}, "background", "cannot be switched off"),
        ("plain", {"approval_minutes": 0}, "approval_minutes", "1 to 1440"),
        ("plain", {"approval_minutes": 1441}, "approval_minutes", "1 to 1440"),
    ],
)
def test_invalid_approval_option_is_refused_at_its_field(
    name: str, values: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        services.update_entry(entry=_row(name), actor=None, **values)
    assert list(refused.value.message_dict) == [field]
    assert says in refused.value.message_dict[field][0]


def test_approval_added_by_code_reaches_the_row_and_stays_when_removed() -> None:
    tool(needs_approval=True)(plain)
    mirror()
    assert _row("plain").needs_approval
    tool(plain)
    mirror()
    assert _approval("plain")[0]
