"""Groups of errors by method, tool, outcome and cause, written in the transaction that stores the messages.

The cause of an unexpected exception is its class and its place in the code, that of other errors their text.
Only the log writer writes these rows. Errors in lines that a busy process dropped are not grouped.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2s
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import Count, QuerySet
from django.db.models.functions import Left, TruncMinute

from mcp_app.database.aware_times import parameter
from mcp_app.message_log.pages import ERRORS
from mcp_app.message_log.rollups import HOUR
from mcp_app.models import ErrorGroup, ErrorHour, Message
from mcp_app.observability.error_text import (
    LONGEST,
    LONGEST_READ,
    is_internal_error,
    message_in,
    without_what_varies,
)
from mcp_app.observability.incidents import StoredException
from mcp_app.protocol.messages.methods import METHODS, OTHER
from mcp_app.protocol.principal_key import BENCH
from mcp_app.protocol.refusals import FAULTS, Code

# Maximum number of groups in total and per tool. Further errors are counted in a common group without text.
MOST_GROUPS: Final = 1_000
MOST_OF_TOOL: Final = 100
ROWS: Final = 200
NAMED: Final = ("tools/call", "prompts/get")
# Number of failed messages that are read to find the messages of one group.
WINDOW: Final = 500
SLICE: Final = 500
# Order of the groups: by the minute of the last error, newest first, and within a minute by frequency.
LAST_SEEN: Final = (TruncMinute("last_at", tzinfo=UTC).desc(), "-count", "-last_at", "pk")
LONGEST_PLACE: Final = 300
# Texts of this server about a tool at fault. A tool that reports the same text is treated alike.
_FAULT: Final = re.compile(
    r"\S+ timed out after |The tool's result (?:cannot be sent|is too large): |\S+ was interrupted: "
    r"|The tool failed unexpectedly \(incident "
)
_BY_LIMITS: Final = frozenset({Code.LIMIT_REACHED.value, Code.LIMIT_USED_UP.value})
_FAILED: Final = frozenset(outcome.value for outcome in ERRORS)


class GroupKey(NamedTuple):
    """The properties that all errors of a group have in common."""

    method: str
    tool: str
    outcome: str
    words: str
    place: str = ""

    @property
    def digest(self) -> str:
        """The primary key of the group's row."""
        # Groups without a place keep the key that they had before there were places.
        named = self if self.place else self[:-1]
        return blake2s("\x00".join(named).encode(errors="replace"), digest_size=16).hexdigest()


class SeenError(NamedTuple):
    """The values of an error that are held in memory until the transaction ends.

    To save memory, all but id and time are set only for the newest error of a batch.
    """

    pk: int
    at: datetime
    answer: str = ""
    exception: str | None = None
    is_fault: bool = False


class Errors:
    """The errors among the messages of one batch or one transaction."""

    __slots__ = ("_messages", "found")

    def __init__(self) -> None:
        self.found: dict[GroupKey, list[SeenError]] = {}
        self._messages: dict[GroupKey, list[Message]] = {}

    def add(self, message: Message) -> None:
        """Add a message if it failed, or if the gate refused its call.

        Two kinds are skipped, because nothing has to be mended: mistakes in the test bench, which their
        caller has seen, and calls above a limit, which the pages of limits list.
        """
        failed = message.outcome in _FAILED or message.refusal
        if failed and message.refusal not in _BY_LIMITS and not _is_bench_mistake(message):
            kind = kind_of(message.method, message.target, message.outcome, message.answer, message.exception)
            self._messages.setdefault(kind, []).append(message)

    def merge(self, other: Errors) -> None:
        """Add the errors of ``other``, whose messages have been stored and have ids."""
        for kind, messages in other._messages.items():
            newest = messages[-1]
            seen = self.found.setdefault(kind, [])
            seen += [SeenError(message.pk, message.at) for message in messages[:-1]]
            seen.append(SeenError(newest.pk, newest.at, newest.answer, newest.exception, is_fault(newest)))


def kind_of(method: str, target: str, outcome: str, answer: str, exception: str | None = None) -> GroupKey:
    """Return the group to which the error in a message belongs."""
    method, tool = method if method in METHODS else OTHER, target[:128] if method in NAMED else ""
    raised = StoredException.read(exception)
    if raised is not None:
        return GroupKey(method, tool, outcome, raised.exception[:LONGEST], raised.place[:LONGEST_PLACE])
    return GroupKey(method, tool, outcome, without_what_varies(message_in(answer)))


def is_fault(message: Message) -> bool:
    """Return True if the server or a tool is at fault for an error.

    Return False for mistakes of callers, for calls that the gate refused, and for errors that a tool reports.
    """
    if message.exception is not None:
        return True
    if message.refusal:
        return message.refusal in FAULTS
    answer = message.answer
    return is_internal_error(answer) or _FAULT.match(message_in(answer)) is not None


def _is_bench_mistake(message: Message) -> bool:
    return BENCH in message.principal and not is_fault(message)


def write(errors: Errors) -> None:
    """Write the merged errors to the stored groups."""
    if not errors.found:
        return
    groups, hours = [], []
    for kind, messages in sorted(_bounded(errors.found).items()):
        newest = max(messages, key=lambda message: message.pk)
        first, last = min(message.at for message in messages), max(message.at for message in messages)
        has_fault = any(message.is_fault for message in messages)
        groups.append(
            [kind.digest, *kind, has_fault, newest.exception, message_in(newest.answer),
             _stored(first), _stored(last), min(message.pk for message in messages), newest.pk, len(messages)]
        )  # fmt: skip
        counted = Counter(int(message.at.timestamp()) // HOUR for message in messages)
        hours += [
            [kind.digest, _stored(datetime.fromtimestamp(hour * HOUR, UTC)), counted[hour]]
            for hour in sorted(counted)
        ]
    _upsert(_GROUP, groups)
    _upsert(_HOUR, hours)


def _bounded(found: dict[GroupKey, list[SeenError]]) -> dict[GroupKey, list[SeenError]]:
    """Return the errors, with errors beyond the group limits moved to common groups."""
    digests = {kind.digest: kind for kind in found}
    known = set(ErrorGroup.objects.filter(pk__in=list(digests)).values_list("pk", flat=True))
    if len(known) == len(digests):
        return found
    rows = ErrorGroup.objects.order_by().values_list("tool").annotate(Count("pk"))
    of_tool: Counter[str] = Counter(dict(rows))
    room = MOST_GROUPS - of_tool.total()
    bounded: dict[GroupKey, list[SeenError]] = {}
    for digest, kind in digests.items():
        if digest not in known:
            if room <= 0:
                counted = GroupKey(kind.method, OTHER, kind.outcome, "")
            elif of_tool[kind.tool] >= MOST_OF_TOOL:
                counted = kind._replace(words="", place="")
            else:
                counted, room = kind, room - 1
                of_tool[kind.tool] += 1
        else:
            counted = kind
        bounded.setdefault(counted, []).extend(found[kind])
    return bounded


def messages_of(group: ErrorGroup, most: int) -> list[int]:
    """Return the ids of a group's newest messages, newest first.

    Only the newest WINDOW messages with the group's outcome are read, so older ones may be missing.
    """
    kind = GroupKey(group.method, group.tool, group.outcome, group.words, group.place)
    rows = Message.objects.filter(outcome=group.outcome, pk__lte=group.last_id, pk__gte=group.first_id)
    read = ("pk", "method", "target", Left("answer", LONGEST_READ + 1), "exception")
    looked_at = rows.order_by("-pk").values_list(*read)
    found = []
    for pk, method, target, answer, exception in looked_at[:WINDOW]:
        if kind_of(method, target, group.outcome, answer, exception) == kind:
            found.append(pk)
            if len(found) == most:
                break
    return found


def new_since(since: datetime) -> QuerySet[ErrorGroup]:
    """Return the groups whose first error happened at or after ``since``, newest first."""
    return ErrorGroup.objects.filter(first_at__gte=since).order_by("-first_at")


def purge() -> int:
    """Delete groups whose messages have all been deleted, and the hours before the oldest message."""
    oldest = Message.objects.order_by("pk").first()
    if oldest is None:
        return ErrorHour.objects.all().delete()[0] + ErrorGroup.objects.all().delete()[0]
    gone = list(ErrorGroup.objects.filter(last_id__lt=oldest.pk).values_list("pk", flat=True))
    removed = 0
    for start in range(0, len(gone), SLICE):
        removed += ErrorGroup.objects.filter(pk__in=gone[start : start + SLICE]).delete()[0]
    past = ErrorHour.objects.filter(at__lt=oldest.at - timedelta(hours=1)).order_by("at")
    while ids := list(past.values_list("pk", flat=True)[:SLICE]):
        removed += ErrorHour.objects.filter(pk__in=ids).delete()[0]
    return removed


def _stored(at: datetime) -> Any:
    return parameter(at, connection)


class _Upsert(NamedTuple):
    table: str
    columns: tuple[str, ...]
    key: str
    changes: str


_GROUP: Final = _Upsert(
    "mcp_app_errorgroup",
    (
        "digest",
        "method",
        "tool",
        "outcome",
        "words",
        "place",
        "is_fault",
        "exception",
        "example",
        "first_at",
        "last_at",
        "first_id",
        "last_id",
        "count",
    ),
    "digest",
    # The writer stores messages in ascending order of their ids, so the newest id always replaces the stored
    # one. The times of messages from two processes may be in another order and must be compared.
    # Groups without words can be common groups, in which a mistake must not hide a fault.
    "is_fault = (excluded.is_fault OR (mcp_app_errorgroup.is_fault AND excluded.words = '')), "
    "exception = excluded.exception, example = excluded.example, "
    # A line that was logged before the error was resolved may be written afterwards.
    "triage = CASE WHEN mcp_app_errorgroup.triage = 'resolved' "
    "AND excluded.last_at > mcp_app_errorgroup.triaged_at "
    "THEN 'regressed' ELSE mcp_app_errorgroup.triage END, "
    "last_id = excluded.last_id, count = mcp_app_errorgroup.count + excluded.count, "
    "first_at = CASE WHEN excluded.first_at < mcp_app_errorgroup.first_at "
    "THEN excluded.first_at ELSE mcp_app_errorgroup.first_at END, "
    "last_at = CASE WHEN excluded.last_at > mcp_app_errorgroup.last_at "
    "THEN excluded.last_at ELSE mcp_app_errorgroup.last_at END",
)
_HOUR: Final = _Upsert(
    "mcp_app_errorhour", ("group_id", "at", "count"), "group_id, at",
    "count = mcp_app_errorhour.count + excluded.count",
)  # fmt: skip


def _upsert(into: _Upsert, rows: list[list[Any]]) -> None:
    for start in range(0, len(rows), ROWS):
        some = rows[start : start + ROWS]
        with connection.cursor() as cursor:
            cursor.execute(_statement(into, len(some)), [each for row in some for each in row])


@cache
def _statement(into: _Upsert, rows: int) -> str:
    marks = ", ".join(["(" + ", ".join(["%s"] * len(into.columns)) + ")"] * rows)
    return (
        f"INSERT INTO {into.table} ({', '.join(into.columns)}) VALUES {marks} "  # noqa: S608 - our own names
        f"ON CONFLICT ({into.key}) DO UPDATE SET {into.changes}"
    )
