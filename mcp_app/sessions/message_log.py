"""The message log of one process: remembers what passed, and hands it on in redacted batches.

Nothing here waits: the hot path adds one tuple to a list. A flusher encodes the list a few times a second
and pushes it to the message queue in Redis, from where a worker writes it to the database.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import orjson

from mcp_app.conf import Settings
from mcp_app.observability.redaction import Redactor
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams

FLUSH_SECONDS = 0.25
MAX_PENDING = 20_000
FLUSH_SLICE = 500
BATCH_BYTES = 1024 * 1024

LIST = "/list"

log = logging.getLogger("mcp.message_log")


class MessageLog:
    """Buffers log lines; the newest are refused, and counted, when the buffer is full."""

    def __init__(self, streams: Streams, settings: Settings) -> None:
        self._streams = streams
        self._limit = settings.message_log_payload_bytes
        self.enabled = settings.message_log
        self._redactor = Redactor(settings.redacted_names)
        self._pending: list[tuple[Any, ...]] = []
        self._facts: list[dict[str, Any]] = []
        self.before_flush: list[Callable[[], None]] = []
        self._skipped = 0
        self._flusher: asyncio.Task[None] | None = None
        self.process = f"{socket.gethostname()[:40]}:{os.getpid()}"

    def exchange(
        self,
        session_id: str | None,
        principal: str,
        payload: bytes,
        answer: bytes,
        seconds: float,
        outcome: str,
        facts: tuple[str, Any, str],
    ) -> None:
        """One client request and its answer; ``facts`` are method, request id and target."""
        if len(self._pending) >= MAX_PENDING:
            self._skipped += 1
            return
        self._pending.append(
            (session_id, principal, time.time(), "in", "request", payload, answer, seconds, outcome, facts)
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
    ) -> None:
        """One message without a paired answer: a notification, a response, a question to the client."""
        if not self.enabled:
            return
        if len(self._pending) >= MAX_PENDING:
            self._skipped += 1
            return
        self._pending.append(
            (
                session_id,
                principal,
                time.time(),
                direction,
                kind,
                payload,
                b"",
                None,
                "",
                (method, request_id, ""),
            )
        )

    def fact(self, kind: str, **members: Any) -> None:
        """Something the database must learn in order with the messages: a session opened, was seen, ended."""
        self._facts.append({"fact": kind, "at": time.time(), **members})

    def start(self) -> None:
        """Begin flushing; needs a running event loop."""
        self._flusher = asyncio.create_task(self._flush_forever())

    async def close(self) -> None:
        """Stop flushing after handing on what is buffered."""
        if self._flusher is not None:
            self._flusher.cancel()
            self._flusher = None
        await self.flush()

    async def flush(self) -> None:
        """Hand on everything buffered now; what Redis cannot take stays buffered."""
        for callback in self.before_flush:
            callback()
        while self._pending or self._facts:
            facts, self._facts = self._facts[:FLUSH_SLICE], self._facts[FLUSH_SLICE:]
            lines, taken = self._next_lines()
            batch = {"process": self.process, "skipped": self._skipped, "facts": facts, "lines": lines}
            try:
                await self._streams.messages.push(orjson.dumps(batch))
            except StreamsUnavailable:
                self._facts = facts + self._facts
                return
            del self._pending[:taken]
            self._skipped = 0
            # Encoding a slice takes a millisecond or two; requests go first between slices.
            await asyncio.sleep(0)

    def _next_lines(self) -> tuple[list[list[Any]], int]:
        """The next lines as they are stored, as many as fit into one batch, and how many they are."""
        slice_ = self._pending[:FLUSH_SLICE]
        # One search over all of them is much cheaper than one for each, and mostly finds nothing.
        everything = b"\n".join([part for pending in slice_ for part in _searched(pending)])
        clean = not self._redactor.is_suspect(everything)
        lines: list[list[Any]] = []
        size = 0
        for pending in slice_:
            line = self._line(*pending, clean=clean)
            size += len(line[8]) + len(line[9])
            # A character may need up to six bytes once it is escaped.
            if lines and size * 6 > BATCH_BYTES:
                break
            lines.append(line)
        return lines, len(lines)

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()

    def _line(
        self,
        session_id: str | None,
        principal: str,
        at: float,
        direction: str,
        kind: str,
        payload: bytes,
        answer: bytes,
        seconds: float | None,
        outcome: str,
        facts: tuple[str, Any, str],
        *,
        clean: bool,
    ) -> list[Any]:
        method, request_id, target = facts
        return [
            session_id,
            principal,
            at,
            direction,
            kind,
            method[:120],
            str(request_id)[:120],
            self._redactor.text(target)[:200],
            self._redactor.message(payload, self._limit, clean=clean),
            self._answer(method, answer, clean=clean),
            outcome,
            None if seconds is None else seconds * 1000,
        ]

    def _answer(self, method: str, answer: bytes, *, clean: bool) -> str:
        """A list is the server's own words, prepared once and long: only cut, not searched."""
        if method.endswith(LIST):
            return answer[: self._limit].decode("utf-8", "ignore")
        return self._redactor.message(answer, self._limit, clean=clean) if answer else ""


def _searched(pending: tuple[Any, ...]) -> tuple[bytes, ...]:
    """What of a pending line may hold secrets: everything but a list, which is the server's own words."""
    return (pending[5],) if pending[9][0].endswith(LIST) else (pending[5], pending[6])
