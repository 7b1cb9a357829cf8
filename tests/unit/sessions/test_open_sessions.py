"""Sessions across processes: lookup, binding, changes, end, restoration, limits."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from mcp_app.conf import Settings
from mcp_app.models import Session as Record
from mcp_app.protocol.errors import SessionNotFound, TooManyRequests, Unavailable
from mcp_app.sessions import open_sessions
from mcp_app.sessions.open_sessions import Sessions
from mcp_app.sessions.session import LiveSession
from mcp_app.streams.gateway import Streams
from tests.unit.sessions.conftest import opening, process

database_test = pytest.mark.usefixtures("transactional_db")


class Running:
    """A call in flight that records why it was cancelled."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def cancel(self, reason: str) -> None:
        self.reasons.append(reason)


async def settled() -> None:
    """Let broadcasts reach every process."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.requirement("SES-02")
async def test_session_ids_are_long_printable_and_unique(sessions: Sessions) -> None:
    ids = [(await sessions.create(opening())).id for _ in range(100)]
    assert len(set(ids)) == 100
    assert all(len(found) == 32 and found.isascii() and found.isprintable() for found in ids)


async def test_session_created_by_another_process_is_found(
    sessions: Sessions, streams: Streams, settings: Settings
) -> None:
    created = await sessions.create(opening())
    found = await process(streams, settings).load(created.id, "ada")
    assert found is not created
    for name in ("id", "version", "principal_key", "client_info", "created_at", "log_level", "announced"):
        assert getattr(found, name) == getattr(created, name), name
    assert found.capabilities == created.capabilities
    assert created.stored() == await streams.sessions.load(created.id)


async def test_fresh_copy_is_returned_from_cache(sessions: Sessions) -> None:
    created = await sessions.create(opening())
    assert sessions.cached(created.id, "ada") is created
    assert await sessions.load(created.id, "ada") is created


@pytest.mark.requirement("SES-09")
async def test_session_is_not_found_for_another_principal(
    sessions: Sessions, streams: Streams, settings: Settings
) -> None:
    created = await sessions.create(opening())
    assert sessions.cached(created.id, "eve") is None
    for found in (sessions, process(streams, settings)):
        with pytest.raises(SessionNotFound) as foreign:
            await found.load(created.id, "eve")
        assert (foreign.value.message, foreign.value.http_status) == (SessionNotFound().message, 404)
        assert (await found.load(created.id, "ada")).id == created.id


@pytest.mark.parametrize(
    "session_id", ["", "short", "x" * 65, "ü" * 20, "a b" * 8, "{x}" * 8, "../" * 8, "%00" * 8, "x" * 32]
)
@database_test
async def test_unknown_or_malformed_session_id_is_not_found(session_id: str, sessions: Sessions) -> None:
    with pytest.raises(SessionNotFound):
        await sessions.load(session_id, "ada")


@database_test
async def test_unknown_ids_are_not_cached(sessions: Sessions) -> None:
    for number in range(50):
        with pytest.raises(SessionNotFound):
            await sessions.load(f"{number:032}", "ada")
    assert sessions._cache == {}


# Rechecks


async def test_copy_is_rechecked_after_interval(streams: Streams, settings: Settings) -> None:
    sessions = process(streams, replace(settings, session_recheck_seconds=0.0))
    created = await sessions.create(opening())
    await streams.sessions.update(created.id, {"log_level": "error"})
    assert sessions.cached(created.id, "ada") is None
    assert await sessions.load(created.id, "ada") is created
    assert created.log_level == "error"


async def test_lost_end_broadcast_takes_effect_at_next_recheck(streams: Streams, settings: Settings) -> None:
    sessions = process(streams, replace(settings, session_recheck_seconds=0.0))
    created = await sessions.create(opening())
    created.in_flight[1] = running = Running()
    await streams.sessions.end(created.id, 60)
    with pytest.raises(SessionNotFound):
        await sessions.load(created.id, "ada")
    assert running.reasons == ["the session ended"]
    assert sessions._cache == {}


async def test_change_reaches_every_process(sessions: Sessions, streams: Streams, settings: Settings) -> None:
    other = process(streams, settings)
    told: list[str] = []
    other.on_change.append(told.append)
    created = await sessions.create(opening())
    copy = await other.load(created.id, "ada")
    await sessions.change(created, log_level="error", initialized="1")
    assert (created.log_level, created.initialized, created.announced) == ("error", True, 3)
    await settled()
    assert told == [created.id]
    assert await other.load(created.id, "ada") is copy
    assert (copy.log_level, copy.initialized) == ("error", True)


async def test_resync_rechecks_every_copy(sessions: Sessions, streams: Streams) -> None:
    created = await sessions.create(opening())
    await streams.hub.publish("session", {"resync": True})
    await settled()
    assert sessions.cached(created.id, "ada") is None
    assert await sessions.load(created.id, "ada") is created


async def test_takeover_is_announced_with_its_token(sessions: Sessions, streams: Streams) -> None:
    told: list[tuple[str, str]] = []
    sessions.on_take_over.append(lambda *told_of: told.append(told_of))
    await streams.hub.publish("session", {"session": "s", "what": "taken over", "token": "t"})
    await settled()
    assert told == [("s", "t")]


# The end


@pytest.mark.requirement("SES-07")
async def test_session_end_is_final_in_every_process(
    sessions: Sessions, streams: Streams, settings: Settings
) -> None:
    other = process(streams, settings)
    created = await sessions.create(opening())
    copy = await other.load(created.id, "ada")
    calls = [Running(), Running()]
    created.in_flight[1], copy.in_flight[2] = calls
    ended: list[str] = []
    for each in (sessions, other):
        each.on_end.append(ended.append)
    await other.end(created.id, "test")
    await settled()
    assert [call.reasons for call in calls] == [["the session ended"]] * 2
    assert set(ended) == {created.id}
    for each in (sessions, other):
        assert each.cached(created.id, "ada") is None
        with pytest.raises(SessionNotFound):
            await each.load(created.id, "ada")


class Yielding:
    """A store whose methods yield before and after, like a remote store."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        async def method(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            result = await getattr(self._inner, name)(*args, **kwargs)
            await asyncio.sleep(0)
            return result

        return method


async def test_session_ended_during_load_stays_ended(streams: Streams, settings: Settings) -> None:
    streams.sessions = Yielding(streams.sessions)  # type: ignore[assignment]
    streams.windows = Yielding(streams.windows)  # type: ignore[assignment]
    for step in range(20):
        first, second = process(streams, settings), process(streams, settings)
        created = await first.create(opening())
        loading = asyncio.create_task(_load(second, created.id))
        for _ in range(step):
            await asyncio.sleep(0)
        await first.end(created.id, "test")
        await loading
        await settled()
        assert second.cached(created.id, "ada") is None
        with pytest.raises(SessionNotFound):
            await second.load(created.id, "ada")
        assert await streams.windows.held("sessions/ada") == 0


async def _load(sessions: Sessions, session_id: str) -> LiveSession | None:
    try:
        return await sessions.load(session_id, "ada")
    except SessionNotFound:
        return None


@pytest.mark.requirement("SES-10")
async def test_session_above_maximum_age_ends_on_use(streams: Streams, settings: Settings) -> None:
    sessions = process(streams, replace(settings, session_max_seconds=0, session_recheck_seconds=0.0))
    created = await sessions.create(opening())
    while time.time() <= created.created_at:
        await asyncio.sleep(0)
    with pytest.raises(SessionNotFound):
        await sessions.load(created.id, "ada")
    assert await streams.windows.held("sessions/ada") == 0


# Limits


@pytest.mark.requirement("SES-10")
async def test_sessions_are_bounded_per_principal(streams: Streams, settings: Settings) -> None:
    sessions = process(streams, replace(settings, max_sessions_per_principal=2))
    first = await sessions.create(opening())
    await sessions.create(opening())
    with pytest.raises(TooManyRequests, match="DELETE") as refused:
        await sessions.create(opening())
    assert refused.value.http_status == 429
    assert (b"retry-after", b"30") in refused.value.headers
    await sessions.create(opening(principal_key="bob"))
    await sessions.end(first.id, "test")
    await sessions.create(opening())


async def test_cache_is_bounded_and_keeps_sessions_with_calls(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_sessions, "CACHE_LIMIT", 8)
    first = await sessions.create(opening())
    first.in_flight[1] = Running()
    for _ in range(30):
        await sessions.create(opening())
        assert len(sessions._cache) <= 8
    assert sessions.cached(first.id, "ada") is first


# The record


async def recorded(session_id: str, fields: dict[str, Any], **changes: Any) -> None:
    await Record.objects.acreate(
        id=session_id,
        principal=fields["principal"],
        protocol_version=fields["version"],
        fields=fields,
        **{"created_at": timezone.now(), "last_seen_at": timezone.now()} | changes,
    )


@database_test
async def test_session_lost_by_redis_is_restored_from_record(sessions: Sessions, settings: Settings) -> None:
    created = await sessions.create(opening())
    await sessions.change(created, initialized="1", log_level="error")
    await recorded(created.id, created.stored())
    emptied = Streams.in_memory()
    await emptied.start()
    restored = await process(emptied, settings).load(created.id, "ada")
    assert (restored.initialized, restored.log_level, restored.version) == (True, "error", "2025-11-25")
    assert restored.created_at == created.created_at
    assert await emptied.sessions.load(created.id) is not None


@database_test
@pytest.mark.parametrize(
    "changes",
    [
        {"ended_at": timezone.now()},
        {"last_seen_at": timezone.now() - timedelta(seconds=Settings().session_idle_seconds + 60)},
    ],
    ids=["ended", "idle"],
)
async def test_ended_or_idle_record_is_not_restored(
    changes: dict[str, Any], sessions: Sessions, settings: Settings
) -> None:
    created = await sessions.create(opening())
    await recorded(created.id, created.stored(), **changes)
    emptied = Streams.in_memory()
    await emptied.start()
    with pytest.raises(SessionNotFound):
        await process(emptied, settings).load(created.id, "ada")


@database_test
async def test_record_is_restored_only_for_its_principal(sessions: Sessions, settings: Settings) -> None:
    created = await sessions.create(opening())
    await recorded(created.id, created.stored())
    emptied = Streams.in_memory()
    await emptied.start()
    restoring = process(emptied, settings)
    with pytest.raises(SessionNotFound):
        await restoring.load(created.id, "eve")
    assert (await restoring.load(created.id, "ada")).id == created.id


@database_test
async def test_ended_session_is_not_restored_from_stale_record(
    sessions: Sessions, streams: Streams, settings: Settings
) -> None:
    created = await sessions.create(opening())
    await recorded(created.id, created.stored())
    await sessions.end(created.id, "test")
    with pytest.raises(SessionNotFound):
        await process(streams, settings).load(created.id, "ada")


@database_test
async def test_unknown_session_without_database_raises_unavailable(
    sessions: Sessions,
) -> None:
    from django.db import connection

    def rename(old: str, new: str) -> None:
        with connection.schema_editor() as editor:
            editor.alter_db_table(Record, old, new)

    table = Record._meta.db_table
    await sync_to_async(rename)(table, table + "_lost")
    try:
        with pytest.raises(Unavailable, match="database"):
            await sessions.load("x" * 32, "ada")
    finally:
        await sync_to_async(rename)(table + "_lost", table)


async def test_announced_revision_is_stored(sessions: Sessions, streams: Streams) -> None:
    created = await sessions.create(opening())
    await sessions.announced(created, 9)
    assert created.announced == 9
    assert (await streams.sessions.load(created.id) or {})["announced"] == "9"
