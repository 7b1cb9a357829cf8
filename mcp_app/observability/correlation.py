"""Owns what a line of log belongs to: the call that is being worked on here, for whom, in which trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Correlation(NamedTuple):
    """The ids that find a line's session, call and trace again; what is not known is empty."""

    session: str = ""
    call: str = ""
    request_id: str | int | None = None
    principal: str = ""
    trace_id: str = ""


# Set by the task or thread that works on a call, never on the way of a request that is answered at once.
CURRENT: ContextVar[Correlation | None] = ContextVar("mcp_correlation", default=None)


@contextmanager
def correlated(correlation: Correlation) -> Iterator[None]:
    """While inside, lines of this task or thread belong to ``correlation``."""
    token = CURRENT.set(correlation)
    try:
        yield
    finally:
        CURRENT.reset(token)
