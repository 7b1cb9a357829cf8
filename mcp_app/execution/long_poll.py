"""Long polling for messages of a call, for requests that each occupy a thread.

Their number is limited, and shutdown ends them.
"""

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

# Maximum number of waiting requests, because each occupies a thread. Any further request is answered at
# once, and its client repeats it.
MOST_WAITING = 16
# Interval between queries for the row if no message arrives.
POLL_SECONDS = 2.0

_places = threading.BoundedSemaphore(MOST_WAITING)
_stopping = threading.Event()


def wait_for_message(call: Call, after: Position | None, seconds: float) -> Call:
    """Wait up to ``seconds`` for a message after ``after`` or for the end of the call. Return the call.

    Return the call at once if all slots are in use or if the server runs without Redis. No database
    connection is held while waiting.
    """
    if is_terminal(call.state) or not conf.get().redis_url or not _places.acquire(blocking=False):
        return call
    try:
        deadline = monotonic() + seconds
        arrived = False
        while not arrived and not is_terminal(call.state) and (left := deadline - monotonic()) > 0:
            if _stopping.is_set():
                break
            close_old_connections()
            arrived = _message_arrived(call, after, min(left, POLL_SECONDS))
            call = Call.objects.get(pk=call.pk)
    finally:
        _places.release()
    return call


def begin() -> None:
    """Allow requests to wait. Call this when the process starts to serve requests."""
    _stopping.clear()


def stop() -> None:
    """Answer all waiting requests, and let no further request wait. Call this before the process stops."""
    _stopping.set()


def _message_arrived(call: Any, after: Position | None, seconds: float) -> bool:
    deadline = monotonic() + seconds
    while (left := deadline - monotonic()) > 0 and not _stopping.is_set():
        try:
            if wait_for_more(call.session_id, call.stream, after, left):
                return True
        except StreamsUnavailable:
            _stopping.wait(left)
    return False
