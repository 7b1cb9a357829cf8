"""The project's Celery application, and the queueing of background calls. No other module uses the broker."""

from __future__ import annotations

import logging
import os
import threading
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from celery import Celery, _state, signals
from django.conf import settings as django_settings
from kombu.exceptions import OperationalError

from mcp_app.execution.background.broker import Channel
from mcp_app.execution.background.job_message import JobMessage
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord

HIGHEST_PRIORITY = 9
TASK = "mcp_app.tasks.run_call"
READ_DOCUMENT = "mcp_app.tasks.read_document"
# If a project has receivers for these signals, they must get one signal for each job.
SENT = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)
# Celery's name for the application that it creates if a thread needs one before the project has created
# any.
MADE_UP = "default"

log = logging.getLogger("mcp.background")
_loading = threading.Lock()


class BrokerUnavailable(Exception):
    """The job could not be queued. The call's row is stored, so the call is queued later."""


@lru_cache(maxsize=1)
def application() -> Celery:
    """Return the project's Celery application, or Celery's default application, which has no usable broker.

    Celery's ``current_app`` is local to the thread that created it, unless the project calls
    ``set_default()``, which few projects do. Therefore this function calls it. If no application has been
    imported yet, import ``<project>/celery.py``, where Celery's guide for Django puts it.
    """
    app = _current() or _only_one()
    if app is None and (module := _module()):
        import_module(module)
        app = _current() or _only_one()
    if app is None:
        log.warning("No Celery application found in this project. Background calls wait until there is one.")
        return _state.get_current_app()
    app.set_default()
    return app


def is_found() -> bool:
    """Return True if the project has its own Celery application."""
    return bool(application().main != MADE_UP)


def knows_our_tasks() -> bool:
    """Return True if a worker of the application could run a background call.

    This loads all tasks of the application. Loading them makes Celery run Django's checks, and one of these
    checks calls this function again. The nested call returns True.
    """
    app = application()
    if TASK in app.tasks or _loading.locked():
        return True
    with _loading:
        app.loader.import_default_modules()
    return TASK in app.tasks


def _current() -> Celery | None:
    """Return the application that Celery holds for this thread or for all threads.

    Ignore Celery's default.
    """
    for app in (_state._tls.current_app, _state.default_app):
        if app is not None and app.main != MADE_UP:
            return app
    return None


def _only_one() -> Celery | None:
    """Return the application that another thread created, or None unless there is exactly one."""
    found = [app for app in _state._get_active_apps() if app.main != MADE_UP]
    return found[0] if len(found) == 1 else None


def _module() -> str:
    """Return the module in the project's package that should hold the application, or ""."""
    for named in (os.environ.get("DJANGO_SETTINGS_MODULE", ""), django_settings.ROOT_URLCONF):
        package = named.partition(".")[0]
        if package and find_spec(package) and find_spec(f"{package}.celery"):
            return f"{package}.celery"
    return ""


def enqueue(call: CallRecord, delay: float = 0, job_id: str | None = None) -> None:
    """Queue one job for a call, by the call's id.

    Celery chooses the job's id unless ``job_id`` is given. Raise BrokerUnavailable. This blocks for a
    millisecond or two, and for seconds if Redis does not respond.
    """
    app, name = application(), str(call.id)
    try:
        with app.producer_or_acquire() as producer:
            app.send_task(
                TASK,
                args=[name],
                # Without this, Celery computes a representation of the arguments.
                argsrepr=name,
                kwargsrepr="{}",
                task_id=job_id,
                queue=call.queue,
                # On Redis, the jobs with the smallest number are delivered first.
                priority=HIGHEST_PRIORITY - call.priority,
                countdown=delay or None,
                retry=False,
                producer=producer,
            )
            if job_id == name:
                _learn(app, call, producer.channel)
    except OperationalError as error:
        raise BrokerUnavailable(str(error)) from error


def worded(call: CallRecord, redis_url: str) -> tuple[str, str] | None:
    """Return the Redis list and the message that queue the job of a newly accepted call.

    Return None if Celery must build the message. This is the case with another broker, if its signals have
    receivers, and for the first job of a queue and priority.
    """
    app = application()
    if not _is_broker(app, redis_url) or any(signal.receivers for signal in SENT):
        return None
    like = _messages(app).get((call.queue, call.priority))
    return None if like is None else (like.key, like.of(str(call.id)))


@lru_cache(maxsize=1)
def _is_broker(app: Celery, redis_url: str) -> bool:
    """Return True if the broker is this Redis server and the application sends no events for queued jobs."""
    return bool(app.conf.broker_write_url == redis_url and not app.conf.task_send_sent_event)


@lru_cache(maxsize=1)
def _messages(app: Celery) -> dict[tuple[str, int], JobMessage | None]:
    """Return the cache of message templates by queue and priority.

    It is filled from messages built by Celery.
    """
    return {}


def _learn(app: Celery, call: CallRecord, channel: Any) -> None:
    known, kind = _messages(app), (call.queue, call.priority)
    if kind not in known and isinstance(channel, Channel):
        put = channel.last_put
        known[kind] = None if put is None else JobMessage.like(*put, str(call.id))


def enqueue_document(pk: int) -> None:
    """Queue the reading of a received OpenAPI document. Raise BrokerUnavailable."""
    try:
        application().send_task(READ_DOCUMENT, args=[pk], retry=False)
    except OperationalError as error:
        raise BrokerUnavailable(str(error)) from error


def enqueue_new(call: CallRecord) -> bool:
    """Queue the job of a newly accepted call.

    Return False if the broker is down. The reaper then queues the job later. If the process dies first, the
    row wrongly says that the call has a job. The reaper finds out by counting jobs (R4). A call that waits
    for approval gets its job when it is approved.
    """
    if call.waits_for_approval:
        return False
    try:
        # The first job has the id of its call, so that Celery's tools find it.
        enqueue(call, job_id=str(call.id))
    except BrokerUnavailable as error:
        log.warning("Call %s waits for the broker: %s", call.id, error)
        records.record_enqueued(call.id, is_queued=False)
        return False
    return True


def enqueue_again(call: CallRecord, delay: float = 0) -> bool:
    """Queue another job for a call and record it. Return False if the broker is down."""
    try:
        enqueue(call, delay)
    except BrokerUnavailable as error:
        log.warning("Call %s waits for the broker: %s", call.id, error)
        return False
    records.record_enqueued(call.id)
    return True


def remove_jobs(calls: Iterable[CallRecord]) -> None:
    """Remove the first jobs of calls that a worker has claimed with another call's job.

    Jobs are removed by id only, because any other job may be the only job of a newly accepted call. A job
    that is not removed finds nothing to do. This blocks like ``enqueue``.
    """
    jobs: dict[tuple[str, int], list[str]] = defaultdict(list)
    for call in calls:
        jobs[call.queue, HIGHEST_PRIORITY - call.priority].append(str(call.id))
    app = application()
    with suppress(OperationalError), app.producer_or_acquire() as producer:
        channel, connection = producer.channel, producer.connection
        if isinstance(channel, Channel):  # Other brokers cannot search their queues.
            with suppress(*connection.connection_errors, *connection.channel_errors):
                for (queue, priority), ids in jobs.items():
                    channel.remove(queue, priority, ids)


def waiting(queue: str) -> int:
    """Return the number of unclaimed jobs in a queue. Raise BrokerUnavailable.

    This may block like ``enqueue``.
    """
    with application().connection_for_write() as connection:
        try:
            count: int = connection.default_channel.queue_declare(queue, durable=True).message_count
        except (OperationalError, *connection.connection_errors, *connection.channel_errors) as error:
            raise BrokerUnavailable(str(error)) from error
    return count
