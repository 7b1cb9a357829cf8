"""Owns what a check says: one finding with its level, and with a remedy where something is to be done."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mcp_app import conf
from mcp_app.observability.redaction import Redactor


class Level(StrEnum):
    """How much a finding matters; an error is what keeps the installation from working or from being safe."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """``check`` is ``<area>.<subject>``, ``text`` what is so, ``remedy`` what to do; no secret is in it."""

    check: str
    level: Level
    text: str
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, _told(text))


def warning(check: str, text: str, remedy: str) -> Finding:
    """It works, and may not for long or not well."""
    return Finding(check, Level.WARNING, _told(text), remedy)


def error(check: str, text: str, remedy: str) -> Finding:
    """It does not work, or is not safe."""
    return Finding(check, Level.ERROR, _told(text), remedy)


def skipped(check: str, text: str, remedy: str = "") -> Finding:
    """It could not be looked at; the text says why, the remedy how it could be."""
    return Finding(check, Level.SKIPPED, _told(text), remedy)


def _told(text: str) -> str:
    """One line without credentials: words of drivers and servers can hold an address with its password."""
    return Redactor(conf.get().redacted_names).text(" ".join(text.split()))
