"""Tokens with which the doctor's page examines ``/mcp`` for the user who opened it.

A token opens sessions and calls tools that need no permission. It grants no permission of the user, because
a wrong public address would send it to another server.
"""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth import get_user_model

from mcp_app.auth.api_keys import PREFIX
from mcp_app.auth.principal import Principal
from mcp_app.auth.signed_tokens import claims_in, password_mark, sign
from mcp_app.database import clock
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.scopes import TOOLS, widened

RUN_DOCTOR: Final = "mcp_app.run_doctor"
DOCTOR_PREFIX: Final = PREFIX + "doctor_"
TOKEN_SECONDS: Final = 120
_SALT: Final = "mcp_app.auth.doctor"


def issue_doctor_token(user: Any) -> str:
    """Return a token for an examination by ``user``, whom the page has authorized."""
    ends = clock.timestamp() + TOKEN_SECONDS
    return sign(DOCTOR_PREFIX, _SALT, ends, user=str(user.pk), mark=password_mark(user))


def find_doctor_principal(token: str) -> Principal | None:
    """Return the principal of a doctor's token.

    Returns None if the token is forged or expired, or if its user may no longer run the doctor.
    """
    claims = claims_in(token, DOCTOR_PREFIX, _SALT)
    if claims is None:
        return None
    user: Any = get_user_model()._default_manager.filter(pk=claims["user"]).first()
    if user is None or password_mark(user) != claims["mark"] or not _may_run(user):
        return None
    return Principal(
        key=f"user:{user.pk}/doctor",
        name=user.get_username(),
        permissions=frozenset(),
        user_id=user.pk,
        expires_at=clock.own(claims["ends"]),
        bench=True,
        scopes=widened([TOOLS]),
        path=ENDPOINT,
    )


def _may_run(user: Any) -> bool:
    return bool(user.is_active and getattr(user, "is_staff", False) and user.has_perm(RUN_DOCTOR))
