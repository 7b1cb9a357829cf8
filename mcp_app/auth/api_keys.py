"""The only module that writes API keys: issue, revoke, find, record use."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet

from mcp_app import conf
from mcp_app.auth.ended import EndedWork, key_ended
from mcp_app.auth.makers import ISSUED
from mcp_app.auth.permissions import permissions_of
from mcp_app.auth.principal import LOOPBACK, Principal, below
from mcp_app.database import clock
from mcp_app.database.aware_times import aware
from mcp_app.interface.text import marked
from mcp_app.models import ApiKey, AuditEvent, audit
from mcp_app.models.audit import stored_user
from mcp_app.protocol.scopes import ADMIN, ALL, in_order, widened
from mcp_app.streams.blocking.announce import announce

PREFIX = "mcp_"
MAX_NAME = 100
# Separates the user from the client in the key of an OAuth principal.
OF_CLIENT = "/client:"
# Minimum interval between two records of a key's use, because recording every use would cost a write per
# request.
LAST_USE_INTERVAL_SECONDS = 60
REVOKED: Final = "api_key.revoke"
REPLACED: Final = "api_key.replace"
# How long a replaced key stays valid. In the meantime, its clients get the new key.
OLD_KEY_ENDS: Final = {"now": timedelta(), "1h": timedelta(hours=1), "24h": timedelta(hours=24)}
# Suggested lifetimes of a key, in days.
USUAL_DAYS: Final = (30, 90, 365)
# The time after its expiry in which a key's sessions are ended. It covers outages of the workers.
EXPIRED_WITHIN: Final = timedelta(days=1)
# Warning period before a key expires, long enough to issue and distribute a new key.
KEY_ENDS_WITHIN: Final = timedelta(days=14)
# The label of keys within that period, in lists.
ENDS_SOON: Final = "expires soon"
NEVER_ENDS: Final = "A key that never expires gives access to anyone who has a copy, until it is revoked."


def key_states() -> dict[str, Q]:
    """Map each state of an API key to its query condition at the present time."""
    now = clock.utcnow()
    return {
        "active": Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now)),
        "expired": Q(revoked_at=None, expires_at__lte=now),
        "revoked": Q(revoked_at__isnull=False),
    }


def keys_end_soon() -> Q:
    """Return the condition for active keys that expire within KEY_ENDS_WITHIN."""
    now = clock.utcnow()
    return Q(revoked_at=None, expires_at__gt=now, expires_at__lte=now + KEY_ENDS_WITHIN)


def ending_keys() -> QuerySet[ApiKey]:
    """Return the active keys that expire within KEY_ENDS_WITHIN."""
    return ApiKey.objects.filter(keys_end_soon())


def secret_hash(secret: str) -> str:
    """Return the hash under which an API key is stored and looked up.

    One fast hash is enough for 256 random bits.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def issue_api_key(
    *,
    user: Any,
    name: str,
    expires_at: datetime | None = None,
    scopes: Collection[str] = ALL,
    actor: Any = None,
) -> tuple[ApiKey, str]:
    """Issue an API key for ``user``. Return the row and the secret, which is stored only as a hash.

    ``scopes`` limit the user's permissions as the scopes of an OAuth token do. Raises ValidationError with
    messages per field, and PermissionDenied if ``actor`` may not issue keys for ``user``.
    """
    expires_at = aware(expires_at)
    _check_new_key(user, name, expires_at, scopes, actor)
    secret = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        row = ApiKey.objects.create(
            user=user,
            name=name,
            prefix=secret[:12],
            secret_hash=secret_hash(secret),
            expires_at=expires_at,
            scopes=in_order(scopes),
            issued_by=stored_user(actor),
        )
        _audit(actor, ISSUED, row)
    return row, secret


def ends_in(days: int) -> datetime:
    """Return the expiry of a key that is issued now and valid for ``days``."""
    return clock.utcnow() + timedelta(days=days)


def _check_new_key(
    user: Any, name: str, expires_at: datetime | None, scopes: Collection[str], actor: Any
) -> None:
    # A key has its user's permissions, so a key for another user would extend the permissions of the actor.
    if actor is not None and not actor.is_superuser and actor.pk != user.pk:
        raise PermissionDenied("Only superusers can add keys for others.")
    errors: dict[str, list[str]] = {}
    if not name or len(name) > MAX_NAME:
        errors["name"] = [f"Must have 1 to {MAX_NAME} characters."]
    elif marked(name) != name:
        errors["name"] = [f"Hidden characters are not allowed: {marked(name)}"]
    if expires_at is not None and expires_at <= clock.utcnow():
        errors["expires_at"] = ["This time has passed: a key must expire in the future."]
    if not scopes or not set(scopes) <= set(ALL):
        errors["scopes"] = [f"Choose at least one of {', '.join(ALL)}."]
    if not user.is_active:
        errors["user"] = ["This user is inactive."]
    if errors:
        raise ValidationError(errors)


def revoke_api_key(*, key: ApiKey, actor: Any = None) -> EndedWork:
    """Revoke an API key. Return the numbers of sessions and calls that ended with it.

    Every process forgets the key at once, or within RECHECK_SECONDS if the broadcast is lost (S5).
    """
    work = EndedWork()
    with transaction.atomic():
        changed = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=clock.now())
        if changed:
            _audit(actor, REVOKED, key)
            work = key_ended(key, "revoked", actor)
            transaction.on_commit(lambda: announce("credentials", {"api_key": key.pk}))
    key.refresh_from_db()
    return work


def replace_api_key(*, key: ApiKey, old_key_ends: str, actor: Any = None) -> tuple[ApiKey, str, EndedWork]:
    """Issue a key with the user, name, scopes and lifetime of ``key``, and end ``key``.

    ``old_key_ends`` is a name in OLD_KEY_ENDS. A key that expires earlier keeps its expiry. Return the new
    key, its secret, and the numbers of sessions and calls that ended at once. Raises ValidationError and
    PermissionDenied like ``issue_api_key``, and ValidationError for a revoked key.
    """
    if old_key_ends not in OLD_KEY_ENDS:
        raise ValidationError({"old_key_ends": [f"Choose one of {', '.join(OLD_KEY_ENDS)}."]})
    with transaction.atomic():
        old = ApiKey.objects.select_for_update(of=("self",)).select_related("user").get(pk=key.pk)
        if old.revoked_at is not None:
            raise ValidationError("This key is revoked. Add a new one.")
        new, secret = issue_api_key(
            user=old.user,
            name=old.name,
            scopes=old.scopes.split(),
            expires_at=_same_lifetime(old),
            actor=actor,
        )
        work = _end_replaced(old, new, OLD_KEY_ENDS[old_key_ends], actor)
    key.refresh_from_db()
    return new, secret, work


def _same_lifetime(key: ApiKey) -> datetime | None:
    return None if key.expires_at is None else clock.utcnow() + (key.expires_at - key.created_at)


def _end_replaced(old: ApiKey, new: ApiKey, after: timedelta, actor: Any) -> EndedWork:
    """Revoke a replaced key, or let it expire ``after`` some time. Record its replacement."""
    if old.usable and after:
        ends = clock.utcnow() + after
        old.expires_at = min(ends, old.expires_at or ends)
        old.save(update_fields=["expires_at"])
        transaction.on_commit(lambda: announce("credentials", {"api_key": old.pk}))
    _audit(actor, REPLACED, old, new_key=str(new))
    return revoke_api_key(key=old, actor=actor) if not after else EndedWork()


def end_expired_keys() -> int:
    """End the sessions and the waiting calls of keys that expired. Return the number of keys with any.

    Only keys that expired within EXPIRED_WITHIN are examined, because this runs every few minutes.
    """
    now = clock.utcnow()
    expired = ApiKey.objects.filter(revoked_at=None, expires_at__lte=now, expires_at__gt=now - EXPIRED_WITHIN)
    return sum(key_ended(key, "expired") != EndedWork() for key in expired)


def revoked_by(key: ApiKey) -> str:
    """Return the name of the user who revoked a key according to the audit trail, or ""."""
    said = AuditEvent.objects.filter(action=REVOKED, object_kind="api_key", object_key=str(key))
    return said.values_list("actor_name", flat=True).first() or ""


def successors_of(keys: Collection[ApiKey]) -> dict[int, ApiKey]:
    """Map the primary key of each replaced key to its newest replacement according to the audit trail.

    This takes two queries. Replacements that were deleted, and events that were deleted, are left out.
    """
    named = {str(key): key for key in keys}
    found = AuditEvent.objects.filter(action=REPLACED, object_kind="api_key", object_key__in=named)
    events = dict(found.order_by("pk").values_list("object_key", "detail__new_key"))
    prefixes = {str(name).rpartition(" (")[2].removesuffix("…)") for name in events.values()}
    made = {str(key): key for key in ApiKey.objects.filter(prefix__in=prefixes)} if prefixes else {}
    pairs = ((named[old], made.get(new)) for old, new in events.items())
    return {old.pk: new for old, new in pairs if new is not None and new.user_id == old.user_id}


def _audit(actor: Any, action: str, row: ApiKey, **more: str) -> None:
    audit(
        actor=actor,
        action=action,
        object_kind="api_key",
        object_key=str(row),
        detail={
            "user": str(row.user),
            "scopes": row.scopes,
            "expires_at": row.expires_at.isoformat() if row.expires_at else None,
            **more,
        },
    )


def find_api_key(secret: str) -> ApiKey | None:
    """Return the API key with this secret and its user, or None.

    Returns None if the key or the user is not active, or if API keys are disabled.
    """
    if not conf.get().api_keys:
        return None
    row = ApiKey.objects.select_related("user").filter(secret_hash=secret_hash(secret)).first()
    return row if row is not None and row.usable and row.user.is_active else None


def find_principal(secret: str) -> Principal | None:
    """Return the principal of an API key, or None if the key is not usable."""
    row = find_api_key(secret)
    return None if row is None else principal_of_key(row)


def record_api_key_use(key: ApiKey) -> None:
    """Record the time of use, at most once per LAST_USE_INTERVAL_SECONDS."""
    now = clock.utcnow()
    before = now - timedelta(seconds=LAST_USE_INTERVAL_SECONDS)
    if key.last_used_at is None or key.last_used_at < before:
        rows = ApiKey.objects.filter(Q(last_used_at=None) | Q(last_used_at__lt=before), pk=key.pk)
        rows.update(last_used_at=now)


def principal_of_user(user: AbstractBaseUser, way: str = "") -> Principal:
    """Return the principal of a user who sent no API key.

    ``way`` names how the user was authenticated, if it was not by a login.
    """
    key = f"user:{user.pk}/{way}" if way else f"user:{user.pk}"
    return Principal(key=key, name=user.get_username(), permissions=permissions_of(user), user_id=user.pk)


def principal_of_key(row: ApiKey) -> Principal:
    """Return the principal of a usable API key.

    A key with the admin scope does not limit the permissions of its user.
    """
    held = widened(row.scopes.split())
    ceiling = None if ADMIN in held else held
    permissions = permissions_of(row.user)
    return Principal(
        key=f"user:{row.user_id}/key:{row.pk}",
        name=row.user.get_username(),
        permissions=permissions if ceiling is None else below(ceiling, permissions),
        scopes=ceiling,
        user_id=row.user_id,
        api_key_id=row.pk,
        expires_at=clock.own(row.expires_at.timestamp()) if row.expires_at else None,
    )


def login_name(relation: str) -> str:
    """Return the lookup path to the login name of a related user.

    A project's own user model may have another field than ``username``.
    """
    return f"{relation}__{get_user_model().USERNAME_FIELD}"


def principal_of(key: str, user_id: int | None, api_key_id: int | None, scopes: str = "") -> Principal:
    """Return the principal of a stored call with its current permissions. No credential is needed.

    If the user was deleted or deactivated, the principal has no permissions. ``scopes`` are the scopes that
    were stored with the call and limit its permissions.
    """
    held = widened(scopes.split()) if scopes or OF_CLIENT in key else None
    if user_id is None:
        return LOOPBACK if key == LOOPBACK.key else Principal(key, key, frozenset(), scopes=held)
    user = get_user_model().objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        return Principal(key, key, frozenset(), scopes=held)
    permissions = permissions_of(user)
    return Principal(
        key=key,
        name=user.get_username(),
        permissions=permissions if held is None else below(held, permissions),
        user_id=user_id,
        api_key_id=api_key_id,
        scopes=held,
    )
