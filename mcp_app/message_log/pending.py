"""Marks of requests without an answer. The answer replaces its marks: the log has one row per request.

A mark is *waiting* (for approval), *queued* or *running*. Each replaces the former marks of its request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar

from django.db.models import Exists, OuterRef, Q

from mcp_app.database import clock
from mcp_app.message_log.log import PENDING_MARKS
from mcp_app.models import Call, Message
from mcp_app.models.call import LOGGED_SESSION
from mcp_app.protocol.call_state import OPEN

# Difference in seconds that clocks and timers may add between the start of a call and its mark.
SLACK: Final = 1.0
# A mark of this age without an unfinished background call gets no answer: its process ended.
LONGEST_HOURS: Final = 1
MOST_ABANDONED: Final = 500
# Number of the newest rows among which an answer may be that was stored before its mark.
NEWEST: Final = 2_000
# The kind of a row that is not a message, but counts the messages that were dropped before it.
DROPPED: Final = "skipped"
_COUNTING: Final = {
    "pending": None,
    "kind": DROPPED,
    "method": "",
    "request_id": "",
    "target": "",
    "payload": "",
}

RequestKey = tuple[str, str, str, str]


class LogRow(Protocol):
    """The fields of a log line that identify its request and its place in time."""

    kind: str
    direction: str
    method: str
    request_id: str
    target: str
    principal: str


R = TypeVar("R", bound=LogRow)


def is_answer(row: LogRow) -> bool:
    """Return True for a client request that was logged with its answer."""
    return row.kind == "request" and row.direction == "in"


def key_of(session: str | None, row: LogRow) -> RequestKey:
    """Return the key of the request to which a row of a session belongs.

    Clients without a session may use one id for several requests, so method and target are part of the key.
    """
    return session or row.principal, row.request_id, row.method, row.target


def replaces(row: Any, at: float, ms: float | None, mark: Any, marked_at: float) -> bool:
    """Return True if a row replaces a mark with the same key. ``at`` and ``marked_at`` are in seconds."""
    if marked_at > at:
        return False
    if not is_answer(row):
        return PENDING_MARKS.index(row.kind) > PENDING_MARKS.index(mark.kind)
    return mark.kind != "running" or ms is None or marked_at >= at - ms / 1000 - SLACK


def unanswered(
    rows: Sequence[R],
    session: Callable[[R], str | None],
    at: Callable[[R], float],
    ms: Callable[[R], float | None],
    among: Sequence[R] | None = None,
) -> list[R]:
    """Return ``rows`` without the marks that another row of ``among`` (by default, of ``rows``) replaces."""
    others = rows if among is None else among
    if not any(row.kind in PENDING_MARKS for row in rows):
        return list(rows)
    later: dict[RequestKey, list[R]] = defaultdict(list)
    for row in others:
        if row.kind in PENDING_MARKS or is_answer(row):
            later[key_of(session(row), row)].append(row)
    return [
        row
        for row in rows
        if row.kind not in PENDING_MARKS
        or not any(
            other is not row and replaces(other, at(other), ms(other), row, at(row))
            for other in later.get(key_of(session(row), row), ())
        )
    ]


def _session(message: Message) -> str | None:
    return message.session_id


def _at(message: Message) -> float:
    return message.at.timestamp()


def _ms(message: Message) -> float | None:
    return message.duration_ms


def unanswered_messages(messages: Sequence[Message], among: Sequence[Message] | None = None) -> list[Message]:
    """Return ``messages`` without the marks that another message replaces."""
    return unanswered(messages, _session, _at, _ms, among)


def without_late_marks(messages: list[Message]) -> list[Message]:
    """Return new messages without the marks whose answer another process has already had stored."""
    marks = {message.request_id for message in messages if message.pending}
    newest = Message.objects.order_by("-pk").values_list("pk", flat=True).first() if marks else None
    if newest is None:
        return messages
    answers = Message.objects.filter(
        kind="request", direction=Message.Direction.IN, request_id__in=marks, pk__gt=newest - NEWEST
    ).defer("payload", "answer")
    return unanswered_messages(messages, [*messages, *answers])


def replace_stored(messages: Sequence[Message]) -> None:
    """Delete the stored marks that new messages replace."""
    pending = Message.objects.filter(pending__in=PENDING_MARKS)
    if not pending.exists():
        return
    sessions = {message.session_id for message in messages}
    fitting = Q(session_id__in=sessions - {None})
    if None in sessions:
        fitting |= Q(session_id=None)
    stored = list(pending.filter(fitting).defer("payload", "answer"))
    kept = {message.pk for message in unanswered_messages(stored, [*stored, *messages])}
    replaced = [message for message in stored if message.pk not in kept]
    for mark in replaced:
        if mark.skipped:
            count_only(mark)
            mark.save(update_fields=list(_COUNTING))
    Message.objects.filter(pk__in=[mark.pk for mark in replaced if not mark.skipped]).delete()


def count_only(mark: Message) -> None:
    """Turn a mark into a row that only counts the messages that were dropped before it."""
    vars(mark).update(_COUNTING)


def stored_requests(most: int) -> list[RequestKey]:
    """Return the keys of the newest stored requests without an answer."""
    pending = Message.objects.filter(pending__in=PENDING_MARKS).order_by("-pk").defer("payload", "answer")
    return [key_of(message.session_id, message) for message in pending[:most]]


def end_abandoned() -> int:
    """Turn the marks of requests that get no answer into requests without one. Return their number."""
    since = clock.utcnow() - timedelta(hours=LONGEST_HOURS)
    calls = Call.objects.filter(state__in=OPEN, tool=OuterRef("target")).annotate(logged=LOGGED_SESSION)
    unfinished = Exists(calls.filter(logged=OuterRef("session_id")))
    old = Message.objects.filter(~unfinished, pending__in=PENDING_MARKS, at__lt=since).order_by("pk")
    ended = list(old.values_list("pk", flat=True)[:MOST_ABANDONED])
    return Message.objects.filter(pk__in=ended).update(pending=None, kind="request")
