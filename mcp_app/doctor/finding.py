"""The result of a check: a finding with its level and, if action is needed, a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mcp_app import conf
from mcp_app.observability.redaction import Redactor


class Level(StrEnum):
    """The severity of a finding; an error makes the installation unusable or unsafe."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: ``check`` is ``<area>.<subject>``, ``text`` the fact, ``remedy`` the action.

    Contains no secrets.
    """

    check: str
    level: Level
    text: str
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(check, Level.OK, _told(text))


def warning(check: str, text: str, remedy: str) -> Finding:
    """Return a finding about a setup that works but is fragile or slow."""
    return Finding(check, Level.WARNING, _told(text), remedy)


def error(check: str, text: str, remedy: str) -> Finding:
    """Return a finding about a fault or a security problem."""
    return Finding(check, Level.ERROR, _told(text), remedy)


def skipped(check: str, text: str, remedy: str = "") -> Finding:
    """Return a finding for a check that could not run; ``text`` is the reason."""
    return Finding(check, Level.SKIPPED, _told(text), remedy)


def _told(text: str) -> str:
    """Return one line without credentials: messages of drivers may contain an address with its password."""
    return Redactor(conf.get().redacted_names).text(" ".join(text.split()))
