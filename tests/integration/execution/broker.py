"""Celery applications on the Redis of the tests, and calls with enqueued jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from celery import Celery, current_app

from mcp_app.auth.principal import LOOPBACK
from mcp_app.execution.background.celery import application, enqueue_new
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord, NewCall
from mcp_app.sessions.session import stored_fields

OURS = "mcp_app.integrations.broker:Transport"
FIELDS = stored_fields(
    version="2025-11-25", principal_key=LOOPBACK.key, client_info={}, capabilities={}, announced=0
) | {"initialized": "1"}


@contextmanager
def application_with(broker: str, *, transport: str = OURS) -> Iterator[Celery]:
    """Make an application with that broker the project's application."""
    before = current_app._get_current_object()
    app = Celery("jobs", broker=broker)
    app.conf.broker_transport = transport or None
    app.conf.broker_transport_options = {"max_retries": 1, "interval_start": 0.1}
    app.set_current()
    app.set_default()
    application.cache_clear()
    try:
        yield app
    finally:
        before.set_current()
        before.set_default()
        application.cache_clear()
        app.close()


def new(**changed: Any) -> NewCall:
    values: dict[str, Any] = {
        "session_id": uuid4().hex,
        "request_id": 1,
        "principal": LOOPBACK.key,
        "user_id": None,
        "api_key_id": None,
        "tool": "work",
        "arguments": {},
        "meta": {},
        "session_fields": FIELDS,
        "stream": f"call-{uuid4().hex}"[:40],
        "timeout": 300,
    }
    return NewCall(**values | changed)


def queued(**changed: Any) -> CallRecord:
    """Accept a call and enqueue its job."""
    call, _ = records.accept(new(**changed))
    enqueue_new(call)
    return call
