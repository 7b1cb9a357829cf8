"""The ledger: one line per event of a tool, written by its process and read by tests."""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Line:
    """One event of a tool.

    ``what`` is start, alive or end; ``run`` identifies one start of the tool; ``at`` is on the machine's
    monotonic clock, which all processes share.
    """

    at: float
    nonce: str
    what: str
    run: str
    pid: int
    number: int = 0


class Run:
    """One start of a tool. A killed run has a start but no end."""

    def __init__(self, path: Path, nonce: str) -> None:
        self._path = path
        self.nonce = nonce
        self.name = secrets.token_hex(4)

    def note(self, what: str, number: int = 0) -> None:
        """Append one line in one write, so that other processes' writes cannot split it."""
        line = Line(time.monotonic(), self.nonce, what, self.name, os.getpid(), number)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, json.dumps(asdict(line)).encode() + b"\n")
        finally:
            os.close(descriptor)

    def __enter__(self) -> Self:
        self.note("start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.note("end" if error is None else "stopped")


def read(path: Path, nonce: str = "") -> list[Line]:
    """Return all complete lines, or those of one nonce."""
    if not path.exists():
        return []
    # The last one may be on its way: a reader can see the first half of what another process writes.
    whole = path.read_text().rpartition("\n")[0]
    lines = [Line(**json.loads(text)) for text in whole.splitlines()]
    return [line for line in lines if nonce in ("", line.nonce)]
