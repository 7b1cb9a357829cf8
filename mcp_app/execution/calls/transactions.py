"""Execution of a tool's function in one transaction of the database ``default``. It cannot ask questions."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from django.db import transaction

from mcp_app.execution.calls.json_values import settle

# On 2026-07-28 an answer arrives with a new run, but the effects of ``ctx.once`` would have been rolled
# back. On older revisions the transaction would hold its locks until the user answers.
NO_QUESTIONS: Final = (
    "An atomic tool cannot ask: its transaction would not outlast the question. Ask in asks_first, or open "
    "transaction.atomic() after the answers instead of atomic=True."
)

# The reason why the current code may not ask questions, or "".
unaskable: ContextVar[str] = ContextVar("unaskable", default="")


def in_transaction(function: Callable[..., Any], keywords: dict[str, Any]) -> Any:
    """Return the function's value with its rows loaded. Roll back if it raises or if its call is stopped."""
    before = unaskable.set(NO_QUESTIONS)
    try:
        with transaction.atomic():
            return settle(function(**keywords))
    finally:
        unaskable.reset(before)
