"""Disconnection of a test process from the Redis in the project's settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.test.utils import override_settings

_open: list[object] = []
_overriding: list[override_settings] = []


@contextmanager
def without_redis() -> Iterator[None]:
    """Override REDIS_URL with "", so that no test can send jobs or notifications to real workers and clients.

    Contexts may overlap in any order: the first changes the setting, and the last restores it.
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
