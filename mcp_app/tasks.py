"""What the Celery worker does for the app: cleaning, the drain of the message log, its sign of life."""

from __future__ import annotations

import logging
import threading
from typing import Any

from celery import shared_task
from celery.signals import heartbeat_sent, worker_ready, worker_shutting_down

from mcp_app import conf
from mcp_app.sessions import drain, retention
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.presence import Presence

log = logging.getLogger("mcp.worker")

_stop = threading.Event()
_presence: list[Presence] = []


@shared_task(ignore_result=True)
def purge_expired() -> dict[str, int]:
    """Remove what retention allows; returns how many rows of each kind."""
    return {"sessions": retention.close_idle_sessions(), "messages": retention.purge_messages()}


@worker_ready.connect
def start_drain(**_: Any) -> None:
    """Write the message log from a thread of the main process: one reader however many children."""
    _stop.clear()
    if url := conf.get().redis_url:
        _presence[:] = [Presence(url)]
        say_alive()
        threading.Thread(
            target=drain.run_forever, args=(_stop,), name="message-log-drain", daemon=True
        ).start()


@worker_shutting_down.connect
def stop_drain(**_: Any) -> None:
    """Let the drain finish the batch it is writing."""
    _stop.set()


@heartbeat_sent.connect
def say_alive(**_: Any) -> None:
    """Renew the sign of life from the worker's own loop, so that a worker that hangs is missed (/readyz)."""
    for presence in _presence:
        try:
            presence.renew()
        except StreamsUnavailable as error:
            log.warning("%s", error)
