"""Long polling for a call's messages, for callers with a thread each. Limited, and ended on shutdown."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any

from django.db import close_old_connections

from mcp_app import conf
from mcp_app.execution.call_log import wait_for_more
from mcp_app.models import Call
from mcp_app.protocol.call_state import is_terminal
from mcp_app.streams.base import Position, StreamsUnavailable

# Each waiting request occupies a thread. Without a free slot a request is answered at once and repeated.
MOST_WAITING = 16
# Interval of queries for the row when no message arrives.
LOOK_SECONDS = 2.0

_places = threading.BoundedSemaphore(MOST_WAITING)
_stopping = threading.Event()


def wait_for_word(call: Call, after: Position | None, seconds: float) -> Call:
    """Wait up to ``seconds`` for a message after ``after`` or the end of the call, and return the call.

    Return the call at once without a free slot and without Redis. No database connection is held meanwhile.
    """
    if is_terminal(call.state) or not conf.get().redis_url or not _places.acquire(blocking=False):
        return call
    try:
        deadline = monotonic() + seconds
        heard = False
        while not heard and not is_terminal(call.state) and (left := deadline - monotonic()) > 0:
            if _stopping.is_set():
                break
            close_old_connections()
            heard = _heard(call, after, min(left, LOOK_SECONDS))
            call = Call.objects.get(pk=call.pk)
    finally:
        _places.release()
    return call


def begin() -> None:
    """Allow requests to wait. Called when the process starts to serve."""
    _stopping.clear()


def stop() -> None:
    """Answer waiting requests and let no further request wait. Called before the process stops."""
    _stopping.set()


def _heard(call: Any, after: Position | None, seconds: float) -> bool:
    deadline = monotonic() + seconds
    while (left := deadline - monotonic()) > 0 and not _stopping.is_set():
        try:
            if wait_for_more(call.session_id, call.stream, after, left):
                return True
        except StreamsUnavailable:
            _stopping.wait(left)
    return False
