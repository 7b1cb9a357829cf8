"""The correlation of log lines: the ids of the current call, its principal and its trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple


class Correlation(NamedTuple):
    """The ids of the session, call and trace that a log line belongs to. An unknown id is empty.

    ``sent`` has the records of the call's requests to other servers, or is None if they are not recorded.
    """

    session: str = ""
    call: str = ""
    request_id: str | int | None = None
    principal: str = ""
    trace_id: str = ""
    sent: list[Any] | None = None


# The task or thread that runs a call sets this. Requests that are answered at once do not.
CURRENT: ContextVar[Correlation | None] = ContextVar("mcp_correlation", default=None)


def principal() -> str:
    """Return the key of the principal whose call this task or thread runs, or "" outside of calls."""
    current = CURRENT.get()
    return "" if current is None else current.principal


def background_call() -> str:
    """Return the id of the background call that this task or thread runs, or ""."""
    current = CURRENT.get()
    return "" if current is None else current.call


@contextmanager
def correlated(correlation: Correlation) -> Iterator[None]:
    """Within this context, set the correlation of log lines."""
    token = CURRENT.set(correlation)
    try:
        yield
    finally:
        CURRENT.reset(token)
