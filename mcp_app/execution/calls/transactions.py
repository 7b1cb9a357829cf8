"""Runs a tool's function in one transaction of the database ``default``; it cannot ask anybody meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from django.db import transaction

from mcp_app.execution.calls.json_values import settle

# On 2026-07-28 an answer comes with a new run, and what ``ctx.once`` did in the first is rolled back by then.
# Before, the transaction would keep its locks until a person has answered.
NO_QUESTIONS: Final = (
    "An atomic tool cannot ask: its transaction would not outlast the question. Ask in asks_first, or open "
    "transaction.atomic() after the answers instead of atomic=True."
)

# Why the code that runs now may not ask; empty if it may.
unaskable: ContextVar[str] = ContextVar("unaskable", default="")


def in_transaction(function: Callable[..., Any], keywords: dict[str, Any]) -> Any:
    """The function's value, rows included; what it wrote is undone if it raises or its call is stopped."""
    before = unaskable.set(NO_QUESTIONS)
    try:
        with transaction.atomic():
            return settle(function(**keywords))
    finally:
        unaskable.reset(before)
