"""Removal of expired codes, tokens and connections, and of unused clients (AUTH-44)."""

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

# Ended connections stay this long, so that operators can find out why a client stopped.
KEPT = timedelta(days=30)
CODES_KEPT = timedelta(days=1)
NEVER_USED = timedelta(hours=24)
UNUSED = timedelta(days=90)


def purge() -> int:
    """Delete rows past their retention; return their number."""
    now = clock.utcnow()
    over = (
        AccessToken.objects.filter(expires_at__lt=now),
        AuthorizationCode.objects.filter(expires_at__lt=now - CODES_KEPT),
        # Used tokens stay until their expiry: reuse is detected by their rows.
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
