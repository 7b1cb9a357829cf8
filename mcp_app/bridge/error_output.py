"""The last lines of the error output of a command, for operators. It is in memory only and bounded."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

from mcp_app.credentials.hiding import hidden, texts_to_hide

MAX_LINES: Final = 200
MAX_CHARACTERS: Final = 500


class ErrorOutput:
    """The last lines of all processes of a command, without the secrets of its environment."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = texts_to_hide(secrets)
        self._lines: deque[tuple[float, int, str]] = deque(maxlen=MAX_LINES)

    def add(self, pid: int, line: bytes) -> None:
        """Store a line of a process. The end of a long line is dropped."""
        # A secret that begins within the part that is kept is hidden before the line is cut.
        text = hidden(line[: MAX_CHARACTERS * 8].decode(errors="replace").rstrip("\r"), self._secrets)
        if text:
            self._lines.append((time.time(), pid, text[:MAX_CHARACTERS]))

    def shown(self) -> list[dict[str, Any]]:
        """Return the lines, oldest first."""
        return [{"at": at, "pid": pid, "text": text} for at, pid, text in self._lines]
