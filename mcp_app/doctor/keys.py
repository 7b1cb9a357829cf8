"""Checks of API keys: those that expire soon, are unused, or belong to inactive users."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Q, QuerySet

from mcp_app.database import clock
from mcp_app.doctor.finding import Finding, ok, warning
from mcp_app.doctor.installation import Installation
from mcp_app.interface.text import counted
from mcp_app.models import ApiKey

EXPIRES_WITHIN = timedelta(days=14)
UNUSED_FOR = timedelta(days=90)
NAMED = 5


def readable(_: Installation) -> Iterator[Finding]:
    """Report the number of usable keys."""
    yield ok("keys.readable", counted(_usable().count(), "usable API key"))


def expiring(_: Installation) -> Iterator[Finding]:
    """Report keys that expire soon. After that, their clients can no longer connect."""
    soon = _usable().filter(expires_at__lte=clock.utcnow() + EXPIRES_WITHIN)
    remedy = "Replace them in the admin before then."
    yield _finding("keys.expiring", soon, f"expire within {EXPIRES_WITHIN.days} days", remedy)


def unused(_: Installation) -> Iterator[Finding]:
    """Report unused keys. A leaked key that is not in use could be misused unnoticed."""
    before = clock.utcnow() - UNUSED_FOR
    old = _usable().filter(Q(last_used_at__lt=before) | Q(last_used_at=None, created_at__lt=before))
    yield _finding("keys.unused", old, f"unused for {UNUSED_FOR.days} days", "Revoke them in the admin.")


def inactive(_: Installation) -> Iterator[Finding]:
    """Report keys of inactive users. They become valid again if the user is activated."""
    theirs = _usable().filter(user__is_active=False)
    yield _finding("keys.inactive", theirs, "belong to inactive users", "Revoke them in the admin.")


def _usable() -> QuerySet[ApiKey]:
    return ApiKey.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=clock.utcnow()), revoked_at=None
    ).order_by("pk")


def _finding(check: str, keys: QuerySet[ApiKey], what: str, remedy: str) -> Finding:
    names = [key.name for key in keys[: NAMED + 1]]
    if not names:
        return ok(check, f"none {what}")
    more = f" and {keys.count() - NAMED} more" if len(names) > NAMED else ""
    return warning(check, f"{what}: {', '.join(names[:NAMED])}{more}", remedy)


CHECKS = (expiring, unused, inactive)
