"""Hands background calls to Celery by name; the only place here that knows the broker."""

from __future__ import annotations

import logging

from celery import current_app
from kombu.exceptions import OperationalError

from mcp_app.execution import records
from mcp_app.execution.records import CallRecord

HIGHEST_PRIORITY = 9
TASK = "mcp_app.tasks.run_call"

log = logging.getLogger("mcp.background")


class BrokerUnavailable(Exception):
    """The job could not be handed to the broker; the call's row stays and is handed on later."""


def enqueue(call: CallRecord, delay: float = 0) -> None:
    """Queue one job for a call, by its id only; raises BrokerUnavailable.

    Blocks for a millisecond or two, and for seconds when Redis does not answer.
    """
    try:
        current_app.send_task(
            TASK,
            args=[str(call.id)],
            queue=call.queue,
            # On Redis the smallest number leaves the queue first.
            priority=HIGHEST_PRIORITY - call.priority,
            countdown=delay or None,
            retry=False,
        )
    except OperationalError as error:
        raise BrokerUnavailable(str(error)) from error


def hand_on_new(call: CallRecord) -> bool:
    """Queue the job of a call just accepted; False when the broker is away, so that the reaper does it later.

    A process that dies before this leaves a row that claims to have a job: the reaper counts them (R4).
    """
    try:
        enqueue(call)
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


def waiting(queue: str) -> int:
    """How many jobs of a queue no worker has taken; raises BrokerUnavailable. May block as ``enqueue``."""
    with current_app.connection_for_write() as connection:
        try:
            count: int = connection.default_channel.queue_declare(queue, durable=True).message_count
        except (OperationalError, *connection.connection_errors, *connection.channel_errors) as error:
            raise BrokerUnavailable(str(error)) from error
    return count
