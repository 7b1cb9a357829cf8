"""The message log of one process: a buffer of log lines that is flushed in redacted batches.

The hot path never waits, because it only appends a tuple to a list. Several times a second, a task encodes
the list and pushes it to the message queue in Redis. A worker writes the queue to the database.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import orjson

from mcp_app.conf import Settings
from mcp_app.credentials.outgoing import OutgoingRequest, stored
from mcp_app.database import clock
from mcp_app.message_log.rollup_cells import RollupCells
from mcp_app.observability import incidents
from mcp_app.observability.redaction import Redactor, truncate_message
from mcp_app.protocol.refusals import FAULTS
from mcp_app.streams.base import StreamsError
from mcp_app.streams.gateway import Streams

FLUSH_SECONDS = 0.25
# Flush interval in seconds while the console has viewers, and the time for which one broadcast about viewers
# is valid.
WATCHED_FLUSH_SECONDS = 0.1
WATCHED_SECONDS = 15.0
FLUSH_SLICE = 500
# Maximum number of lines, and of bytes, that wait for Redis. The bytes are limited because clients may send
# large bodies.
MAX_PENDING = 20_000
MAX_PENDING_BYTES = 64 * 1024 * 1024
BATCH_BYTES = 1024 * 1024
# Maximum number of cells in the tally of dropped lines. A cell is far smaller than 1 KiB.
MAX_CELLS = 500
# Each character of a line may be escaped to six bytes, and the line must still fit into a batch.
MAX_PAYLOAD_BYTES = BATCH_BYTES // 16

# Kinds of lines that mark the state of a request: long-running, waiting, or a resumed stream. They are not
# messages and are not counted.
MARKS = frozenset({"running", "waiting", "queued", "resumed"})
FAILURES = frozenset({"error", "tool_error"})
# The outcome of calls that did not start because of their caller or of an operator's decision.
REFUSED = "refused"
# Marks that the answer to their request replaces, as does a later one of these. ``line.js`` has them, too.
PENDING_MARKS = ("waiting", "queued", "running")
LISTS = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})

# Indexes into a pending line, and into its facts. A line is a plain tuple, because a named tuple takes six
# times as long to create and every request creates one.
SESSION_ID, PRINCIPAL, AT, DIRECTION, KIND, PAYLOAD, ANSWER = range(7)
SECONDS, OUTCOME, FACTS, REFUSAL, SENT = range(7, 12)
METHOD, REQUEST_ID, TARGET = range(3)

log = logging.getLogger("mcp.message_log")


class MessageLog:
    """A buffer of log lines.

    When the buffer is full, new lines are dropped and counted in ``left_out``.
    """

    def __init__(self, streams: Streams, settings: Settings) -> None:
        self._streams = streams
        self._limit = min(settings.message_log_payload_bytes, MAX_PAYLOAD_BYTES)
        self.enabled = settings.message_log
        self._names = settings.redacted_names
        self._redactor = Redactor(self._names)
        self._pending: list[tuple[Any, ...]] = []
        self._pending_bytes = 0
        self._facts: list[dict[str, Any]] = []
        # Facts of opened sessions that have not been encoded yet, by session id.
        self._opened: dict[str, dict[str, Any]] = {}
        self.before_flush: list[Callable[[], None]] = []
        self._skipped = RollupCells(MAX_CELLS)
        self.left_out = 0
        self._flusher: asyncio.Task[None] | None = None
        self._closing = False
        self._due = asyncio.Event()
        self._watched_until = 0.0
        self._handed_on = 0
        self.process = f"{socket.gethostname()[:40]}:{os.getpid()}"

    def exchange(
        self,
        session_id: str | None,
        principal: str,
        payload: bytes,
        answer: bytes,
        seconds: float | None,
        outcome: str,
        facts: tuple[str, Any, str],
        refusal: str = "",
        sent: tuple[OutgoingRequest, ...] = (),
    ) -> None:
        """Log one client request together with its answer.

        ``facts`` are method, request id and target. ``seconds`` is None for a call that did not run.
        ``refusal`` is the code of a call that the gate refused, or "". The call has the outcome REFUSED then,
        unless the server is at fault. ``sent`` are the call's requests to other servers.
        """
        if refusal and refusal not in FAULTS:
            outcome = REFUSED
        self._add(
            (
                session_id,
                principal,
                clock.timestamp(),
                "in",
                "request",
                payload,
                answer,
                seconds,
                outcome,
                facts,
                refusal,
                sent,
            )
        )

    def single(
        self,
        session_id: str | None,
        principal: str,
        direction: str,
        kind: str,
        payload: bytes,
        method: str,
        request_id: str = "",
        target: str = "",
    ) -> None:
        """Log a message that has no paired answer: a notification, a response or a question to the client.

        If the message belongs to a request, pass the request's ``request_id`` and ``target``.
        ``kind`` may also be one of the MARKS: ``running`` marks a long-running request, ``resumed`` a client
        that resumed a stream, ``waiting`` a call that waits for approval, ``queued`` one without a worker.
        """
        if not self.enabled:
            return
        facts = (method, request_id, target)
        self._add(
            (
                session_id,
                principal,
                clock.timestamp(),
                direction,
                kind,
                payload,
                b"",
                None,
                "",
                facts,
                "",
                (),
            )
        )

    def _add(self, line: tuple[Any, ...]) -> None:
        pending = self._pending
        self._pending_bytes += len(line[PAYLOAD]) + len(line[ANSWER])
        if line[SENT]:
            self._pending_bytes += _sent_size(line)
        if len(pending) >= MAX_PENDING or self._pending_bytes > MAX_PENDING_BYTES:
            self._leave_out(line)
            return
        pending.append(line)
        if len(pending) == FLUSH_SLICE:
            # Encode a full batch immediately, because its lines are still in the processor's cache.
            self._due.set()

    def _leave_out(self, line: tuple[Any, ...]) -> None:
        """Count a dropped line, so that the counts stay correct if the log cannot keep up."""
        self._pending_bytes -= _size([line])
        if line[KIND] in MARKS:
            return
        self.left_out += 1
        at, seconds, outcome, (method, _, target) = line[AT], line[SECONDS], line[OUTCOME], line[FACTS]
        ms = None if seconds is None else seconds * 1000
        self._skipped.add(at, method, target, outcome, ms, skipped=True)

    def fact(self, kind: str, **members: Any) -> None:
        """Add a fact, such as the start or end of a session.

        Facts are stored in order with the messages.
        """
        if len(self._facts) < MAX_PENDING:
            self._facts.append({"fact": kind, "at": clock.timestamp(), **members})

    def opened(self, session_id: str, **members: Any) -> None:
        """Add the fact that a session was opened.

        ``members`` are the other fields of the session's record.
        """
        if len(self._facts) < MAX_PENDING:
            members |= {"fact": "session.opened", "at": clock.timestamp(), "session": session_id}
            self._facts.append(members)
            self._opened[session_id] = members

    def changed(self, session_id: str, fields: dict[str, str]) -> None:
        """Add the fact that fields of a session changed.

        If the fact about the session's opening is still pending, the fields are added to that fact.
        """
        opened = self._opened.get(session_id)
        if opened is None:
            self.fact("session.changed", session=session_id, fields=fields)
        else:
            opened["fields"] = fields

    def keep_secret(self, names: Iterable[str]) -> None:
        """Redact values with these member names as well: arguments that a tool's schema marks as secret."""
        self._redactor = Redactor((*self._names, *names))

    def on_watching(self, payload: dict[str, Any]) -> None:
        """Flush more often for WATCHED_SECONDS, because the console has viewers."""
        if "resync" not in payload:
            self._watched_until = time.monotonic() + WATCHED_SECONDS
            self._due.set()

    def start(self) -> None:
        """Start flushing. Needs a running event loop."""
        self._flusher = asyncio.create_task(self._flush_forever())

    async def close(self) -> None:
        """Flush the buffer and stop."""
        # The task is not cancelled: Redis may already have received the current batch, which would be pushed
        # again.
        self._closing = True
        self._due.set()
        if self._flusher is not None:
            await asyncio.wait([self._flusher])
            self._flusher = None
        await self.flush()

    async def flush(self) -> None:
        """Push all buffered lines and facts. Those that Redis does not accept stay buffered."""
        for callback in self.before_flush:
            callback()
        # Lines added during the flush wait for the next one. Under load they would otherwise be pushed in
        # many small batches.
        facts_left, lines_left = len(self._facts), len(self._pending)
        while facts_left > 0 or lines_left > 0:
            encoded, skipped, facts, lines = self._next_batch()
            try:
                await self._streams.messages.push(encoded)
            except StreamsError:
                return
            incidents.forget(incident.number for _, incident in _incidents(self._pending[:lines]))
            self._skipped.subtract(skipped)
            self._handed_on += lines
            self._pending_bytes -= _size(self._pending[:lines])
            del self._facts[:facts], self._pending[:lines]
            facts_left, lines_left = facts_left - facts, lines_left - lines
            # Requests can run between two slices. Encoding a slice takes one or two milliseconds.
            await asyncio.sleep(0)

    def _next_batch(self) -> tuple[bytes, list[list[Any]], int, int]:
        """Return an encoded batch.

        The other items are its tally of dropped lines, its number of facts and its number of lines.
        """
        self._opened.clear()
        facts, lines = self._facts[:FLUSH_SLICE], self._next_lines()
        while True:
            # The tally is stored with the batch's first line.
            skipped = self._skipped.written() if lines else []
            batch: dict[str, Any] = {
                "process": self.process,
                "before": self._handed_on,  # Lets readers of the queue compute how many lines they missed.
                "skipped": 0,
                "facts": facts,
                "lines": lines,
            }
            if skipped:
                batch |= {"skipped": self._skipped.total, "tally": skipped}
            # Older workers expect lines without refusal codes and sizes, so both are stored beside the lines.
            if refusals := _refusals(self._pending[: len(lines)]):
                batch["refusals"] = refusals
            if exceptions := self._exceptions(self._pending[: len(lines)]):
                batch["incidents"] = exceptions
            if outgoing := self._outgoing(self._pending[: len(lines)]):
                batch["outgoing"] = outgoing
            if sizes := _sizes(self._pending[: len(lines)], self._limit):
                batch["sizes"] = sizes
            encoded = orjson.dumps(batch)
            if len(encoded) <= BATCH_BYTES or len(facts) + len(lines) <= 1:
                return encoded, skipped, len(facts), len(lines)
            # Escaping made the lines longer than estimated, so the batch is halved.
            facts, lines = facts[: (len(facts) + 1) // 2], lines[: len(lines) // 2]

    def _exceptions(self, lines: list[tuple[Any, ...]]) -> list[tuple[int, str, str]]:
        """Return the incidents that are answers of lines: index, number and redacted details."""
        return [
            (index, incident.number, incident.encoded(self._redactor, lines[index][PAYLOAD]))
            for index, incident in _incidents(lines)
        ]

    def _outgoing(self, lines: list[tuple[Any, ...]]) -> list[tuple[int, list[dict[str, Any]]]]:
        """Return the index of each call that sent requests to other servers, with the redacted requests."""
        return [
            (index, stored(line[SENT], self._redactor, line[PAYLOAD], self._limit))
            for index, line in enumerate(lines)
            if line[SENT]
        ]

    def _next_lines(self) -> list[list[Any]]:
        """Return the next lines in their stored form, approximately as many as fit into one batch."""
        slice_ = self._pending[:FLUSH_SLICE]
        while len(slice_) > 1 and _size(slice_) > BATCH_BYTES // 2:
            del slice_[len(slice_) // 2 :]
        # Searching all lines at once is much cheaper than one search per line, and usually finds no secret.
        clean = not self._redactor.is_suspect(b"\n".join(_searched(slice_, self._limit)))
        limit, message = self._limit, self._redactor.message
        # One expression without calls for short plain values, because building it is most of a line's cost.
        return [
            [
                session_id,
                principal,
                at,
                direction,
                kind,
                method[:120],
                str(request_id)[:120],
                (target if clean else self._redactor.text(target))[:200],
                payload.decode("utf-8", "replace")
                if clean and len(payload) <= limit
                else message(payload, limit, clean=clean),
                answer.decode("utf-8", "replace")
                if clean and len(answer) <= limit
                else self._answer(method, answer, clean=clean),
                outcome,
                None if seconds is None else seconds * 1000,
            ]
            for session_id, principal, at, direction, kind, payload, answer, seconds, outcome, (
                method,
                request_id,
                target,
            ), _, _ in slice_
        ]

    async def _flush_forever(self) -> None:
        while not self._closing:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._due.wait()
            self._due.clear()
            await self.flush()

    def _pause(self) -> float:
        return WATCHED_FLUSH_SECONDS if time.monotonic() < self._watched_until else FLUSH_SECONDS

    def _answer(self, method: str, answer: bytes, *, clean: bool) -> str:
        """Return an answer as text, truncated and redacted.

        Answers to list methods are not redacted: they are long, encoded once and contain only the server's
        own text.
        """
        if method in LISTS:
            return answer[: self._limit].decode("utf-8", "ignore")
        return self._redactor.message(answer, self._limit, clean=clean) if answer else ""


def _size(lines: list[tuple[Any, ...]]) -> int:
    """Return the total number of bytes in lines: payloads, answers and requests to other servers."""
    return sum(
        [len(line[PAYLOAD]) + len(line[ANSWER]) + (_sent_size(line) if line[SENT] else 0) for line in lines]
    )


def _sent_size(line: tuple[Any, ...]) -> int:
    return sum([each.size for each in line[SENT]])


def _refusals(lines: list[tuple[Any, ...]]) -> list[tuple[int, str]]:
    """Return the index and the refusal code of each line that is a refused call."""
    return [(number, line[REFUSAL]) for number, line in enumerate(lines) if line[REFUSAL]]


def _incidents(lines: list[tuple[Any, ...]]) -> list[tuple[int, incidents.Incident]]:
    """Return the incidents that the answers of failed requests name, each with the index of its line."""
    return incidents.named_in(line[ANSWER] if line[OUTCOME] in FAILURES else b"" for line in lines)


def _sizes(lines: list[tuple[Any, ...]], limit: int) -> list[tuple[int, int]]:
    """Return the index and the number of bytes of each line whose payload or answer is stored truncated."""
    return [
        (number, len(line[PAYLOAD]) + len(line[ANSWER]))
        for number, line in enumerate(lines)
        if len(line[PAYLOAD]) > limit or len(line[ANSWER]) > limit
    ]


def _searched(lines: list[tuple[Any, ...]], limit: int) -> list[bytes]:
    """Return the parts of pending lines that may contain secrets. Answers to list methods are excluded."""
    # A set, because a message sent to many clients has the same payload in each line.
    found = [truncate_message(payload, limit) for payload in {line[PAYLOAD] for line in lines}]
    found += [truncate_message(line[ANSWER], limit) for line in lines if line[FACTS][METHOD] not in LISTS]
    # A set, because most lines have the same few targets.
    return found + [target.encode() for target in {line[FACTS][TARGET] for line in lines}]
