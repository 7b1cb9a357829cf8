"""Retention of messages and sessions; sessions ended by an administrator."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import override_settings
from django.utils import timezone

from mcp_app import conf
from mcp_app.message_log import retention
from mcp_app.models import AuditEvent, Message, Session
from mcp_app.sessions.open_sessions import find_record
from mcp_app.sessions.services import end_session_now

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

IDLE = 100
DAYS = 2


@pytest.fixture(autouse=True)
def _limits() -> Iterator[None]:
    with override_settings(MCP={"SESSION_IDLE_SECONDS": IDLE, "MESSAGE_LOG_DAYS": DAYS}):
        yield


def ago(**time: float) -> datetime:
    return timezone.now() - timedelta(**time)


def session(name: str, **changes: Any) -> Session:
    members: dict[str, Any] = {"created_at": ago(days=9), "last_seen_at": ago(seconds=1), "fields": {"n": 1}}
    return Session.objects.create(
        id=name * 32, principal="ada", protocol_version="2025-11-25", **members | changes
    )


def message(at: datetime, **changes: Any) -> Message:
    return Message.objects.create(at=at, direction="in", kind="request", **changes)


def test_only_idle_sessions_are_closed() -> None:
    idle = session("a", last_seen_at=ago(seconds=IDLE + 5))
    busy = session("b", last_seen_at=ago(seconds=IDLE - 5))
    over = session("c", last_seen_at=ago(days=1), ended_at=ago(hours=1), end_reason="ended by the client")
    assert retention.close_idle_sessions() == 1
    for row in (idle, busy, over):
        row.refresh_from_db()
    assert (idle.end_reason, busy.ended_at, over.end_reason) == ("idle", None, "ended by the client")
    assert retention.close_idle_sessions() == 0


def test_only_messages_older_than_retention_are_purged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SLICE", 2)
    for _ in range(5):
        message(ago(days=DAYS, minutes=1))
    kept = [message(ago(days=DAYS) + timedelta(minutes=1)), message(ago(seconds=1))]
    assert retention.purge_messages() == 5
    assert set(Message.objects.all()) == set(kept)


def test_ended_sessions_are_purged_and_live_ones_kept() -> None:
    session("a", ended_at=ago(days=DAYS, minutes=1))
    recent, living = session("b", ended_at=ago(days=1)), session("c")
    retention.purge_messages()
    assert set(Session.objects.all()) == {recent, living}


def test_session_record_is_found_only_while_session_lives() -> None:
    living = session("a")
    assert find_record(living.pk, IDLE) == {"n": "1"}
    assert find_record(session("b", ended_at=timezone.now()).pk, IDLE) is None
    assert find_record(session("c", last_seen_at=ago(seconds=IDLE + 5)).pk, IDLE) is None
    assert find_record(session("d", fields={}).pk, IDLE) is None
    assert find_record("unknown", IDLE) is None


@pytest.mark.parametrize("idle", [1, IDLE, 86_400])
def test_stale_record_is_idle_before_tombstone_expires(idle: int) -> None:
    settings = conf.Settings(session_idle_seconds=idle)
    # A process that missed the end may have continued to serve the session from its copy.
    last_seen = settings.tombstone_seconds - settings.session_recheck_seconds
    assert find_record(session("e", last_seen_at=ago(seconds=last_seen)).pk, idle) is None


def test_operator_ends_session_once_and_audited() -> None:
    row = session("a")
    actor = get_user_model().objects.create_user("root")
    assert end_session_now(session_id=row.pk, actor=actor, reason="r" * 99)
    assert not end_session_now(session_id=row.pk, actor=actor)
    assert not end_session_now(session_id="unknown")
    row.refresh_from_db()
    assert row.ended_at is not None
    assert row.end_reason == "r" * 60
    events = AuditEvent.objects.filter(action="session.end")
    assert {event.actor_name for event in events} == {"root", "system"}
