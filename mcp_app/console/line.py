"""A line of the message log as the console shows it, read from the queue or from the database."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final

import orjson

from mcp_app.auth.principal_names import CallerName
from mcp_app.interface.summary import asked_name, summary
from mcp_app.interface.text import has_hidden_in_line, marked
from mcp_app.message_log.pending import RequestKey, key_of, unanswered
from mcp_app.models import Message
from mcp_app.observability.redaction import MARK

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEY = re.compile(r"([0-9]{1,18})\.([0-9]{1,19}-[0-9]{1,19})-([0-9]{1,5})|([0-9]{1,18})")


class Line:
    """A message, or a mark about a request's state.

    ``position`` is the line's position in the queue. ``pk`` is the primary key of the stored row, or None.
    """

    __slots__ = (
        "_encoded",
        "_text",
        "answer",
        "at",
        "caller",
        "client",
        "direction",
        "exception",
        "incident",
        "kind",
        "method",
        "ms",
        "outcome",
        "outgoing",
        "payload",
        "pk",
        "position",
        "principal",
        "process",
        "refusal",
        "replaces_mark",
        "request_id",
        "session",
        "skipped",
        "target",
        "tool",
    )

    def __init__(
        self,
        fields: list[Any],
        *,
        process: str,
        position: str,
        pk: int | None,
        skipped: int,
        refusal: str = "",
        incident: str = "",
        exception: str | None = None,
        outgoing: str | None = None,
    ):
        """Set the fields, given in the order of the message log.

        The ``refusal`` code, the number of an ``incident``, its ``exception`` and the ``outgoing`` requests
        of a call are stored beside them.
        """
        (
            self.session,
            self.principal,
            self.at,
            self.direction,
            self.kind,
            self.method,
            self.request_id,
            self.target,
            self.payload,
            self.answer,
            self.outcome,
            self.ms,
        ) = fields
        self.process = process
        self.position = position
        self.pk = pk
        self.skipped = skipped
        self.refusal = refusal
        self.incident = incident
        self.exception = exception
        self.outgoing = outgoing
        # Looked up for the lines that are shown. The line itself contains only ids and the tool's name.
        self.client = ""
        self.caller: CallerName | None = None
        self.tool: int | None = None
        # Set by the feed: True if a mark of the same request may be shown.
        self.replaces_mark = False
        self._encoded = b""
        self._text = ""

    @property
    def key(self) -> str:
        """The identifier of the line in addresses. It does not change when the line is stored."""
        return f"{self.microseconds}.{self.position}" if self.position else str(self.pk)

    @property
    def request(self) -> RequestKey:
        """The key of the request to which the line belongs."""
        return key_of(self.session, self)

    def mark(self, kind: str) -> Line:
        """Return the mark that this line replaces, for searches that match the mark alone."""
        fields = [
            self.session, self.principal, self.at, self.direction, kind, self.method, self.request_id,
            self.target, self.payload, "", "", None,
        ]  # fmt: skip
        made = Line(fields, process=self.process, position="", pk=None, skipped=0)
        made.client = self.client
        return made

    @property
    def microseconds(self) -> int:
        """The time in microseconds since the epoch, which is the precision of the database."""
        return (datetime.fromtimestamp(self.at, UTC) - EPOCH) // timedelta(microseconds=1)

    @property
    def text(self) -> str:
        """The lower-case text in which words of a search are found."""
        if not self._text:
            self._text = f"{self.method}\n{self.target}\n{self.payload}\n{self.answer}".lower()
        return self._text

    @property
    def encoded(self) -> bytes:
        """The row of the message list as JSON, encoded once for all viewers."""
        if not self._encoded:
            self._encoded = orjson.dumps(self.row())
        return self._encoded

    def row(self) -> dict[str, Any]:
        """Return the row of the message list. Hidden characters are marked in every text (S11)."""
        texts = {
            "session": self.session or "",
            "who": self.principal,
            "user": self.caller.without_credential if self.caller else self.principal,
            "credential": self.caller.credential if self.caller else "",
            "client": self.client[:60],
            "asked": asked_name(self.method, self.target, self.payload),
            "kind": self.kind,
            "method": self.method,
            "id": self.request_id,
            "target": self.target,
            "status": self.outcome,
            "refusal": self.refusal,
            "process": self.process,
            "summary": summary(self.kind, self.method, self.payload, self.answer, self.outcome),
        }
        # Hardly any line has a hidden character, and one look at all texts is the cheapest.
        if has_hidden_in_line(" ".join(texts.values())):
            texts = {name: marked(text) for name, text in texts.items()}
        return {
            **texts,
            "key": self.key,
            "tool": self.tool,
            "at": self.at * 1000,
            "dir": "in" if self.direction == Message.Direction.IN else "out",
            "ms": self.ms,
            "size": len(self.payload) + len(self.answer),
            "redacted": MARK in self.payload or MARK in self.answer or MARK in self.target,
            "skipped": self.skipped,
        }


def unanswered_lines(lines: Sequence[Line], among: Sequence[Line]) -> list[Line]:
    """Return ``lines`` without the marks that a line of ``among`` replaces."""
    return unanswered(lines, lambda line: line.session, lambda line: line.at, lambda line: line.ms, among)


def lines_of(batch_id: str, batch: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines in a batch of the queue."""
    refusals = dict(batch.get("refusals", ()))
    incidents = {number: tuple(details) for number, *details in batch.get("incidents", ())}
    outgoing = dict(batch.get("outgoing", ()))
    for number, fields in enumerate(batch["lines"]):
        incident, exception = incidents.get(number, ("", None))
        yield Line(
            fields,
            process=batch["process"],
            position=f"{batch_id}-{number}",
            pk=None,
            skipped=batch["skipped"] if number == 0 else 0,
            refusal=refusals.get(number, ""),
            incident=incident,
            exception=exception,
            outgoing=orjson.dumps(outgoing[number]).decode() if number in outgoing else None,
        )


# The columns of a stored message in a line: its fields, then the values beside them.
COLUMNS: Final = (
    "session_id", "principal", "at", "direction", "kind", "method", "request_id", "target", "payload",
    "answer", "outcome", "duration_ms", "process", "position", "pk", "skipped", "refusal", "incident",
    "exception", "outgoing",
)  # fmt: skip
_AT: Final = COLUMNS.index("at")
_values = attrgetter(*COLUMNS)


def line_of(message: Message) -> Line:
    """Return the line of a stored message."""
    return stored_line(_values(message))


def stored_line(values: tuple[Any, ...]) -> Line:
    """Return the line of a stored message, given the values of ``COLUMNS``."""
    *fields, process, position, pk, skipped, refusal, incident, exception, outgoing = values
    fields[_AT] = fields[_AT].timestamp()
    return Line(
        fields,
        process=process,
        position=position,
        pk=pk,
        skipped=skipped,
        refusal=refusal or "",
        incident=incident or "",
        exception=exception,
        outgoing=outgoing,
    )


class LinePosition:
    """The position in a line's key: the stored row, or time, batch and number within the batch."""

    __slots__ = ("at", "batch", "number", "pk")

    def __init__(self, pk: int | None, at: datetime | None, batch: str, number: int) -> None:
        self.pk, self.at, self.batch, self.number = pk, at, batch, number

    @classmethod
    def parse(cls, key: str) -> LinePosition | None:
        """Return the position in a key, or None if the key is malformed."""
        found = _KEY.fullmatch(key)
        if found is None:
            return None
        if found[4] is not None:
            return cls(int(found[4]), None, "", 0)
        try:
            at = EPOCH + timedelta(microseconds=int(found[1]))
        except OverflowError:
            return None
        return cls(None, at, found[2], int(found[3]))
