"""The database in threads of ours: Django looks after connections only around an HTTP request of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from django.db import close_old_connections

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def thread_connection() -> Iterator[None]:
    """Around what a thread asks of the database; as ``with`` or as a decorator.

    A connection that broke or grew too old meanwhile is not used again, and none outlives its use longer
    than ``CONN_MAX_AGE`` allows: one left in a thread would count against the database's limit.
    """
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What ``function``, which may query the database, returns or raises; it runs in a thread."""
    return await asyncio.to_thread(thread_connection()(function), *args, **kwargs)
