"""The log of a call for operators, read from its event stream without extending the stream's lifetime."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from mcp_app import conf
from mcp_app.catalogue.snapshots.current_snapshot import loaded
from mcp_app.observability.redaction import Redactor
from mcp_app.protocol.messages.progress import only_waits
from mcp_app.streams.base import MESSAGE, Event, Position
from mcp_app.streams.blocking.stream_view import StreamView

LONGEST_LINE = 2_000


@dataclass(frozen=True, slots=True)
class CallLogLine:
    """A line in a call's log. ``level`` is ``progress``, ``question`` or the level of a log message."""

    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The latest progress of a call. ``total`` is None if it is unknown."""

    value: float
    total: float | None
    message: str

    @property
    def text(self) -> str:
        """The numbers and the message for display, such as ``3 of 10 Reading files``.

        The numbers are omitted if the message contains them or only reports that the call waits.
        """
        if self.message and only_waits(self.value):
            return self.message
        numbers = f"{self.value:g}" if self.total is None else f"{self.value:g} of {self.total:g}"
        return self.message if numbers in self.message else f"{numbers} {self.message}".strip()


@dataclass(frozen=True, slots=True)
class CallLogPage:
    """The log lines after a position, the latest progress in them, and the position for the next page."""

    lines: tuple[CallLogLine, ...] = ()
    progress: Progress | None = None
    position: Position | None = None


def log_page(session_id: str, stream: str, after: Position | None = None) -> CallLogPage:
    """Return the log lines of a call after a position: at most a few hundred, without secrets.

    Return an empty page if the stream has been deleted, and if the server runs without Redis. Raise
    StreamsUnavailable while Redis is down.
    """
    url = conf.get().redis_url
    if not url:
        return CallLogPage(position=after)
    view = _view(url)
    events = view.newest(session_id, stream) if after is None else view.after(session_id, stream, after)
    clean = redactor()
    messages = [message for event in events if (message := _message(event)) is not None]
    lines = tuple(line for message in messages if (line := _line(message, clean)) is not None)
    progress = [found for message in messages if (found := _progress(message, clean)) is not None]
    position = Position(events[-1].epoch, events[-1].offset) if events else after
    return CallLogPage(lines, progress[-1] if progress else None, position)


def wait_for_more(session_id: str, stream: str, after: Position | None, seconds: float) -> bool:
    """Wait up to ``seconds`` for the call to write to its stream. Return True if it wrote after ``after``.

    This blocks. Raise StreamsUnavailable while Redis is down.
    """
    url = conf.get().redis_url
    return bool(url) and _view(url).wait(session_id, stream, after, seconds)


def read_position(text: str | None) -> Position | None:
    """Parse a position written by ``write_position``. Return None for any other text."""
    epoch, _, offset = (text or "").partition("-")
    if not (
        epoch.isascii() and epoch.isdigit() and offset.isascii() and offset.isdigit() and len(text or "") < 40
    ):
        return None
    return Position(int(epoch), int(offset))


def write_position(position: Position | None) -> str:
    """Format a position for ``read_position``."""
    return "" if position is None else f"{position.epoch}-{position.offset}"


def redactor() -> Redactor:
    """Return the redactor for everything displayed about a call."""
    # The catalogue names the secret arguments. Periodic tasks and commands that send notices serve no
    # requests and have not loaded it.
    return Redactor((*conf.get().redacted_names, *loaded().secret_names))


@lru_cache(maxsize=2)
def _view(url: str) -> StreamView:
    return StreamView(url)


def _message(event: Event) -> dict[str, Any] | None:
    if event.kind != MESSAGE:
        return None
    try:
        message = orjson.loads(event.data)
    except orjson.JSONDecodeError:
        return None
    return message if isinstance(message, dict) and isinstance(message.get("params"), dict) else None


def _line(message: dict[str, Any], clean: Redactor) -> CallLogLine | None:
    params = message["params"]
    progress = _progress(message, clean)
    if progress is not None:
        return CallLogLine("progress", progress.text)
    match message.get("method"):
        case "notifications/message":
            return CallLogLine(str(params.get("level", "info")), _text(params.get("data"), clean))
        case str(method) if "id" in message:
            return CallLogLine("question", f"{method}: {_text(params.get('message', ''), clean)}")
    return None


def _progress(message: dict[str, Any], clean: Redactor) -> Progress | None:
    params = message["params"]
    value, total = params.get("progress"), params.get("total")
    if message.get("method") != "notifications/progress" or not isinstance(value, (int, float)):
        return None
    text = _text(params.get("message") or "", clean)
    return Progress(value, total if isinstance(total, (int, float)) else None, text)


def _text(data: Any, clean: Redactor) -> str:
    value = clean.value(data)
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + "…"
