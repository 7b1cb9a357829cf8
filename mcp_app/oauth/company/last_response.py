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
class LastResponse:
    """The last known state of a login provider.

    ``fetched_at`` is the time when ``addresses`` were last fetched. ``used_at`` is the time of the last
    login. ``error`` is the reason of the last failed fetch or login.
    """

    addresses: tuple[str, ...] = ()
    fetched_at: datetime | None = None
    used_at: datetime | None = None
    error: str = ""
    error_at: datetime | None = None


_responses: dict[str, LastResponse] = {}


def last_response() -> LastResponse:
    """Return the state of the configured provider."""
    return _responses.setdefault(conf.get().login_issuer, LastResponse())


def record_fetch(said: Mapping[str, Any]) -> None:
    """Record the addresses in the provider's fetched metadata and the time."""
    found = last_response()
    found.addresses = tuple(str(said[name])[:500] for name in _NAMED if name in said)
    found.fetched_at = timezone.now()


def record_login() -> None:
    """Record the time of a login."""
    last_response().used_at = timezone.now()


def record_failure(reason: str) -> None:
    """Record a failed fetch or login. ``reason`` is logged as well."""
    found = last_response()
    found.error, found.error_at = reason[:500], timezone.now()
