"""Users of an identity provider, found by issuer and subject, and their mapped groups.

Users are never found by name or e-mail address, because people may choose these at a provider. If
``OAUTH_LINK_USERS`` is set, the first login links an existing user with the same name. Staff users are never
linked.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.db.models import Q

from mcp_app import conf
from mcp_app.auth.identity_provider.claims import Claims
from mcp_app.models import ExternalIdentity, ServiceUser, audit
from mcp_app.streams.blocking.announce import announce

_NOT_IN_NAMES: Final = re.compile(r"[^\w.@+-]+")


def person_of(claims: Claims) -> Any:
    """Return the active user to whom verified claims belong, or None.

    Creates or links a user on the first login if the settings allow it.
    """
    identity = _known(claims) or _first_seen(claims)
    if identity is None or not identity.user.is_active:
        return None
    if conf.get().oauth_groups and (identity.groups_at is None or identity.groups_at < claims.issued_at):
        _bring_groups(identity, claims)
    return identity.user


def _known(claims: Claims) -> ExternalIdentity | None:
    rows = ExternalIdentity.objects.select_related("user").order_by()
    # There is at most one row. ``first`` would add an ordering, which makes the query a third slower.
    return next(iter(rows.filter(issuer=claims.issuer, subject=claims.subject)), None)


def _first_seen(claims: Claims) -> ExternalIdentity | None:
    settings = conf.get()
    try:
        with transaction.atomic():
            user = _namesake(claims) if settings.oauth_link_users else None
            action = "identity.link"
            if user is None and settings.oauth_create_users:
                user, action = _made(claims), "identity.create"
            if user is None:
                return None
            identity = ExternalIdentity.objects.create(
                issuer=claims.issuer, subject=claims.subject, user=user
            )
            audit(
                actor=None,
                action=action,
                object_kind="user",
                object_key=user.get_username(),
                detail={"issuer": claims.issuer, "subject": claims.subject},
            )
    except IntegrityError:  # Another process created the same user first.
        return _known(claims)
    return identity


def _namesake(claims: Claims) -> Any:
    """Return the existing user with the name in the claims, or None.

    Staff, service users and users already linked to this issuer are excluded.
    """
    users = get_user_model()
    taken = ExternalIdentity.objects.filter(issuer=claims.issuer).values("user")
    found = users._default_manager.filter(**{users.USERNAME_FIELD: claims.username}).exclude(pk__in=taken)
    user = found.first() if claims.username else None
    is_powerful = getattr(user, "is_staff", False) or getattr(user, "is_superuser", False)
    if is_powerful or ServiceUser.objects.filter(user=user).exists():
        return None
    return user


def _made(claims: Claims) -> Any:
    """Create a user who has neither password nor permissions."""
    users = get_user_model()
    user = users(**{users.USERNAME_FIELD: _free_name(claims)})
    user.set_unusable_password()
    user.save()
    return user


def _free_name(claims: Claims) -> str:
    """Return a free user name based on the name in the claims.

    If the name is taken, ignoring case, a suffix is added.
    """
    users = get_user_model()
    field = users._meta.get_field(users.USERNAME_FIELD)
    longest = getattr(field, "max_length", None) or 150
    mark = sha256(f"{claims.issuer}\0{claims.subject}".encode()).hexdigest()[:16]
    wanted = users.normalize_username(claims.username)
    name = _NOT_IN_NAMES.sub("-", wanted).strip("-")[:longest]
    taken = {f"{users.USERNAME_FIELD}__iexact": name}
    if name and not users._default_manager.filter(**taken).exists():
        return name
    return f"{(name or 'user')[: longest - len(mark) - 1]}-{mark}"


def _bring_groups(identity: ExternalIdentity, claims: Claims) -> None:
    """Set the user's membership in the mapped groups to the groups in the claims.

    Claims older than the last ones used are ignored, because their groups may be outdated. Groups that the
    settings do not map are left unchanged.
    """
    user = identity.user
    older = Q(groups_at=None) | Q(groups_at__lt=claims.issued_at)
    with transaction.atomic():
        if not ExternalIdentity.objects.filter(older, pk=identity.pk).update(groups_at=claims.issued_at):
            return
        mapped = set(conf.get().oauth_groups.values())
        held = set(user.groups.filter(name__in=mapped).values_list("name", flat=True))
        if held == claims.groups:
            return
        for name in claims.groups - held:
            user.groups.add(Group.objects.get_or_create(name=name)[0])
        user.groups.remove(*user.groups.filter(name__in=held - claims.groups))
        audit(
            actor=None,
            action="identity.groups",
            object_kind="user",
            object_key=user.get_username(),
            detail={"added": sorted(claims.groups - held), "removed": sorted(held - claims.groups)},
        )
        transaction.on_commit(lambda: announce("credentials", {"user": user.pk}))
