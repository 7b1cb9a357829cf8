"""Completion of an argument from its candidates, ranked and bounded (COMP-03)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, cast

from mcp_app.catalogue.definitions.definition import CompletionSource
from mcp_app.database.queries import aquery
from mcp_app.foreign_code import contained

MAX_VALUES: Final = 100

Completed = tuple[list[str], int, bool]


async def complete(source: CompletionSource | None, value: str, others: Mapping[str, str]) -> Completed:
    """Return ``(values, total, has_more)``. Lists are filtered by ``value``; functions filter on their own.

    A synchronous function may block on the database, so it runs in a thread.
    """
    if source is None:
        return [], 0, False
    if not callable(source):
        return _bounded(_ranked(source, value))
    with contained():
        if inspect.iscoroutinefunction(source):
            found = await cast("Callable[..., Awaitable[Sequence[str]]]", source)(value, others)
        else:
            found = await aquery(_candidates, cast("Callable[..., Sequence[str]]", source), value, others)
        return _bounded([str(item) for item in found])


def _candidates(source: Callable[..., Sequence[str]], value: str, others: Mapping[str, str]) -> list[str]:
    # A QuerySet runs its query during iteration, which therefore must happen in this thread.
    with contained():
        return [str(item) for item in source(value, others)]


def _ranked(candidates: Sequence[str], value: str) -> list[str]:
    """Return the candidates that begin with the value, then other candidates that contain it."""
    wanted = value.casefold()
    beginning = [item for item in candidates if item.casefold().startswith(wanted)]
    containing = [item for item in candidates if wanted in item.casefold() and item not in set(beginning)]
    return beginning + containing


def _bounded(values: list[str]) -> Completed:
    return values[:MAX_VALUES], len(values), len(values) > MAX_VALUES
