"""This process's last known state of the login provider, shown to operators.

Works without the ``sso`` extra.
"""

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
    """The last known state of a login provider.

    ``fetched_at`` is the time when ``addresses`` were last fetched. ``used_at`` is the time of the last
    login. ``error`` is the reason of the last failed fetch or login.
    """

    addresses: tuple[str, ...] = ()
    fetched_at: datetime | None = None
    used_at: datetime | None = None
    error: str = ""
    error_at: datetime | None = None


_heard: dict[str, Heard] = {}


def heard() -> Heard:
    """Return the state of the configured provider."""
    return _heard.setdefault(conf.get().login_issuer, Heard())


def note_fetched(said: Mapping[str, Any]) -> None:
    """Record the addresses in the provider's fetched metadata and the time."""
    found = heard()
    found.addresses = tuple(str(said[name])[:500] for name in _NAMED if name in said)
    found.fetched_at = timezone.now()


def note_used() -> None:
    """Record the time of a login."""
    heard().used_at = timezone.now()


def note_failed(reason: str) -> None:
    """Record a failed fetch or login. ``reason`` is logged as well."""
    found = heard()
    found.error, found.error_at = reason[:500], timezone.now()
