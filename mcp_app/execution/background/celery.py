"""Finds the project's Celery and hands background calls to it by name; only this knows the broker."""

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
# Who listens to these wants to hear of each job.
SENT = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)
# What Celery calls the application it makes up when a thread asks for one and there is none.
MADE_UP = "default"

log = logging.getLogger("mcp.background")
_loading = threading.Lock()


class BrokerUnavailable(Exception):
    """The job could not be handed to the broker; the call's row stays and is handed on later."""


@lru_cache(maxsize=1)
def application() -> Celery:
    """The project's Celery application; without one, Celery's default, which has no usable broker.

    Celery's own ``current_app`` is known to the thread that made it, and made up anew in every other, unless
    the project said ``set_default()``, which hardly any does. So it is said here, once. An application that
    nothing has imported yet is looked for where Celery's guide for Django puts it: ``<project>/celery.py``.
    """
    app = _current() or _only_one()
    if app is None and (module := _module()):
        import_module(module)
        app = _current() or _only_one()
    if app is None:
        log.warning("No Celery application of this project was found: background calls wait for one")
        return _state.get_current_app()
    app.set_default()
    return app


def is_found() -> bool:
    """Whether the project has a Celery application, and not only the one that Celery makes up."""
    return bool(application().main != MADE_UP)


def knows_our_tasks() -> bool:
    """Whether a worker of that application could run a background call; loads all of its tasks.

    Loading Celery runs Django's checks, one of which calls this: then the answer is yes, as for the first
    call.
    """
    app = application()
    if TASK in app.tasks or _loading.locked():
        return True
    with _loading:
        app.loader.import_default_modules()
    return TASK in app.tasks


def _current() -> Celery | None:
    """What Celery holds for the application of this thread or of all, if anybody made it."""
    for app in (_state._tls.current_app, _state.default_app):
        if app is not None and app.main != MADE_UP:
            return app
    return None


def _only_one() -> Celery | None:
    """The application that another thread made; None if there are several."""
    found = [app for app in _state._get_active_apps() if app.main != MADE_UP]
    return found[0] if len(found) == 1 else None


def _module() -> str:
    """Where the project's application would be, by the folder of its settings or its URLs; perhaps empty."""
    for named in (os.environ.get("DJANGO_SETTINGS_MODULE", ""), django_settings.ROOT_URLCONF):
        package = named.partition(".")[0]
        if package and find_spec(package) and find_spec(f"{package}.celery"):
            return f"{package}.celery"
    return ""


def enqueue(call: CallRecord, delay: float = 0, job_id: str | None = None) -> None:
    """Queue one job for a call, by its id only; raises BrokerUnavailable. Celery gives it an id if we do not.

    Blocks for a millisecond or two, and for seconds when Redis does not answer.
    """
    app, name = application(), str(call.id)
    try:
        with app.producer_or_acquire() as producer:
            app.send_task(
                TASK,
                args=[name],
                # Else Celery takes time to show what the job's arguments are.
                argsrepr=name,
                kwargsrepr="{}",
                task_id=job_id,
                queue=call.queue,
                # On Redis the smallest number leaves the queue first.
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
    """The list of that Redis, and the message in it, that are the job of a call just accepted.

    None if Celery has to word it: the broker is another, somebody wants to hear of each job, or it is the
    first job of its queue and priority.
    """
    app = application()
    if not _is_broker(app, redis_url) or any(signal.receivers for signal in SENT):
        return None
    like = _messages(app).get((call.queue, call.priority))
    return None if like is None else (like.key, like.of(str(call.id)))


@lru_cache(maxsize=1)
def _is_broker(app: Celery, redis_url: str) -> bool:
    """Whether an application has its jobs in that Redis, and no events of them."""
    return bool(app.conf.broker_write_url == redis_url and not app.conf.task_send_sent_event)


@lru_cache(maxsize=1)
def _messages(app: Celery) -> dict[tuple[str, int], JobMessage | None]:
    """For each queue and priority a job that Celery worded."""
    return {}


def _learn(app: Celery, call: CallRecord, channel: Any) -> None:
    known, kind = _messages(app), (call.queue, call.priority)
    if kind not in known and isinstance(channel, Channel):
        put = channel.last_put
        known[kind] = None if put is None else JobMessage.like(*put, str(call.id))


def hand_on_new(call: CallRecord) -> bool:
    """Queue the job of a call just accepted; False when the broker is away, so that the reaper does it later.

    A process that dies before this leaves a row that claims to have a job: the reaper counts them (R4). A
    call that waits for approval gets its job when it is approved.
    """
    if call.waits_for_approval:
        return False
    try:
        # The first job of a call: in Celery's tools it is found by the call's id.
        enqueue(call, job_id=str(call.id))
    except BrokerUnavailable as error:
        log.warning("Call %s waits for the broker: %s", call.id, error)
        records.note_enqueued(call.id, is_queued=False)
        return False
    return True


def hand_on(call: CallRecord, delay: float = 0) -> bool:
    """Queue a job for a call again and note it; False as for ``hand_on_new``."""
    try:
        enqueue(call, delay)
    except BrokerUnavailable as error:
        log.warning("Call %s waits for the broker: %s", call.id, error)
        return False
    records.note_enqueued(call.id)
    return True


def remove_jobs(calls: Iterable[CallRecord]) -> None:
    """Remove the first jobs of these calls, begun by the job of another; what stays finds nothing to do.

    Only their own, by id. If another child has taken one meanwhile and found nothing, there is none too many,
    and any other job may be the only turn of a call that was accepted since. Blocks as ``enqueue``.
    """
    jobs: dict[tuple[str, int], list[str]] = defaultdict(list)
    for call in calls:
        jobs[call.queue, HIGHEST_PRIORITY - call.priority].append(str(call.id))
    app = application()
    with suppress(OperationalError), app.producer_or_acquire() as producer:
        channel, connection = producer.channel, producer.connection
        if isinstance(channel, Channel):  # Other brokers cannot look into their queues.
            with suppress(*connection.connection_errors, *connection.channel_errors):
                for (queue, priority), ids in jobs.items():
                    channel.remove(queue, priority, ids)


def waiting(queue: str) -> int:
    """How many jobs of a queue no worker has taken; raises BrokerUnavailable. May block as ``enqueue``."""
    with application().connection_for_write() as connection:
        try:
            count: int = connection.default_channel.queue_declare(queue, durable=True).message_count
        except (OperationalError, *connection.connection_errors, *connection.channel_errors) as error:
            raise BrokerUnavailable(str(error)) from error
    return count
