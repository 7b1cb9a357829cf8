"""The console's history: logged lines from the database and from the queue that feeds it.

A page first subscribes to live lines and then requests the history. Lines before the subscription are in the
queue or, after they were deleted from it, in the database. No line is therefore missed. A line that is in
both has the same key in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from django.db.models import QuerySet

from mcp_app import conf
from mcp_app.console.line import COLUMNS, Line, LinePosition, line_of, lines_of, stored_line, unanswered_lines
from mcp_app.interface.clients import client_names
from mcp_app.message_log.pages import between
from mcp_app.message_log.search.language import Search
from mcp_app.models import LogCursor, Message
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.stores.message_queue import SyncMessageQueue

PAGE = 200
# Limits for lines read from the queue. Further lines appear after a reload.
MOST_BATCHES = 40
MOST_WAITING = 1_000
# Maximum number of rows that a search examines, so that a page loads quickly.
LOOKED_AT = 10_000
EITHER_SIDE = 60


@dataclass(frozen=True, slots=True)
class History:
    """Lines, oldest first.

    ``older`` is the cursor of the previous page, and ``note`` explains which lines are missing.
    """

    lines: list[Line]
    older: int | None = None
    newer: bool = False
    note: str = ""


def newest(search: Search, session: str = "") -> History:
    """Return the newest logged lines, including lines that are not stored yet."""
    waiting, note = _waiting(asks_for_client=search.asks_for_client)
    page = before(search, session, None)
    stored = {line.position for line in page.lines}
    chosen = [
        line
        for line in waiting
        if line.position not in stored and (not session or line.session == session) and search.holds(line)
    ]
    if len(chosen) > MOST_WAITING:
        note = f"{len(chosen) - MOST_WAITING} messages that are not stored yet are not shown."
    lines = [*page.lines, *chosen[-MOST_WAITING:]]
    return History(unanswered_lines(lines, [*lines, *waiting]), page.older, note=note)


def before(search: Search, session: str, pk: int | None) -> History:
    """Return the stored lines before a row, or the newest stored lines if ``pk`` is None."""
    base = _base(search, session)
    if pk is not None:
        base = base.filter(pk__lt=pk)
    floor = _floor(base) if _reads_rows(search, session) else None
    found = search.narrow(base if floor is None else base.filter(pk__gte=floor))
    # Columns are read instead of model instances, which are slow to create.
    rows = list(found.order_by("-pk").values_list(*COLUMNS)[: PAGE + 1])
    lines = [stored_line(row) for row in reversed(rows[:PAGE])]
    return History(lines, lines[0].pk if len(rows) > PAGE else floor)


def around(search: Search, session: str, key: str) -> History | None:
    """Return the stored lines around a line, or None if that line is not stored."""
    row = stored(key)
    if row is None or (session and row.session_id != session):
        return None
    base = _base(search, session)
    earlier = before(search, session, row.pk)
    after = base.filter(pk__gt=row.pk)
    ceiling = _ceiling(after) if _reads_rows(search, session) else None
    later = search.narrow(after if ceiling is None else after.filter(pk__lte=ceiling))
    following = [line_of(each) for each in later.order_by("pk")[: EITHER_SIDE + 1]]
    lines = [*earlier.lines[-EITHER_SIDE:], line_of(row), *following[:EITHER_SIDE]]
    cut = len(earlier.lines) > EITHER_SIDE
    older = earlier.lines[-EITHER_SIDE].pk if cut else earlier.older
    return History(lines, older, newer=len(following) > EITHER_SIDE)


def find(key: str) -> Line | None:
    """Return the line with a key from the database or from the queue, or None if it is in neither."""
    row = stored(key)
    if row is not None:
        return line_of(row)
    place = LinePosition.parse(key)
    if place is None or place.pk is not None:
        return None
    line = _in_queue(place)
    if line is None:
        # The line may have been stored after the first look-up.
        row = stored(key)
        return line_of(row) if row is not None else None
    return line


def exception_of(incident: str) -> str | None:
    """Return the stored JSON of an incident's exception, or None if it is in neither database nor queue."""
    rows = Message.objects.filter(incident=incident).values_list("exception", flat=True)
    if (found := rows.first()) is not None:
        return found
    batches, _ = _pending()
    for _, batch in batches:
        for _, number, exception in batch.get("incidents", ()):
            if number == incident:
                return str(exception)
    return rows.first()  # It may have been stored after the first look-up.


def stored(key: str) -> Message | None:
    """Return the stored row with a key, or None."""
    place = LinePosition.parse(key)
    if place is None:
        return None
    if place.at is None or place.pk is not None:
        return Message.objects.filter(pk=place.pk or 0).first()
    # The time is part of the filter because it is indexed. Without it, the position would need an index.
    return Message.objects.filter(at=place.at, position=f"{place.batch}-{place.number}").first()


def related(line: Line) -> list[Line]:
    """Return the other lines of the same request, oldest first: progress, log messages and questions."""
    if not line.session or not line.request_id:
        return []
    middle = line.pk or Message.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    rows = Message.objects.filter(
        session_id=line.session,
        request_id=line.request_id,
        # A session may have millions of messages, but the messages of one request are close together.
        pk__gte=middle - LOOKED_AT,
        pk__lte=middle + LOOKED_AT,
    ).order_by("-pk")[:100]
    return [other for other in map(line_of, reversed(rows)) if other.key != line.key]


def every(search: Search, session: str, most: int) -> Iterator[list[Line]]:
    """Yield all matching stored lines in pages, newest first.

    Pages may be empty. At most ``most`` lines are yielded in total.
    """
    older: int | None = None
    while most > 0:
        page = before(search, session, older)
        yield page.lines[::-1][:most]
        most -= len(page.lines)
        older = page.older
        if older is None:
            return


def _reads_rows(search: Search, session: str) -> bool:
    """Return True if the query examines rows that do not match and therefore needs a limit."""
    if not search.terms:
        return False
    # The database uses only one index: that of the session, or that of the search's single term.
    return bool(session) or len(search.terms) > 1 or search.reads_rows


def _base(search: Search, session: str) -> QuerySet[Message]:
    messages = between(Message.objects.all(), search.begin, search.end)
    if search.pending:
        messages = messages.filter(pending=search.pending)
    return messages.filter(session_id=session) if session else messages


def _floor(base: QuerySet[Message]) -> int | None:
    """Return the id of the oldest row that a search may examine, or None if there are fewer rows."""
    return base.order_by("-pk").values_list("pk", flat=True)[LOOKED_AT : LOOKED_AT + 1].first()


def _ceiling(base: QuerySet[Message]) -> int | None:
    return base.order_by("pk").values_list("pk", flat=True)[LOOKED_AT : LOOKED_AT + 1].first()


def waits_to_be_stored(session: str) -> bool:
    """Return True if the queue has the opening of a session, or a message of it, that is not stored yet."""
    batches, _ = _pending()
    return any(
        session in opened_clients(batch) or any(line.session == session for line in lines_of(batch_id, batch))
        for batch_id, batch in batches
    )


def opened_clients(batch: dict[str, Any]) -> dict[str, str]:
    """Return the client names of the sessions whose opening is a fact in the batch, by session id."""
    opened = (fact for fact in batch["facts"] if fact.get("fact") == "session.opened")
    return {fact["session"]: fact["client_name"] for fact in opened}


def _waiting(*, asks_for_client: bool) -> tuple[list[Line], str]:
    """Return the lines that are not stored yet, and a note if some of them are missing."""
    read, note = _pending()
    lines = [line for batch_id, batch in read for line in lines_of(batch_id, batch)]
    if asks_for_client:
        names = client_names(line.session for line in lines if line.session)
        for _, batch in read:
            names.update(opened_clients(batch))
        for line in lines:
            line.client = names.get(line.session, "")
    return lines, note


def _pending() -> tuple[list[tuple[str, dict[str, Any]]], str]:
    """Return the batches that are not stored yet, by id, and a note if some of them are missing."""
    url = conf.get().redis_url
    if not url:
        return [], ""
    reached = LogCursor.objects.filter(pk=1).values_list("last_id", flat=True).first() or "0-0"
    try:
        queue = _queue(url)
        batches = queue.newest(MOST_BATCHES)
        many = len(batches) == MOST_BATCHES and queue.depth() > MOST_BATCHES
    except StreamsUnavailable:
        return [], "Redis is unavailable. The latest messages are not shown."
    after = _number(reached)
    read = [(each, orjson.loads(encoded)) for each, encoded in batches if _number(each) > after]
    return read, "Some of the latest messages are not stored yet and not shown." if many else ""


def _in_queue(place: LinePosition) -> Line | None:
    url = conf.get().redis_url
    if not url:
        return None
    try:
        encoded = _queue(url).one(place.batch)
    except StreamsUnavailable:
        return None
    if encoded is None:
        return None
    lines = list(lines_of(place.batch, orjson.loads(encoded)))
    return lines[place.number] if place.number < len(lines) else None


def _number(batch_id: str) -> tuple[int, int]:
    time, _, sequence = batch_id.partition("-")
    return int(time), int(sequence or 0)


@lru_cache(maxsize=2)
def _queue(url: str) -> SyncMessageQueue:
    return SyncMessageQueue(url)
