"""Workers: who is seen, whether each queue has one, what waits, and what idle sessions tell of the beat."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone

from mcp_app.catalogue.changes.code_mirror import mirror
from mcp_app.doctor import Finding, Installation, Level, workers
from mcp_app.models import Session, Tool
from mcp_app.streams.blocking.presence import Presence

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


@pytest.fixture
def here(clean_redis: str) -> Installation:
    """A catalogue in the database and an empty Redis."""
    mirror()
    return Installation(redis_url=clean_redis)


def levels(found: Iterator[Finding]) -> list[tuple[Level, bool]]:
    return [(finding.level, bool(finding.remedy)) for finding in found]


def test_a_worker_that_is_missing_is_an_error_with_its_remedy(here: Installation) -> None:
    assert levels(workers.seen(here)) == [(Level.ERROR, True)]
    (queue,) = workers.queues(here)
    assert (queue.level, "--queues celery" in queue.remedy) == (Level.ERROR, True)


def test_workers_are_named_with_their_queues(here: Installation) -> None:
    Presence(here.redis_url).renew("worker@host", ["celery", "slow"])
    assert [finding.text for finding in workers.seen(here)] == ["worker@host listens to celery, slow"]
    assert levels(workers.queues(here)) == [(Level.OK, False)]


def test_a_queue_of_a_tool_that_no_worker_listens_to_is_an_error(here: Installation) -> None:
    Presence(here.redis_url).renew("worker@host", ["celery"])
    Tool.objects.filter(name="count").update(queue="slow")
    (found,) = workers.queues(here)
    assert (found.level, "the queue slow" in found.text) == (Level.ERROR, True)
    Tool.objects.filter(name="count").update(enabled=False)
    assert levels(workers.queues(here)) == [(Level.OK, False)]


@pytest.mark.parametrize(("waiting", "level"), [(3, Level.OK), (workers.MANY_JOBS + 1, Level.WARNING)])
def test_jobs_that_wait_are_counted(here: Installation, waiting: int, level: Level) -> None:
    with redis.Redis.from_url(here.redis_url, protocol=2) as client:
        client.rpush("celery", *range(waiting))
    (found,) = workers.jobs(here)
    assert (found.level, f"{waiting} wait in celery") == (level, found.text)


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
def test_the_beat_is_judged_by_sessions_left_idle_when_they_tell_of_it(
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


def test_without_redis_workers_are_not_looked_for() -> None:
    assert levels(workers.visible(Installation())) == [(Level.SKIPPED, False)]
    assert levels(workers.visible(Installation(redis_url="redis://127.0.0.1:1/0"))) == [
        (Level.SKIPPED, False)
    ]
