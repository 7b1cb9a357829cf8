"""Signed tokens that pages of the admin issue for themselves. They are never stored."""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import Any, Final

from django.core import signing

from mcp_app.database import clock

# Number of characters that a token contains of the user's session hash. The hash changes with the password.
_PASSWORD_MARK: Final = 16


def sign(prefix: str, salt: str, ends: float, **claims: str) -> str:
    """Return a token with these claims that expires at ``ends``, in epoch seconds."""
    # A log line may show the beginning of a token. The random part comes first, so that the claims stay
    # secret.
    members = {"salt": secrets.token_urlsafe(9), **claims, "ends": int(ends)}
    signed = signing.Signer(salt=salt).sign_object(members)
    return prefix + base64.urlsafe_b64encode(signed.encode()).decode().rstrip("=")


def claims_in(token: str, prefix: str, salt: str) -> dict[str, Any] | None:
    """Return the claims of an unexpired token with this prefix and salt, or None."""
    text = token.removeprefix(prefix)
    try:
        signed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
        claims: dict[str, Any] = signing.Signer(salt=salt).unsign_object(signed)
    except (signing.BadSignature, binascii.Error, ValueError):
        return None
    return claims if claims["ends"] > clock.timestamp() else None


def password_mark(user: Any) -> str:
    """Return a mark of a user's password.

    The mark changes with the password, so a new password invalidates older tokens.
    """
    return str(user.get_session_auth_hash())[:_PASSWORD_MARK]
