"""Tokens of the test bench in the admin.

The tokens are signed, valid for minutes and never stored. Only the installation's own server at ``/mcp``
accepts them.
"""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied

from mcp_app.auth.api_keys import PREFIX
from mcp_app.auth.permissions import permissions_of
from mcp_app.auth.principal import Principal
from mcp_app.auth.signed_tokens import claims_in, password_mark, sign
from mcp_app.database import clock
from mcp_app.models import audit
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.principal_key import ACTOR, BENCH

TRY: Final = "mcp_app.try_entries"
TRY_AS_OTHERS: Final = "mcp_app.try_as_others"
RUN_AS: Final = "bench.run_as"
BENCH_PREFIX: Final = PREFIX + "bench_"
TOKEN_SECONDS: Final = 900
_SALT: Final = "mcp_app.auth.bench"


def issue_bench_token(*, actor: Any, user: Any = None) -> tuple[str, float]:
    """Return a token with which ``actor`` can call ``/mcp`` as ``user``, and its expiry in epoch seconds.

    ``user`` defaults to the actor. Raises PermissionDenied with a message for the actor. Acting as another
    user is audited.
    """
    user = user if user is not None else actor
    refusal = _refusal(actor, user)
    if refusal:
        raise PermissionDenied(refusal)
    ends = clock.timestamp() + TOKEN_SECONDS
    if user.pk != actor.pk:
        audit(
            actor=actor,
            action=RUN_AS,
            object_kind="user",
            object_key=user.get_username(),
            detail={"user": str(user.pk), "seconds": TOKEN_SECONDS},
        )
    claims = {"actor": str(actor.pk), "user": str(user.pk), "mark": password_mark(actor)}
    return sign(BENCH_PREFIX, _SALT, ends, **claims), float(int(ends))


def find_bench_principal(token: str) -> Principal | None:
    """Return the principal of a bench token.

    Returns None if the token is forged or expired, or if the actor may no longer act as the user.
    """
    claims = claims_in(token, BENCH_PREFIX, _SALT)
    if claims is None:
        return None
    users = get_user_model()._default_manager.in_bulk({claims["actor"], claims["user"]})
    found = {str(pk): row for pk, row in users.items()}
    actor, user = found.get(claims["actor"]), found.get(claims["user"])
    if actor is None or user is None or password_mark(actor) != claims["mark"] or _refusal(actor, user):
        return None
    return Principal(
        key=bench_key(actor.pk, user.pk),
        name=_name(actor, user),
        permissions=permissions_of(user),
        user_id=user.pk,
        expires_at=clock.own(claims["ends"]),
        bench=True,
        path=ENDPOINT,
    )


def bench_key(actor_id: Any, user_id: Any) -> str:
    """Return the principal key of ``actor`` acting as ``user``.

    The key is distinct from all other principals of the user, so sessions are not shared.
    """
    own = f"user:{user_id}{BENCH}"
    return own if str(actor_id) == str(user_id) else f"{own}{ACTOR}{actor_id}"


def _refusal(actor: Any, user: Any) -> str:
    """Return the reason why ``actor`` may not act as ``user``, or ""."""
    if not (actor.is_active and getattr(actor, "is_staff", False) and actor.has_perm(TRY)):
        return "You may not run entries."
    if user.pk == actor.pk:
        return ""
    if not actor.has_perm(TRY_AS_OTHERS):
        return "You may not run entries as another user."
    if not user.is_active:
        return "That user is not active."
    if getattr(user, "is_superuser", False) and not getattr(actor, "is_superuser", False):
        return "Only a superuser may act as a superuser."
    return ""


def _name(actor: Any, user: Any) -> str:
    name: str = user.get_username()
    return name if user.pk == actor.pk else f"{name} (run by {actor.get_username()})"
