"""Incidents: unexpected exceptions of application code, each with a number and details for operators.

Clients get only the number. The details are recorded in the process in which the exception was caught. The
message log finds them by the number in the logged answer and stores them with the message.
"""

from __future__ import annotations

import re
import site
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, quote_plus

import orjson

from mcp_app.foreign_code import Escaped, contained
from mcp_app.observability.redaction import MARK, Redactor

# Maximum number of incidents per process whose answers have not been logged yet.
MOST_RECENT: Final = 1_000
MOST_FRAMES: Final = 12
# How many of them are frames of the project, if it has as many.
MOST_OWN: Final = 4
LONGEST_NAME: Final = 120
LONGEST_MESSAGE: Final = 1_000
# Characters of an exception's message that are searched for secrets. The rest is not kept.
LONGEST_READ: Final = 20_000
# Shorter values of secret arguments are not replaced in messages: they would match unrelated text.
SHORTEST_SECRET: Final = 4
# The answers that contain a number, see ``execution.calls.results``, are short.
_NUMBERED: Final = re.compile(rb"\(incident ([0-9a-f]{8})\)")
_ANSWER_BYTES: Final = 2_000
PACKAGE: Final = str(Path(__file__).parents[1])
APPS: Final = f"{PACKAGE}/contrib/"
# Mark of frames of the project, in the text of an exception.
OWN: Final = "▸"
UNREADABLE: Final = "(the message of the exception cannot be read)"


class Frame(NamedTuple):
    """A frame of a traceback. ``own`` is True for code of the project, False for code of libraries.

    ``offset`` is the number of lines between the start of the function and ``line``. It does not change if
    code above the function is edited. ``omitted`` is the number of frames left out before this one.
    """

    file: str
    line: int
    function: str
    module: str
    own: bool
    offset: int
    omitted: int

    @property
    def where(self) -> str:
        """The position for display."""
        return f"{self.file}:{self.line} in {self.function}"


class Incident(NamedTuple):
    """An unexpected exception: its number, its class, its message and its innermost frames, outermost first.

    ``message`` is not redacted.
    """

    number: str
    exception: str
    message: str
    frames: tuple[Frame, ...]

    @classmethod
    def of(cls, number: str, error: BaseException) -> Self:
        """Return the incident of an exception."""
        while isinstance(error, Escaped) and error.__cause__ is not None:
            error = error.__cause__
        kind = type(error)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        return cls(number, _plain(f"{module}{kind.__qualname__}"), _message(error), _frames(error))

    def encoded(self, redactor: Redactor, request: bytes) -> str:
        """Return the exception as JSON without secrets.

        ``request`` is the request during which it was raised. Values of its secret arguments are removed from
        the message.
        """
        message = self.message
        for value in secret_values(redactor, request):
            message = message.replace(value, MARK)
        frames = [frame._asdict() for frame in self.frames]
        clean = redactor.message(message.encode(), LONGEST_MESSAGE)
        return orjson.dumps({"type": self.exception, "message": clean, "frames": frames}).decode()


class StoredException(NamedTuple):
    """An exception as the message log stores it, without secrets. The outermost frame is the first."""

    exception: str
    message: str
    frames: tuple[Frame, ...]

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """Return the exception from its stored JSON, or None if there is none."""
        try:
            stored = orjson.loads(text or "")
            frames = [Frame(*(frame[name] for name in Frame._fields)) for frame in stored["frames"]]
            return cls(stored["type"], stored["message"], tuple(frames))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return None

    @property
    def origin(self) -> Frame | None:
        """The innermost frame of the project, or the innermost of all frames if there is none."""
        found = [frame for frame in self.frames if frame.own] or self.frames
        return found[-1] if found else None

    @property
    def place(self) -> str:
        """The origin as text that stays the same if code above its function is edited, or ""."""
        at = self.origin
        return "" if at is None else f"{at.file}:{at.function}+{at.offset}"

    @property
    def text(self) -> str:
        """The exception for display, the innermost frame last. Frames of the project have a mark."""
        # Further lines of the message are indented, so that they cannot be taken for frames.
        message = self.message.replace("\n", "\n    ")
        lines = [f"{self.exception}: {message}" if message else self.exception, ""]
        for frame in self.frames:
            if frame.omitted:
                lines.append(f"  … {frame.omitted} frame{'s' if frame.omitted > 1 else ''} omitted")
            lines.append(f"{OWN if frame.own else ' '} {frame.where}")
        return "\n".join(lines).rstrip()


# The incidents that the message log has not stored yet, by number, oldest first.
_recent: dict[str, Incident] = {}


def record(incident: Incident) -> None:
    """Remember an incident until its answer is logged. If there are too many, forget the oldest."""
    _recent[incident.number] = incident
    while len(_recent) > MOST_RECENT:
        _recent.pop(next(iter(_recent)), None)


def named_in(answers: Iterable[bytes]) -> list[tuple[int, Incident]]:
    """Return the recorded incidents whose numbers are in answers, each with the index of its answer.

    If several answers have the same number, it belongs to the first: clients can repeat a number.
    """
    found: dict[str, tuple[int, Incident]] = {}
    if _recent:
        for index, answer in enumerate(answers):
            number = _NUMBERED.search(answer, 0, _ANSWER_BYTES)
            incident = _recent.get(number[1].decode()) if number else None
            if incident is not None:
                found.setdefault(incident.number, (index, incident))
    return list(found.values())


def forget(numbers: Iterable[str]) -> None:
    """Forget incidents that have been logged."""
    for number in numbers:
        _recent.pop(number, None)


def number_in(answer: str) -> str:
    """Return the number of the incident that a logged answer names, or ""."""
    found = _NUMBERED.search(answer[:_ANSWER_BYTES].encode(errors="replace"))
    return found[1].decode() if found else ""


def secret_values(redactor: Redactor, request: bytes) -> list[str]:
    """Return the values of the secret arguments of a request as text, the longest first.

    A value is also returned as Python, JSON and URLs write it, if that differs.
    """
    try:
        found = set(_secrets(redactor, orjson.loads(request), secret=False))
    except orjson.JSONDecodeError:
        return []
    found |= {form for value in found for form in _other_forms(value)}
    return sorted((value for value in found if len(value) >= SHORTEST_SECRET), key=len, reverse=True)


def _other_forms(value: str) -> Iterable[str]:
    """Yield a value as Python, JSON and URLs write it. Exceptions often contain the URL of a request."""
    if value.isascii() and value.isalnum():
        return
    yield repr(value)[1:-1]
    yield repr(value.encode())[2:-1]
    yield orjson.dumps(value).decode()[1:-1]
    yield from (quote(value), quote(value, safe=""), quote_plus(value))


def _secrets(redactor: Redactor, value: Any, *, secret: bool) -> Iterable[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(redactor, inner, secret=secret or redactor.is_secret(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(redactor, inner, secret=secret)
    elif secret and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)


def _message(error: BaseException) -> str:
    try:
        with contained():  # Application code creates the text.
            return _plain(str(error), LONGEST_READ)
    except Exception:  # noqa: BLE001 - as above
        return UNREADABLE


def _plain(text: str, longest: int = LONGEST_NAME) -> str:
    """Return text that can be encoded as UTF-8, cut to a length."""
    return text[:longest].encode("utf-8", "replace").decode()


def _frames(error: BaseException) -> tuple[Frame, ...]:
    """Return the innermost frames from the first frame of the project on, the outermost first.

    The innermost frames of the project are always included, even if libraries called each other below them.
    """
    raised: list[tuple[FrameType, int | None]] = []
    trace = error.__traceback__
    while trace is not None:
        raised.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    own = [index for index, (frame, _) in enumerate(raised) if _is_own(frame.f_code.co_filename)]
    within = range(own[0] if own else 0, len(raised))
    above = [index for index in own[-MOST_OWN:] if index < len(raised) - MOST_FRAMES]
    found, before = [], within.start - 1
    for index in [*above, *within[len(above) - MOST_FRAMES :]]:
        frame, line = raised[index]
        found.append(_frame(frame, line, index - before - 1))
        before = index
    return tuple(found)


def _frame(frame: FrameType, line: int | None, omitted: int) -> Frame:
    code: CodeType = frame.f_code
    line = line or code.co_firstlineno
    return Frame(
        _plain(_relative(code.co_filename)),
        line,
        _plain(code.co_qualname.rpartition("<locals>.")[2]),
        _plain(str(frame.f_globals.get("__name__", ""))),
        _is_own(code.co_filename),
        max(line - code.co_firstlineno, 0),
        omitted,
    )


def _is_own(file: str) -> bool:
    """Return True for a file of the project: not of this server, a library or Python."""
    return not _is_server(file) and not file.startswith((*_libraries(), "<"))


def _is_server(file: str) -> bool:
    return file.startswith(f"{PACKAGE}/") and not file.startswith(APPS)


@cache
def _libraries() -> tuple[str, ...]:
    """Return the folders of installed packages and of Python itself."""
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(f"{folder.rstrip('/')}/" for folder in folders)


def _relative(file: str) -> str:
    """Return a file's path relative to the folder from which it was imported, else only its name."""
    folders = [str(Path(each or ".").absolute()) for each in sys.path]
    within = [folder for folder in folders if file.startswith(f"{folder}/")]
    return file[len(max(within, key=len)) + 1 :] if within else file.rpartition("/")[2]
