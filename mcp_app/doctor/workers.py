"""Checks of workers: live workers, queues with a worker, waiting jobs, and the periodic task."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from mcp_app import conf
from mcp_app.catalogue.snapshots import snapshot_loader
from mcp_app.database import clock
from mcp_app.doctor.finding import Finding, error, ok, skipped, warning
from mcp_app.doctor.installation import Installation
from mcp_app.execution.background.celery import application
from mcp_app.execution.stored.call_record import DEFAULT_QUEUE
from mcp_app.interface.text import counted
from mcp_app.models import Session
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.blocking.job_queues import JobQueues
from mcp_app.streams.blocking.presence import LIFE_SECONDS, Presence

MANY_JOBS = 100
PURGE = "mcp_app.tasks.purge_expired"
# Three times the interval of the periodic task, which runs every five minutes.
BEAT_LATE = timedelta(minutes=15)


def visible(installation: Installation) -> Iterator[Finding]:
    """Report that the area is skipped if there is no Redis to ask for workers.

    Report nothing otherwise.
    """
    if not installation.redis_url:
        yield skipped("workers.visible", "without Redis, background tools run in the web process")
        return
    try:
        Presence(installation.redis_url).seen()
    except StreamsUnavailable:
        yield skipped("workers.visible", "unknown while Redis is unavailable")


def seen(installation: Installation) -> Iterator[Finding]:
    """Report the live workers and the queues that they serve."""
    workers = Presence(installation.redis_url).workers()
    for worker in workers:
        yield ok("workers.seen", f"{worker.name} listens to {', '.join(worker.queues) or 'no queue'}")
    if not workers:
        text = f"no worker was seen within {LIFE_SECONDS} s: background calls wait"
        yield error("workers.seen", text, f"Start one: `celery -A {application().main} worker`.")


def queues(installation: Installation) -> Iterator[Finding]:
    """Check that every queue used by a tool in the catalogue has a worker."""
    used = _used_queues()
    served = {queue for worker in Presence(installation.redis_url).workers() for queue in worker.queues}
    for queue in sorted(used - served):
        text = f"background tools use the queue {queue}, which has no worker"
        yield error(
            "workers.queues", text, f"Start `celery -A {application().main} worker --queues {queue}`."
        )
    if used <= served:
        named = ", ".join(sorted(used))
        text = f"every queue of a tool has a worker: {named}" if used else "no tool needs a queue"
        yield ok("workers.queues", text)


def jobs(installation: Installation) -> Iterator[Finding]:
    """Report the number of jobs that no worker has claimed, by queue."""
    served = {queue for worker in Presence(installation.redis_url).workers() for queue in worker.queues}
    for queue, waiting in sorted(JobQueues(installation.redis_url).depths(served | _used_queues()).items()):
        text = f"{waiting} queued call{'' if waiting == 1 else 's'} in the queue {queue}"
        if waiting > MANY_JOBS:
            yield warning("workers.jobs", text, "Start more workers, or raise --concurrency.")
        else:
            yield ok("workers.jobs", text)


def beat(_: Installation) -> Iterator[Finding]:
    """Check that the periodic task ran recently.

    The task ends idle sessions. If there is no session from which to conclude, nothing is reported.
    """
    now = clock.utcnow()
    due = now - timedelta(seconds=conf.get().session_idle_seconds) - BEAT_LATE
    late = Session.objects.filter(ended_at=None, last_seen_at__lt=due).count()
    if late:
        text = f"the periodic task did not run recently: {counted(late, 'idle session')} still open"
        remedy = f"Start exactly one `celery -A {application().main} beat`, with {PURGE} in its schedule."
        yield warning("workers.beat", text, remedy)
    elif Session.objects.filter(end_reason="idle", ended_at__gt=now - BEAT_LATE).exists():
        yield ok("workers.beat", "the periodic task ran recently")


def _used_queues() -> frozenset[str]:
    return frozenset(queue or DEFAULT_QUEUE for queue in snapshot_loader.load().queues)


CHECKS = (seen, queues, jobs, beat)
