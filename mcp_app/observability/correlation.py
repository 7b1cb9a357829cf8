"""The correlation of log lines: the current call, its principal and its trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Correlation(NamedTuple):
    """The ids of a log line's session, call and trace; unknown ids are empty."""

    session: str = ""
    call: str = ""
    request_id: str | int | None = None
    principal: str = ""
    trace_id: str = ""


# Set by the task or thread that runs a call. Requests that are answered inline do not set it.
CURRENT: ContextVar[Correlation | None] = ContextVar("mcp_correlation", default=None)


@contextmanager
def correlated(correlation: Correlation) -> Iterator[None]:
    """Set the correlation of log lines in this context."""
    token = CURRENT.set(correlation)
    try:
        yield
    finally:
        CURRENT.reset(token)
