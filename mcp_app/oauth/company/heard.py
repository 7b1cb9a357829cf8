"""What this process last heard of the provider that people log in by, for operators; needs no library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils import timezone

from mcp_app import conf

_NAMED: Final = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint")


@dataclass(slots=True)
class Heard:
    """``fetched_at`` is when it last said what its ``addresses`` are, ``used_at`` when somebody came by it.

    ``error`` is why it, or a login by it, failed the last time.
    """

    addresses: tuple[str, ...] = ()
    fetched_at: datetime | None = None
    used_at: datetime | None = None
    error: str = ""
    error_at: datetime | None = None


_heard: dict[str, Heard] = {}


def heard() -> Heard:
    """Of the provider of the settings."""
    return _heard.setdefault(conf.get().login_issuer, Heard())


def note_fetched(said: Mapping[str, Any]) -> None:
    """It said where to log in."""
    found = heard()
    found.addresses = tuple(str(said[name])[:500] for name in _NAMED if name in said)
    found.fetched_at = timezone.now()


def note_used() -> None:
    """Somebody logged in by it."""
    heard().used_at = timezone.now()


def note_failed(reason: str) -> None:
    """It could not be used; ``reason`` is what the log says, too."""
    found = heard()
    found.error, found.error_at = reason[:500], timezone.now()
