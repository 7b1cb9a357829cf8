"""The reasons for refusing a call: a closed list of codes, each with the error that carries the code.

A code has the same name in answers, in the message log, in metrics and in statistics. ``docs/refusals.md``
lists all codes for callers and operators.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, NamedTuple

from mcp_app.protocol.errors import InvalidParams, McpError, TooManyRequests, Unavailable

# The key of the code in an error's data, and its key in the ``_meta`` of a tool error.
MEMBER: Final = "refusal"
META: Final = "django-mcp/refusal"
# The key in the ``_meta`` of a tool error under which the data of the refusal are.
LIMIT_META: Final = "django-mcp/limit"


class Code(StrEnum):
    """The reason why a call was refused."""

    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    TOO_MANY_RUNNING = "too_many_running"
    BACKLOG_FULL = "backlog_full"
    QUOTA_EXCEEDED = "quota_exceeded"
    STORAGE_FULL = "storage_full"
    APPROVAL_IMPOSSIBLE = "approval_impossible"
    CALLER_UNKNOWN = "caller_unknown"
    RATE_LIMITED = "rate_limited"
    LIMIT_REACHED = "limit_reached"
    LIMIT_USED_UP = "limit_used_up"
    CREDENTIAL_ENDED = "credential_ended"
    APPROVALS_FULL = "approvals_full"
    KEY_REUSED = "key_reused"
    OUTCOME_UNKNOWN = "outcome_unknown"
    UNAVAILABLE = "unavailable"


# Refusals because of which operators have to act. All others are due to the caller.
FAULTS: Final = frozenset({Code.UNAVAILABLE.value, Code.STORAGE_FULL.value})


class RefusalAnswer(NamedTuple):
    """The answer to a refused call: its error for MCP clients and its status for the API.

    ``meaning`` is a text for operators. If ``as_result`` is True, MCP clients get a tool error instead of a
    protocol error, so that the model can read it.
    """

    error: type[McpError]
    status: int
    meaning: str
    as_result: bool = False


ANSWERS: Final = {
    Code.UNKNOWN_TOOL: RefusalAnswer(InvalidParams, 404, "this user has no tool of this name"),
    Code.INVALID_ARGUMENTS: RefusalAnswer(
        InvalidParams, 400, "the arguments do not fit the tool's schema", as_result=True
    ),
    Code.TOO_MANY_RUNNING: RefusalAnswer(
        TooManyRequests, 429, "too many calls of the user run in this web process"
    ),
    Code.BACKLOG_FULL: RefusalAnswer(
        TooManyRequests, 429, "too many background calls of the user wait or run"
    ),
    Code.QUOTA_EXCEEDED: RefusalAnswer(TooManyRequests, 429, "the storage quota of the user is full"),
    Code.STORAGE_FULL: RefusalAnswer(Unavailable, 503, "Redis is nearly full"),
    Code.APPROVAL_IMPOSSIBLE: RefusalAnswer(
        InvalidParams, 409, "the call needs approval and cannot wait for it", as_result=True
    ),
    Code.CALLER_UNKNOWN: RefusalAnswer(
        InvalidParams, 409, "a second user must approve the call, and its user is not known", as_result=True
    ),
    Code.RATE_LIMITED: RefusalAnswer(TooManyRequests, 429, "the user called the tool too often"),
    Code.LIMIT_REACHED: RefusalAnswer(
        TooManyRequests, 429, "a limit is reached, and allows a call again within a minute"
    ),
    Code.LIMIT_USED_UP: RefusalAnswer(
        InvalidParams, 429, "a limit is reached; the next call is possible in over a minute", as_result=True
    ),
    Code.CREDENTIAL_ENDED: RefusalAnswer(
        InvalidParams, 409, "the call to retry needs approval, and its credential has ended", as_result=True
    ),
    Code.APPROVALS_FULL: RefusalAnswer(TooManyRequests, 429, "too many calls of the user wait for approval"),
    Code.KEY_REUSED: RefusalAnswer(InvalidParams, 422, "the idempotency key was used for another call"),
    Code.OUTCOME_UNKNOWN: RefusalAnswer(
        InvalidParams, 409, "the first call with the idempotency key was stopped or lost", as_result=True
    ),
    Code.UNAVAILABLE: RefusalAnswer(Unavailable, 503, "the database, Redis or a worker is missing"),
}


def refused(code: Code, text: str, retry_after: float = 0.0, **data: Any) -> McpError:
    """Return the error that refuses a call. ``retry_after`` is in seconds, or 0.0 if unknown."""
    kind, coded = ANSWERS[code].error, {**data, MEMBER: code.value}
    error: McpError
    if retry_after and (kind is TooManyRequests or kind is Unavailable):
        error = kind(text, data=coded, retry_after=retry_after)
    else:
        error = kind(text, data=coded)
    error.retry_after, error.refusal = retry_after, code.value
    return error


def code_in(result: Any) -> str:
    """Return the code in a tool error by which the gate refused a call. Return "" for any other result."""
    meta = result.get("_meta") if type(result) is dict and result.get("isError") else None
    return meta.get(META, "") if type(meta) is dict else ""
