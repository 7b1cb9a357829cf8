"""Worker checks: presence, queue coverage, waiting jobs, and idle sessions as evidence of the beat."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone

from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.doctor import Finding, Installation, Level, workers
from mcp_app.models import Session, Tool
from mcp_app.streams.blocking.presence import Presence

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


@pytest.fixture
def here(clean_redis: str) -> Installation:
    """Return an installation with a stored catalogue and an empty Redis."""
    mirror()
    return Installation(redis_url=clean_redis)


def levels(found: Iterator[Finding]) -> list[tuple[Level, bool]]:
    return [(finding.level, bool(finding.remedy)) for finding in found]


def test_missing_worker_is_error_with_remedy(here: Installation) -> None:
    assert levels(workers.seen(here)) == [(Level.ERROR, True)]
    (queue,) = workers.queues(here)
    assert (queue.level, "--queues celery" in queue.remedy) == (Level.ERROR, True)


def test_workers_are_listed_with_queues(here: Installation) -> None:
    Presence(here.redis_url).renew("worker@host", ["celery", "slow"])
    assert [finding.text for finding in workers.seen(here)] == ["worker@host listens to celery, slow"]
    assert levels(workers.queues(here)) == [(Level.OK, False)]


def test_tool_queue_without_worker_is_error(here: Installation) -> None:
    Presence(here.redis_url).renew("worker@host", ["celery"])
    Tool.objects.filter(name="count").update(queue="slow")
    (found,) = workers.queues(here)
    assert (found.level, "the queue slow" in found.text) == (Level.ERROR, True)
    Tool.objects.filter(name="count").update(enabled=False)
    assert levels(workers.queues(here)) == [(Level.OK, False)]


@pytest.mark.parametrize(("waiting", "level"), [(3, Level.OK), (workers.MANY_JOBS + 1, Level.WARNING)])
def test_waiting_jobs_are_counted(here: Installation, waiting: int, level: Level) -> None:
    with redis.Redis.from_url(here.redis_url, protocol=2) as client:
        client.rpush("celery", *range(waiting))
    (found,) = workers.jobs(here)
    assert (found.level, f"{waiting} queued calls in the queue celery") == (level, found.text)


def session(**times: Any) -> None:
    now = timezone.now()
    Session.objects.create(id="s", created_at=now, **{"last_seen_at": now, **times})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"last_seen_at": 50}, [(Level.WARNING, True)]),
        ({"last_seen_at": 40}, []),
        ({"last_seen_at": 40, "ended_at": 5, "end_reason": "idle"}, [(Level.OK, False)]),
        ({"last_seen_at": 90, "ended_at": 50, "end_reason": "idle"}, []),
    ],
)
def test_beat_is_judged_by_overdue_idle_sessions(
    fields: dict[str, Any], expected: list[tuple[Level, bool]]
) -> None:
    now = timezone.now()
    session(
        **{
            name: now - timedelta(minutes=value) if isinstance(value, int) else value
            for name, value in fields.items()
        }
    )
    assert levels(workers.beat(Installation())) == expected


def test_worker_checks_are_skipped_without_redis() -> None:
    assert levels(workers.visible(Installation())) == [(Level.SKIPPED, False)]
    assert levels(workers.visible(Installation(redis_url="redis://127.0.0.1:1/0"))) == [
        (Level.SKIPPED, False)
    ]
