"""What a call has said so far, read from its event stream for people; writes nothing, keeps nothing alive."""

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
    """One thing the call said: ``level`` is ``progress``, ``question`` or the level of a log message."""

    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The newest progress; ``total`` is None when the end is not known."""

    value: float
    total: float | None
    message: str

    @property
    def text(self) -> str:
        """``3 of 10 reading``; a message that says the numbers, or that the call only waits, stands alone."""
        if self.message and only_waits(self.value):
            return self.message
        numbers = f"{self.value:g}" if self.total is None else f"{self.value:g} of {self.total:g}"
        return self.message if numbers in self.message else f"{numbers} {self.message}".strip()


@dataclass(frozen=True, slots=True)
class CallLogPage:
    """The lines after a position, the newest progress among them, and the position to go on from."""

    lines: tuple[CallLogLine, ...] = ()
    progress: Progress | None = None
    position: Position | None = None


def said(session_id: str, stream: str, after: Position | None = None) -> CallLogPage:
    """What a call said after ``after``, at most a few hundred lines, without secrets.

    Nothing when the stream is gone, and without Redis. Raises StreamsUnavailable when Redis is away.
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
    """Whether a call says anything after ``after`` within ``seconds``, of which it waits half a one at most.

    Blocks; raises StreamsUnavailable when Redis is away.
    """
    url = conf.get().redis_url
    return bool(url) and _view(url).wait(session_id, stream, after, seconds)


def read_position(text: str | None) -> Position | None:
    """The place that an earlier answer named; None for anything else."""
    epoch, _, offset = (text or "").partition("-")
    if not (
        epoch.isascii() and epoch.isdigit() and offset.isascii() and offset.isdigit() and len(text or "") < 40
    ):
        return None
    return Position(int(epoch), int(offset))


def write_position(position: Position | None) -> str:
    """A place as ``read_position`` takes it."""
    return "" if position is None else f"{position.epoch}-{position.offset}"


def redactor() -> Redactor:
    """What takes secrets out of everything that is shown of a call."""
    # The tasks and commands that send notices serve no requests: they have not read the catalogue, which is
    # what says which arguments are secret.
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
