"""The tools of the app."""

from __future__ import annotations

import os
import time

from mcp_app import expose, tool
from tests.process.queueing_app.tasks import import_books

expose.celery_task(import_books)


@tool(background=True, max_running=1)
def alone(seconds: float) -> list[float]:
    """Wait; returns when it began and ended on the clock all processes share."""
    begun = time.monotonic()
    time.sleep(seconds)
    return [begun, time.monotonic()]


@tool
def here() -> int:
    """The process it runs in; not in the background unless an administrator says so."""
    return os.getpid()
