"""Deletion of expired codes, tokens and connections, and of unused clients (AUTH-44)."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q

from mcp_app.database import clock
from mcp_app.oauth.models import (
    AccessToken,
    AuthorizationCode,
    Client,
    Connection,
    RefreshToken,
    UsedAssertion,
)

# Retention of ended connections. Operators need them to find out why a client stopped.
KEPT = timedelta(days=30)
CODES_KEPT = timedelta(days=1)
NEVER_USED = timedelta(hours=24)
UNUSED = timedelta(days=90)


def purge() -> int:
    """Delete rows past their retention. Return their number."""
    now = clock.utcnow()
    over = (
        AccessToken.objects.filter(expires_at__lt=now),
        AuthorizationCode.objects.filter(expires_at__lt=now - CODES_KEPT),
        # Used refresh tokens stay stored until they expire, because their rows reveal a second use.
        RefreshToken.objects.filter(expires_at__lt=now),
        Connection.objects.filter(Q(revoked_at__lt=now - KEPT) | Q(ends_at__lt=now - KEPT)),
        Connection.objects.filter(refresh_tokens=None, created_at__lt=now - CODES_KEPT).exclude(
            client__authorization_grant_type=Client.GRANT_CLIENT_CREDENTIALS
        ),
        UsedAssertion.objects.filter(expires_at__lt=now),
        Client.objects.filter(connections=None, disabled_at=None, created__lt=now - NEVER_USED)
        .exclude(registration_source=Client.RegistrationSource.MANUAL)
        .filter(Q(last_used_at=None, updated__lt=now - NEVER_USED) | Q(last_used_at__lt=now - UNUSED)),
    )
    return sum(rows.delete()[0] for rows in over)
