"""The app's part of a Celery worker: jobs, deleting expired rows, storing the message log, heartbeats."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Final

from billiard import active_children, current_process
from celery import bootsteps, shared_task
from celery.signals import (
    worker_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutting_down,
)
from celery.worker import state
from django.apps import apps
from kombu.exceptions import OperationalError

from mcp_app import conf
from mcp_app.auth.api_keys import end_expired_keys
from mcp_app.catalogue.documents import storing
from mcp_app.catalogue.upstreams import refreshing
from mcp_app.database import queries
from mcp_app.execution.background import celery, reaper
from mcp_app.execution.background.stalled_jobs import LostJobs
from mcp_app.execution.keyed import rows as keyed_calls
from mcp_app.execution.long_results import storage
from mcp_app.execution.stored import records
from mcp_app.execution.worker.attempt_slots import SLOTS, AttemptSlots
from mcp_app.execution.worker.descendants import Orphans, adopt_orphans
from mcp_app.execution.worker.lease_renewer import EXIT_STATUS
from mcp_app.execution.worker.parent_renewer import ParentRenewer
from mcp_app.execution.worker.pool_size import PoolSize
from mcp_app.execution.worker.waiting_children import WaitingChildren, WaitingSlot
from mcp_app.execution.worker.worker import Worker
from mcp_app.limits import usage
from mcp_app.message_log import pending, retention, rollups, writer
from mcp_app.message_log.counts import callers, error_groups
from mcp_app.notices import delivery
from mcp_app.sessions.client_requests import NoAnswer
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.blocking.presence import Presence
from mcp_app.streams.blocking.server_facts import cluster_fault

log = logging.getLogger("mcp.worker")

TICK_SECONDS: Final = 2.0

_stop = threading.Event()
_lost_jobs = LostJobs()
_orphans = Orphans()
# Created before the fork, because the children share this memory.
_waiting = WaitingChildren()
_slots = AttemptSlots()
_pool: list[PoolSize] = []
_parents: list[ParentRenewer] = []
_presence: list[Callable[[], None]] = []


@shared_task(ignore_result=True)
def purge_expired() -> dict[str, int]:
    """Delete rows that are older than their retention, and end the sessions of expired API keys.

    Return the number of each kind.
    """
    return {
        "keys": end_expired_keys(),
        "sessions": retention.close_idle_sessions(),
        "messages": retention.purge_messages(),
        "unanswered": pending.end_abandoned(),
        "rollups": rollups.purge() + callers.purge() + error_groups.purge(),
        "calls": records.purge(),
        "results": storage.purge(),
        "keyed_calls": keyed_calls.purge(),
        "limits": usage.delete_old(),
        **({"oauth": _purge_oauth()} if apps.is_installed("mcp_app.oauth") else {}),
    }


def _purge_oauth() -> int:
    from mcp_app.oauth import upkeep

    return upkeep.purge()


@worker_ready.connect
def start_drain(sender: Any = None, **_: Any) -> None:
    """Start the threads of the main process, such as the one that stores the message log for all children."""
    _stop.clear()
    queries.watch()
    # Only the children of a prefork pool can get substitutes while they wait.
    _pool[:] = [PoolSize(sender, _waiting)] if hasattr(getattr(sender, "pool", None), "grow") else []
    _parents[:] = [ParentRenewer(_slots, pool.children) for pool in _pool]
    for parent in _parents:
        # It runs until the process exits, because calls still run after a stop request.
        threading.Thread(target=parent.run_forever, name="parent-renewer", daemon=True).start()
    if url := conf.get().redis_url:
        _presence[:] = [partial(Presence(url).renew, *_name_and_queues(sender))]
        send_heartbeat()
        for name, forever in (
            ("message-log-drain", writer.run_forever),
            ("reaper", reaper.run_forever),
            ("notices", partial(delivery.run_forever, enqueue=_enqueue_notice)),
        ):
            threading.Thread(target=forever, args=(_stop,), name=name, daemon=True).start()


def _name_and_queues(consumer: Any) -> tuple[str, tuple[str, ...]]:
    """Return the name and the queues of this worker for operators."""
    if consumer is None:
        return "worker", ()
    return str(consumer.hostname), tuple(sorted(consumer.app.amqp.queues.consume_from))


@worker_shutting_down.connect
def stop_drain(**_: Any) -> None:
    """Stop the threads. The thread that stores the message log finishes its current batch."""
    _stop.set()


class Ticks(bootsteps.StartStopStep):
    """The timers of the worker's own loop, from each connection to the broker until its end.

    Celery's heartbeats have a signal, but they can be switched off, as ``manage.py up`` does. Each part has
    its own timer, so the failure of one does not stop the others.
    """

    _entries: tuple[Any, ...] = ()

    def start(self, parent: Any) -> None:
        """Start the timers. The children are looked at now, as one may die before the first tick."""
        end_orphans()
        parts = (send_heartbeat, end_orphans, give_back_lost_jobs, replace_waiting_children)
        self._entries = tuple(parent.timer.call_repeatedly(TICK_SECONDS, part) for part in parts)

    def stop(self, parent: Any) -> None:
        """Stop the timers."""
        entries, self._entries = self._entries, ()
        for entry in entries:
            parent.timer.cancel(entry)

    shutdown = stop


@worker_init.connect
def add_ticks(sender: Any, **_: Any) -> None:
    """Add the timers to a worker, before the worker builds the parts of its loop."""
    sender.app.steps["consumer"].add(Ticks)


def send_heartbeat() -> None:
    """Send a heartbeat from the worker's own loop, so that /readyz detects a blocked worker."""
    for presence in _presence:
        try:
            presence()
        except StreamsUnavailable as error:
            log.warning("%s", error)


@worker_init.connect
def refuse_cluster(**_: Any) -> None:
    """End a worker whose Redis is a Cluster, because it would try to connect forever."""
    if refused := cluster_fault(conf.get().redis_url):
        raise SystemExit(refused)


@worker_init.connect
def inherit_orphans(**_: Any) -> None:
    """Make the main process the parent of a tool's programs if their child process is killed."""
    adopt_orphans()


@worker_init.connect
def filter_crash_messages(**_: Any) -> None:
    """Drop Celery's log lines about the crash of a child that a lease renewer has ended and logged."""
    ended_by_itself = re.compile(rf"exitcode {EXIT_STATUS}\b").search

    def is_news(record: logging.LogRecord) -> bool:
        words = record.getMessage()
        return not ended_by_itself(words) and not any(parent.has_logged(words) for parent in _parents)

    for name in ("multiprocessing", "celery.worker.request"):
        logging.getLogger(name).addFilter(is_news)


def end_orphans() -> None:
    """End programs of tools whose child process no longer exists (R32)."""
    ended = _orphans.end([child.pid for child in active_children()])
    if ended:
        log.warning("Ended %d programs of tools whose process is gone", len(ended))


def give_back_lost_jobs() -> None:
    """Return jobs of dead children to their queue. A job must be able to run a second time."""
    for request in _lost_jobs.among([*state.reserved_requests], [*state.active_requests]):
        log.warning("Job %s was lost with its process and is queued again", request.id)
        request.reject(requeue=True)
        state.task_ready(request)


def replace_waiting_children() -> None:
    """Add substitutes for children that wait for clients, and end spare children."""
    for pool in _pool:
        pool.adjust(all_begun=len(state.reserved_requests) == len(state.active_requests))


# A job must be queued again if its process dies. The options are explicit, because the project's Celery may
# have other defaults.
@shared_task(ignore_result=True, acks_late=True, reject_on_worker_lost=True)
def run_call(call_id: str) -> str:
    """Run one attempt of a background call. Return its outcome, or "" if there was nothing to do."""
    return _worker().run(call_id)


# With time limits, because a slow mail server could use the full timeout in every step.
@shared_task(ignore_result=True, acks_late=False, soft_time_limit=45, time_limit=60)
def send_notice(channel_id: int) -> bool:
    """Send a due notification. Meanwhile the worker has an additional process for calls."""
    child = current_process()
    if not child.daemon:
        return delivery.deliver(channel_id)
    # If no substitute is available, a slow server would delay calls. The notification is sent when it is
    # next due.
    with suppress(NoAnswer), WaitingSlot(_waiting, child.index, conf.get().max_waiting_children):
        return delivery.deliver(channel_id)
    return False


@shared_task(
    ignore_result=True, acks_late=True, reject_on_worker_lost=True, soft_time_limit=280, time_limit=300
)
def read_document(pk: int) -> None:
    """Read a received OpenAPI document. The outcome is stored with the document."""
    storing.read_incoming(pk)


@shared_task(ignore_result=True, acks_late=False, soft_time_limit=280, time_limit=300)
def refresh_upstreams() -> dict[str, str]:
    """Read the tools of upstream servers, and save drafts of changes. Return failures by server."""
    return refreshing.refresh_due()


def _enqueue_notice(channel_id: int) -> bool:
    """Queue the job of a notification ahead of waiting calls. Return False if the broker is unavailable."""
    try:
        celery.application().send_task(send_notice.name, args=[channel_id], priority=0, retry=False)
    except OperationalError as error:
        log.warning("A notification waits for the broker: %s", error)
        return False
    return True


@worker_process_shutdown.connect
def close_worker(**_: Any) -> None:
    """Write buffered data before a child exits."""
    if _worker.cache_info().currsize:
        _worker().close()


@lru_cache(maxsize=1)
def _worker() -> Worker:
    """Return the worker of this process.

    It is created with the first job, because threads do not survive a fork.
    """
    # Only a prefork child may exit, because it runs a single job and is replaced.
    child = current_process()
    if not child.daemon:
        return Worker(conf.get(), may_exit=False)
    adopt_orphans()
    return Worker(
        conf.get(),
        may_exit=True,
        place=WaitingSlot(_waiting, child.index, conf.get().max_waiting_children),
        slot=_slots.of_child(child.index) if child.index < SLOTS else None,
    )
