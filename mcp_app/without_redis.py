"""Owns cutting a test's process off from the Redis its project's settings name; knows nothing of clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.test.utils import override_settings

_open: list[object] = []
_overriding: list[override_settings] = []


@contextmanager
def without_redis() -> Iterator[None]:
    """Whatever the settings say: no test leaves a job or a notice for real workers and clients.

    Of several at once, in any order, the first one changes the setting and the last one changes it back.
    """
    mark = object()
    if not _open:
        _overriding.append(override_settings(MCP={**getattr(settings, "MCP", {}), "REDIS_URL": ""}))
        _overriding[0].enable()
    _open.append(mark)
    try:
        yield
    finally:
        _open.remove(mark)
        if not _open:
            _overriding.pop().disable()
