"""Triage of errors: mute, resolve, reopen, assign, undo, and which errors need attention."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from mcp_app.message_log import triage
from mcp_app.message_log.triage import TriageError
from mcp_app.models import AuditEvent, ErrorGroup, Triage

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


def error(digest: str = "a" * 32, **fields: Any) -> ErrorGroup:
    now = timezone.now()
    members: dict[str, Any] = {
        "method": "tools/call", "tool": "ship", "outcome": "tool_error", "words": "ValueError",
        "example": "", "first_at": now, "last_at": now, "first_id": 1, "last_id": 1, "count": 1,
        "is_fault": True,
    }  # fmt: skip
    return ErrorGroup.objects.create(digest=digest, **(members | fields))


def reader() -> Any:
    return get_user_model().objects.create_superuser("ada")


def again(digest: str = "a" * 32, count: int = 1, days: float = 0) -> None:
    found = ErrorGroup.objects.get(pk=digest)
    found.count += count
    found.last_at = timezone.now() + timedelta(days=days)
    found.save()


def needed(days: float = 0) -> list[str]:
    found = triage.needing_attention(timezone.now() + timedelta(days=days))
    return sorted(each.words for each in found)


def lists() -> tuple[int, int]:
    assert {triage.state_of(each) for each in triage.muted()} <= {"muted"}
    assert "muted" not in {triage.state_of(each) for each in triage.unresolved()}
    return triage.unresolved().count(), triage.muted().count()


def test_new_faults_need_attention_and_mistakes_do_not() -> None:
    error()
    error("b" * 32, words="Unknown tool", is_fault=False)
    error("c" * 32, words="KeyError", first_at=timezone.now() - timedelta(days=2))
    assert needed() == ["ValueError"]
    assert lists() == (3, 0)


@pytest.mark.parametrize(
    ("asked", "happens", "ended"),
    [
        ({}, {"count": 1_000, "days": 900}, False),
        ({"times": 10}, {"count": 9}, False),
        ({"times": 10}, {"count": 10}, True),
        ({"days": 3}, {"count": 100, "days": 2}, False),
        ({"days": 3}, {"days": 4}, True),
        ({"times": 10, "days": 3}, {"days": 4}, True),
        ({"times": 10, "days": 3}, {"count": 10}, True),
    ],
)
def test_mute_ends_when_the_error_gets_worse(
    asked: dict[str, int], happens: dict[str, int], ended: bool
) -> None:
    error()
    until = timezone.now() + timedelta(days=asked["days"]) if "days" in asked else None
    triage.mute(digest="a" * 32, actor=None, until=until, times=asked.get("times"))
    assert (needed(), needed(9), lists()) == ([], [], (0, 1))
    again(**happens)
    assert needed(9) == (["ValueError"] if ended else [])
    assert lists() == ((1, 0) if ended else (0, 1))
    assert triage.state_of(ErrorGroup.objects.get()) == ("worse" if ended else "muted")


def test_resolved_error_needs_no_attention_until_it_is_reopened() -> None:
    error()
    triage.resolve(digest="a" * 32, actor=None)
    assert (needed(), lists()) == ([], (0, 0))
    triage.reopen(digest="a" * 32, actor=None)
    assert (needed(), lists()) == (["ValueError"], (1, 0))


def test_undo_restores_the_former_triage_unless_it_changed_since() -> None:
    error()
    ada = reader()
    triage.assign(digest="a" * 32, actor=ada, assignee=ada)
    done = triage.mute(digest="a" * 32, actor=ada, times=10)
    note = {"before": done.before, "after": triage.values_of(done.error)}
    triage.restore(digest="a" * 32, actor=ada, **note)
    found = ErrorGroup.objects.get()
    assert (found.triage, found.muted_count, found.assignee) == (Triage.OPEN, None, ada)
    with pytest.raises(TriageError):
        triage.restore(digest="a" * 32, actor=ada, **note)


def test_undo_is_refused_if_the_former_assignee_was_deleted() -> None:
    error()
    ada, eve = reader(), get_user_model().objects.create_superuser("eve")
    triage.assign(digest="a" * 32, actor=ada, assignee=eve)
    done = triage.assign(digest="a" * 32, actor=ada, assignee=None)
    note = {"before": done.before, "after": triage.values_of(done.error)}
    eve.delete()
    with pytest.raises(TriageError):
        triage.restore(digest="a" * 32, actor=ada, **note)
    assert ErrorGroup.objects.get().assignee is None


def test_every_change_is_audited() -> None:
    error()
    ada = reader()
    triage.mute(digest="a" * 32, actor=ada, times=10)
    triage.assign(digest="a" * 32, actor=ada, assignee=ada)
    triage.resolve(digest="a" * 32, actor=ada)
    events = AuditEvent.objects.filter(object_kind="error", object_key="a" * 32, actor=ada).order_by("pk")
    assert [event.action for event in events] == ["error.mute", "error.assign", "error.resolve"]
    assert events[0].detail == {"tool": "ship", "error": "ValueError", "triage": "muted", "muted_count": 11}
    assert events[1].detail["assignee"] == "ada"


def test_impossible_changes_are_refused() -> None:
    with pytest.raises(TriageError):
        triage.resolve(digest="0" * 32, actor=None)
    error()
    with pytest.raises(TriageError):
        triage.mute(digest="a" * 32, actor=None, until=timezone.now() - timedelta(minutes=1))
    for stranger in ({"is_staff": False}, {"is_staff": True}, {"is_superuser": True, "is_active": False}):
        user = get_user_model().objects.create_user(f"user {sorted(stranger)}", **stranger)
        with pytest.raises(TriageError):
            triage.assign(digest="a" * 32, actor=None, assignee=user)
        user.delete()
    assert not AuditEvent.objects.exists()


def test_triage_is_json_for_users_with_any_kind_of_key() -> None:
    """The audit trail and the note of an undo store it."""
    found = error()
    found.assignee_id = key = uuid4()
    assert json.loads(json.dumps(triage.values_of(found)))["assignee_id"] == str(key)
    assert json.loads(json.dumps(triage._told({"assignee_id": key}))) == {"assignee_id": str(key)}
