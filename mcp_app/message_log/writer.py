"""Writing of queued log batches to the database: exactly once, in order, by any worker.

The position in the queue is a row that is updated in the transaction that stores the lines. If a worker dies,
the database therefore contains both or neither. Two workers take turns, because each must lock that row.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import orjson
from django.contrib.auth import get_user_model
from django.db import DataError, IntegrityError, close_old_connections, connection, transaction
from django.db import Error as DatabaseFault
from django.db.models import F, Value
from django.db.models.functions import Greatest

from mcp_app.database import clock
from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.database.forking import undivided
from mcp_app.message_log import rollup_cells as cells
from mcp_app.message_log import rollups, session_ends
from mcp_app.message_log.counts import callers, error_groups
from mcp_app.message_log.log import FAILURES, MARKS, PENDING_MARKS
from mcp_app.message_log.pending import (
    DROPPED,
    count_only,
    replace_stored,
    unanswered_messages,
    without_late_marks,
)
from mcp_app.message_log.retention import IDLE
from mcp_app.message_log.rollup_cells import RollupCells
from mcp_app.models import ApiKey, LogCursor, Message, Session
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.stores.message_queue import SyncMessageQueue

BATCHES = 20
# Maximum duration of one transaction in seconds, because other writers have to wait for it.
WRITE_SECONDS = 0.25
# Pause between transactions, in seconds. On SQLite, a waiting writer retries ten times a second. Without a
# pause, a long queue would block all other writers until the whole queue is written (R15).
YIELD_SECONDS = {"sqlite": 0.12}
# Errors of batches that can never be written, because they are malformed or the database rejects them.
REFUSED = (DataError, IntegrityError, ValueError, TypeError, LookupError, OverflowError, AttributeError)
IDLE_SECONDS = 0.5
RETRY_SECONDS = 2.0

log = logging.getLogger("mcp.message_log")


class Counted:
    """Counts of messages: by kind, by caller and by error."""

    __slots__ = ("callers", "errors", "tally")

    def __init__(self) -> None:
        self.tally = RollupCells()
        self.callers = callers.Callers()
        self.errors = error_groups.Errors()

    def add(self, message: Message) -> None:
        """Count one message."""
        at = message.at.timestamp()
        self.tally.add(
            at,
            message.method,
            message.target,
            message.outcome,
            message.duration_ms,
            size=message.size or 0,
        )
        self.callers.add(message, at)
        self.errors.add(message)
        is_failed_call = message.method == "tools/call" and message.outcome in FAILURES
        if is_failed_call and not error_groups.is_fault(message):
            self.tally.add_mistake(at, message.target, message.outcome)

    def merge(self, other: Counted) -> None:
        """Add the counts of ``other``."""
        self.tally.merge(other.tally.cells.items())
        self.callers.merge(other.callers)
        self.errors.merge(other.errors)


def drain_once(queue: SyncMessageQueue) -> int:
    """Write as many of the next batches as the time limit allows. Return their number."""
    if not queue.depth():
        return 0  # A check without new batches must not take SQLite's write lock.
    with transaction.atomic():
        LogCursor.objects.get_or_create(pk=1)
        cursor = LogCursor.objects.select_for_update().get(pk=1)
        batches = queue.read(cursor.last_id, BATCHES)
        counted, written, until = Counted(), 0, time.monotonic() + WRITE_SECONDS
        for batch_id, encoded in batches:
            _write_or_skip(batch_id, encoded, counted)
            cursor.last_id = batch_id
            written += 1
            if time.monotonic() > until:
                break
        rollups.write(counted.tally)
        callers.write(counted.callers)
        error_groups.write(counted.errors)
        cursor.save(update_fields=["last_id"])
    # The queue is trimmed even if there are no new batches, because a process that wrote the last ones may
    # have died before it trimmed them.
    queue.trim(cursor.last_id)
    return written


def run_forever(stop: threading.Event) -> None:
    """Write queued batches until ``stop`` is set. Retries when Redis or the database is unavailable."""
    queue = SyncMessageQueue.connect()
    pause = 0.0
    while not stop.wait(pause):
        try:
            with undivided():  # The thread runs in a worker's main process, which forks.
                pause = YIELD_SECONDS.get(connection.vendor, 0.0) if drain_once(queue) else IDLE_SECONDS
        except (DatabaseFault, StreamsUnavailable) as error:
            log.warning("The message log is postponed: %s", error)
            pause = RETRY_SECONDS
            close_old_connections()
        except Exception:
            log.exception(
                "The message log is postponed"
            )  # If this thread ended, the log would no longer be written.
            pause = RETRY_SECONDS
            close_old_connections()
    close_old_connections()


def _write_or_skip(batch_id: str, encoded: bytes, counted: Counted) -> None:
    """Write one batch.

    If the database rejects it, a message of the kind "skipped" is written instead, so that later batches can
    be written.
    """
    try:
        with transaction.atomic():
            written = _write(batch_id, orjson.loads(encoded))
    except REFUSED as error:
        log.error("Log batch %s cannot be written and was skipped: %s", batch_id, error)  # noqa: TRY400
        now, size = clock.utcnow(), _size(encoded)
        mark = Message.objects.create(at=now, direction="in", kind=DROPPED, skipped=size)
        rollups.record_id_ranges([mark])
        counted.tally.add_unknown(now.timestamp(), size)
    else:
        counted.merge(written)


def _size(encoded: bytes) -> int:
    """Return the number of messages in a batch that cannot be written, or 0 if the batch cannot be parsed."""
    try:
        batch = orjson.loads(encoded)
        return len(batch["lines"]) + min(max(int(batch["skipped"]), 0), cells.MOST_COUNTED)
    except REFUSED:
        return 0


def _write(batch_id: str, batch: dict[str, Any]) -> Counted:
    """Store the facts and lines of a batch. Return the counts of its lines and dropped lines."""
    for fact in batch["facts"]:
        # A newer process may send kinds of facts that this version does not know.
        if (learn := FACTS.get(fact["fact"])) is not None:
            learn(fact)
    counted = Counted()
    messages = [_message(batch["process"], line) for line in batch["lines"]]
    for number, message in enumerate(messages):
        message.position = f"{batch_id}-{number}"
    for number, size in batch.get("sizes", ()):
        messages[number].size = int(size)
    for number, code in batch.get("refusals", ()):
        messages[number].refusal = _storable(code)
    for number, incident, exception in batch.get("incidents", ()):
        messages[number].incident, messages[number].exception = incident, _storable(exception)
    for number, outgoing in batch.get("outgoing", ()):
        messages[number].outgoing = _storable(orjson.dumps(outgoing).decode())
    unmarked = without_late_marks(unanswered_messages(messages))
    if messages and not unmarked and batch["skipped"]:
        count_only(messages[0])
        unmarked = messages[:1]
    messages = unmarked
    if messages:
        for message in messages:
            if message.kind not in MARKS and message.kind != DROPPED:
                counted.add(message)
        messages[0].skipped = batch["skipped"]
        _count_skipped(counted.tally, batch, messages[0].at.timestamp())
        rollups.record_id_ranges(Message.objects.bulk_create(messages, batch_size=200))
        replace_stored(messages)
        _seen(messages)
    return counted


def _count_skipped(counted: RollupCells, batch: dict[str, Any], at: float) -> None:
    """Count the lines that a process dropped.

    The tally counts them by kind. Older processes send only their number.
    """
    received = cells.read(batch.get("tally", ()))
    left = batch["skipped"] - sum(cell[cells.COUNT] for _, cell in received)
    if left < 0 or batch["skipped"] > cells.MOST_COUNTED:
        raise ValueError("What a batch tells of what was left out does not add up.")
    counted.merge(received)
    counted.add_unknown(at, left)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _message(process: str, line: list[Any]) -> Message:
    session, principal, at, direction, kind, method, request_id, target, payload, answer, outcome, ms = line
    return Message(
        session_id=session,
        principal=principal,
        at=_moment(at),
        direction=direction,
        kind=kind,
        pending=kind if kind in PENDING_MARKS else None,
        method=_storable(method),
        request_id=_storable(request_id),
        target=_storable(target),
        payload=_storable(payload),
        answer=_storable(answer),
        outcome=outcome,
        duration_ms=ms,
        size=_octets(payload) + _octets(answer),
        process=process,
    )


def _octets(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _storable(text: str) -> str:
    """Replace NUL characters, which PostgreSQL rejects in text.

    Otherwise a client could stop the writer by sending one.
    """
    return text.replace("\x00", "\N{SYMBOL FOR NULL}")


def _seen(messages: Iterable[Message]) -> None:
    logged: Counter[str] = Counter()
    latest: dict[str, datetime] = {}
    for message in messages:
        if message.session_id is not None:
            # A mark's request is counted with its answer.
            logged[message.session_id] += message.pending is None and message.kind != DROPPED
            if message.direction == Message.Direction.IN:
                latest[message.session_id] = message.at
    for session_id, number in logged.items():
        changes: dict[str, Any] = {"messages_logged": F("messages_logged") + number}
        if session_id in latest:
            seen = Value(latest[session_id], AwareDateTimeField())
            changes["last_seen_at"] = Greatest("last_seen_at", seen)
        Session.objects.filter(pk=session_id).update(**changes)
    _reopen(latest)


def _reopen(sessions: Iterable[str]) -> None:
    """Reopen ended session records whose idle clients have sent a new message."""
    again = Session.objects.filter(pk__in=list(sessions), end_reason=IDLE)
    again.update(ended_at=None, end_reason="")


def _opened(fact: dict[str, Any]) -> None:
    # The database would detect a missing user only at the commit and would reject the whole transaction.
    user_id = fact["user"]
    if user_id is not None and not get_user_model().objects.filter(pk=user_id).exists():
        user_id = None
    values = {
        "principal": fact["principal"],
        "user_id": user_id,
        "protocol_version": fact["version"],
        "client_name": _storable(fact["client_name"])[:200],
        "client_version": _storable(fact["client_version"])[:100],
        "fields": fact["fields"],
        "address": fact["address"],
        "created_at": _moment(fact["at"]),
    }
    pk, seen = fact["session"], {"last_seen_at": _moment(fact["at"])}
    _, is_new = Session.objects.get_or_create(pk=pk, defaults={**values, **seen})
    # Another process may have stored the end already.
    if not is_new and not session_ends.stored_early(pk).update(**values):
        _touched({"sessions": [fact["session"]], "at": fact["at"]})
        return
    logged = Message.objects.filter(session_id=fact["session"], pending=None).exclude(kind=DROPPED)
    if early := logged.count():
        # Another process has already flushed messages of this session.
        Session.objects.filter(pk=fact["session"]).update(messages_logged=early)


def _changed(fact: dict[str, Any]) -> None:
    row = Session.objects.filter(pk=fact["session"]).first()
    if row is not None:
        row.fields = {**row.fields, **fact["fields"]}
        row.save(update_fields=["fields"])


def _touched(fact: dict[str, Any]) -> None:
    at = _moment(fact["at"])
    Session.objects.filter(pk__in=fact["sessions"], last_seen_at__lt=at).update(last_seen_at=at)
    _reopen(fact["sessions"])


def _ended(fact: dict[str, Any]) -> None:
    session_ends.store(fact["session"], fact["reason"], _moment(fact["at"]), fact.get("principal", ""))


def _key_used(fact: dict[str, Any]) -> None:
    for key_id, at in fact["keys"].items():
        ApiKey.objects.filter(pk=key_id).update(last_used_at=_moment(at))


FACTS = {
    "session.opened": _opened,
    "session.changed": _changed,
    "session.seen": _touched,
    "session.ended": _ended,
    "key.used": _key_used,
}
