"""Log formatters. They write one safe line for each record, as text or JSON, with the ids of its call.

Messages contain text from clients and tools. Therefore characters that could forge a line, control a
terminal or reorder text are escaped, and credentials are removed from every message.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from mcp_app.observability.correlation import CURRENT, Correlation
from mcp_app.observability.hidden_characters import escaped
from mcp_app.observability.redaction import Redactor

# The environment variable with the name of the process. A supervisor sets it.
PROCESS: Final = "MCP_PROCESS"
_PROGRAM: Final = Path(sys.argv[0] or "python").name
SESSION_CHARACTERS: Final = 12
ID_CHARACTERS: Final = 120
# Supervisors and other programs that read the lines must not have to cut them.
LINE_BYTES: Final = 60_000
# Escaping can turn one character into six.
SHORT_MESSAGE: Final = 2_000
SHORT_TRACEBACK: Final = 6_000
_PLAIN: Final = re.compile(r"[^\s\[\]\"=]+")
_CLEAN: Final = Redactor(("password", "passwd", "secret", "token", "apikey", "authorization")).text


def _ids(record: logging.LogRecord) -> dict[str, str | int]:
    """Return the known ids for a record, by their names in the log line."""
    found = getattr(record, "correlation", None) or CURRENT.get()
    if not isinstance(found, Correlation):
        return {}
    request_id = found.request_id
    ids = {
        # Enough characters to find the session.
        "session": found.session[:SESSION_CHARACTERS],
        "call": found.call,
        "request_id": request_id[:ID_CHARACTERS] if isinstance(request_id, str) else request_id,
        "principal": found.principal[:ID_CHARACTERS],
        "trace_id": found.trace_id,
    }
    return {name: value for name, value in ids.items() if value is not None and value != ""}


class BriefRefusals(logging.Filter):
    """A filter for any logger that removes tracebacks of refused requests: no code is at fault."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop the traceback of a 4xx response. Return True. Django sets ``status_code`` on the record."""
        if HTTPStatus.BAD_REQUEST <= getattr(record, "status_code", 0) < HTTPStatus.INTERNAL_SERVER_ERROR:
            record.exc_info = None
        return True


class _Lines(logging.Formatter):
    """The part that both formats have in common."""

    def trouble(self, record: logging.LogRecord) -> str:
        """Return the traceback and stack of a record without credentials, or "" if it has neither."""
        # Stored on the record, as formatters do by convention, so that several handlers format it only
        # once.
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        parts = [record.exc_text, self.formatStack(record.stack_info) if record.stack_info else None]
        return _CLEAN("\n".join(part for part in parts if part))


class TextLines(_Lines):
    """The format ``2026-11-20 12:00:00,000 WARNING mcp.tool message [call=… principal=…]``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text. Lines of a traceback are indented, so that none looks like a record."""
        ids = " ".join(f"{name}={_readable(value)}" for name, value in _ids(record).items())
        line = f"{self.formatTime(record)} {record.levelname} {record.name} "
        line += escaped(_CLEAN(record.getMessage()))
        if ids:
            line += f" [{ids}]"
        trouble = self.trouble(record)
        return line + "".join(f"\n    {escaped(part)}" for part in trouble.split("\n")) if trouble else line


class JsonLines(_Lines):
    """The format with one JSON object per line, which includes the message, ids and any traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON of at most LINE_BYTES."""
        message, trouble = _CLEAN(record.getMessage()), self.trouble(record)
        line = _encoded(record, message, trouble)
        if len(line.encode("utf-8", "replace")) > LINE_BYTES:
            # The last lines of a traceback tell the most, so keep them.
            cut = f"{message[:SHORT_MESSAGE]}…" if len(message) > SHORT_MESSAGE else message
            line = _encoded(record, cut, trouble[-SHORT_TRACEBACK:])
        return line


def json_line(*, logger: str, message: str, process: str, level: str = "INFO", **more: Any) -> str:
    """Return a JSON log line for text that comes from no logger, such as the output of another program."""
    now = datetime.now(UTC)
    return _dumped(
        {"time": _time(now), "level": level, "logger": logger, "message": message, "process": process} | more
    )


def _encoded(record: logging.LogRecord, message: str, trouble: str) -> str:
    members: dict[str, Any] = {
        "time": _time(datetime.fromtimestamp(record.created, UTC)),
        "level": record.levelname,
        "logger": record.name,
        "message": message,
        "process": process_name(),
        "pid": record.process,
        **_ids(record),
    }
    return _dumped(members | {"exception": trouble} if trouble else members)


def process_name() -> str:
    """Return the name of this process in log lines."""
    return os.environ.get(PROCESS) or _PROGRAM


def _time(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _dumped(members: dict[str, Any]) -> str:
    # Letters of all languages stay readable. Escaping hidden characters does not change the JSON value.
    return escaped(json.dumps(members, ensure_ascii=False))


def _readable(value: str | int) -> str:
    """Return an id for a text line. Quote it if it would be ambiguous otherwise."""
    if isinstance(value, int):
        return str(value)
    shown = escaped(value)
    return shown if _PLAIN.fullmatch(shown) else '"{}"'.format(shown.replace('"', '\\"'))
