"""The results of requests as pages show them: one word, its tone, and the kind of error."""

from __future__ import annotations

from typing import Final, NamedTuple


class Result(NamedTuple):
    """The result of a request. ``detail`` adds the kind of error to the word, or is ""."""

    word: str
    tone: str
    detail: str = ""


# By outcome of the message log. ``line.js`` of the live log and ``runs.js`` of the test bench have copies.
RESULTS: Final = {
    "ok": Result("succeeded", "good"),
    "tool_error": Result("failed", "bad", "tool error"),
    "error": Result("failed", "bad", "protocol error"),
    "refused": Result("refused", "warn"),
    "cancelled": Result("cancelled", "warn"),
    "asked": Result("asked for input", "info"),
}


def result_of(outcome: str) -> Result | None:
    """Return the result of a request with this outcome, or None for a request without a response."""
    return RESULTS.get(outcome, Result(outcome, "plain")) if outcome else None
