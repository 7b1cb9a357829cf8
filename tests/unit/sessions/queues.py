"""Log batches as processes publish them, in a queue that fails on request."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson

Fault = Callable[[str], None]


def nothing(step: str) -> None:
    """Raise no fault."""


class ListQueue:
    """A stand-in for ``SyncMessageQueue``; ``fault`` is called before each step."""

    def __init__(self, *batches: bytes) -> None:
        self.fault: Fault = nothing
        self.batches = [(f"{number}-0", batch) for number, batch in enumerate(batches, 1)]

    def add(self, batch: bytes) -> None:
        last = int(self.batches[-1][0].partition("-")[0]) if self.batches else 1000
        self.batches.append((f"{last + 1}-0", batch))

    def depth(self) -> int:
        self.fault("depth")
        return len(self.batches)

    def read(self, after_id: str, count: int) -> Sequence[tuple[str, bytes]]:
        self.fault("read")
        after = int(after_id.partition("-")[0])
        return [each for each in self.batches if int(each[0].partition("-")[0]) > after][:count]

    def trim(self, through_id: str) -> None:
        self.fault("trim")
        through = int(through_id.partition("-")[0])
        self.batches = [each for each in self.batches if int(each[0].partition("-")[0]) > through]


def line(request_id: str = "1", **changes: Any) -> list[Any]:
    """Return one line in the form of a batch."""
    members: dict[str, Any] = {
        "session": None,
        "principal": "loopback",
        "at": time.time(),
        "direction": "in",
        "kind": "request",
        "method": "tools/call",
        "request_id": request_id,
        "target": "echo",
        "payload": "{}",
        "answer": "{}",
        "outcome": "ok",
        "ms": 1.5,
    }
    return list((members | changes).values())


def batch(*lines: list[Any], facts: Sequence[dict[str, Any]] = (), skipped: int = 0, **more: Any) -> bytes:
    """Return one encoded batch."""
    return orjson.dumps(
        {"process": "host:1", "skipped": skipped, "facts": list(facts), "lines": lines, **more}
    )


def opened(session: str = "s" * 32, **changes: Any) -> dict[str, Any]:
    """Return the fact that a session was opened."""
    return {
        "fact": "session.opened",
        "at": time.time(),
        "session": session,
        "principal": "loopback",
        "user": None,
        "version": "2025-11-25",
        "client_name": "tests",
        "client_version": "1",
        "fields": {"version": "2025-11-25", "log_level": "info"},
        "address": "127.0.0.1",
    } | changes
