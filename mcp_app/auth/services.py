"""The only writers of API keys: issue, revoke, verify."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from mcp_app.auth.principal import EVERYTHING, LOOPBACK, Principal
from mcp_app.models import ApiKey, audit
from mcp_app.streams.announce import announce

PREFIX = "mcp_"


def secret_hash(secret: str) -> str:
    """What is stored of an API key. A key holds 256 random bits, so one fast hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def issue_api_key(
    *, user: Any, name: str, expires_at: datetime | None = None, actor: Any = None
) -> tuple[ApiKey, str]:
    """Issue a key for ``user``; returns the row and the secret, which cannot be shown again."""
    secret = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        row = ApiKey.objects.create(
            user=user, name=name, prefix=secret[:12], secret_hash=secret_hash(secret), expires_at=expires_at
        )
        _audit(actor, "api_key.issue", row)
    return row, secret


def revoke_api_key(*, key: ApiKey, actor: Any = None) -> None:
    """Revoke a key; every process forgets it at once, and within seconds if the broadcast is lost (S5)."""
    with transaction.atomic():
        changed = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now())
        if changed:
            _audit(actor, "api_key.revoke", key)
            transaction.on_commit(lambda: announce("credentials", {"api_key": key.pk}))
    key.refresh_from_db()


def _audit(actor: Any, action: str, row: ApiKey) -> None:
    audit(
        actor=actor,
        action=action,
        object_kind="api_key",
        object_key=str(row),
        detail={"user": str(row.user), "expires_at": row.expires_at.isoformat() if row.expires_at else None},
    )


def find_principal(secret: str) -> Principal | None:
    """The principal of an API key, or None when it is unknown, revoked, expired or its user inactive."""
    row = ApiKey.objects.select_related("user").filter(secret_hash=secret_hash(secret)).first()
    if row is None or not row.usable or not row.user.is_active:
        return None
    return Principal(
        key=f"user:{row.user_id}/key:{row.pk}",
        name=row.user.get_username(),
        permissions=_permissions(row.user),
        user_id=row.user_id,
        api_key_id=row.pk,
        expires_at=row.expires_at.timestamp() if row.expires_at else None,
    )


def user_principal(user: Any, way: str) -> Principal:
    """The principal of a user who is known without a key, by the ``way`` they came in."""
    return Principal(
        key=f"user:{user.pk}/{way}",
        name=user.get_username(),
        permissions=_permissions(user),
        user_id=user.pk,
    )


def _permissions(user: AbstractBaseUser) -> Any:
    if getattr(user, "is_superuser", False):
        return EVERYTHING
    return frozenset(user.get_all_permissions())  # type: ignore[attr-defined]


def principal_of(key: str, user_id: int | None, api_key_id: int | None) -> Principal:
    """The principal of a stored call, as it is allowed now; no credential is needed or known.

    A user or key that is gone leaves a principal without permissions.
    """
    if user_id is None:
        return LOOPBACK if key == LOOPBACK.key else Principal(key=key, name=key, permissions=frozenset())
    user = get_user_model().objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        return Principal(key=key, name=key, permissions=frozenset())
    return Principal(
        key=key,
        name=user.get_username(),
        permissions=_permissions(user),
        user_id=user_id,
        api_key_id=api_key_id,
    )
