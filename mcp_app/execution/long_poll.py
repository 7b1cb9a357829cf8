"""Waits until a call says more, for callers with a thread each: few at once, none when the process stops."""

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

# Each waiting request keeps a thread; without a free place a request is answered at once, and repeated.
MOST_WAITING = 16
# How often the row is looked at when nothing is heard.
LOOK_SECONDS = 2.0

_places = threading.BoundedSemaphore(MOST_WAITING)
_stopping = threading.Event()


def wait_for_word(call: Call, after: Position | None, seconds: float) -> Call:
    """The call as stored once it said more than ``after``, was over, or the time had passed.

    Without a place, or without Redis, that is now. No database connection is held meanwhile.
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
    """The process serves."""
    _stopping.clear()


def stop() -> None:
    """The process is about to stop: waiting requests are answered, and no further request waits."""
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
