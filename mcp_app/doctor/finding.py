"""Findings of the doctor, with a level and, if something must be done, a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mcp_app import conf
from mcp_app.observability.redaction import Redactor


class Level(StrEnum):
    """The severity of a finding. After an error, the installation is unusable or unsafe."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of a check.

    ``check`` is ``<area>.<subject>``, ``text`` states the fact, and ``remedy`` is what to do about it. The
    texts contain no secrets.
    """

    check: str
    level: Level
    text: str
    remedy: str = ""


def milliseconds(seconds: float) -> str:
    """Return a measured time as text. It is never shown as 0."""
    return f"{seconds * 1000:.1f} ms" if seconds >= 0.0001 else "<0.1 ms"


def ok(check: str, text: str) -> Finding:
    """Return a finding that reports no problem."""
    return Finding(check, Level.OK, _redacted_line(text))


def warning(check: str, text: str, remedy: str) -> Finding:
    """Return a finding about a setup that works, but is fragile or slow."""
    return Finding(check, Level.WARNING, _redacted_line(text), remedy)


def error(check: str, text: str, remedy: str) -> Finding:
    """Return a finding about a fault or a security problem."""
    return Finding(check, Level.ERROR, _redacted_line(text), remedy)


def skipped(check: str, text: str, remedy: str = "") -> Finding:
    """Return a finding for a check that could not run. ``text`` is the reason."""
    return Finding(check, Level.SKIPPED, _redacted_line(text), remedy)


def _redacted_line(text: str) -> str:
    """Return text as one line without credentials.

    Messages of drivers may contain an address with a password.
    """
    return Redactor(conf.get().redacted_names).text(" ".join(text.split()))
