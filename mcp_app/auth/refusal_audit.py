"""Metrics and audit events for requests that were refused because their credential lacks a scope.

A client may repeat a refused request. Each process therefore audits the same refusal at most once an hour.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from django.contrib.auth import get_user_model

from mcp_app.auth.principal import Principal
from mcp_app.database import queries
from mcp_app.metrics import tally
from mcp_app.models.audit import audit

NOTED_SECONDS: Final = 3_600.0
REMEMBERED: Final = 1_000

_noting = threading.Lock()
_noted: dict[tuple[str, str], float] = {}


def note_refused(principal: Principal, scope: str) -> None:
    """Record that a credential lacks ``scope``. Does not block: the audit event is written later."""
    tally.note("oauth_scope_refused", scope)
    now, key = time.monotonic(), (principal.key, scope)
    with _noting:
        if now < _noted.get(key, 0.0):
            return
        if len(_noted) >= REMEMBERED:
            _noted.clear()
        _noted[key] = now + NOTED_SECONDS
    queries.later(_record, principal, scope)


def _record(principal: Principal, scope: str) -> None:
    users: Any = get_user_model()._default_manager
    known = principal.user_id is not None
    audit(
        actor=users.filter(pk=str(principal.user_id)).first() if known else None,
        action="oauth.scope_refused",
        object_kind="scope",
        object_key=scope,
        detail={"principal": principal.key, "held": sorted(principal.scopes or ())},
    )
