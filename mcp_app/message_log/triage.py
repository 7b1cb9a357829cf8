"""Triage of errors: mute, resolve, reopen and assign them, and the errors that need attention.

The log writer marks a resolved error that happens again as regressed (``counts.error_groups``). A mute ends
without a write: queries compare its time with that of the newest error, and the counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import F, Q, QuerySet

from mcp_app.database import clock
from mcp_app.models import ErrorGroup, Triage, audit

READS: Final = "mcp_app.view_message"
PERMISSION: Final = "mcp_app.triage_errors"
# The kind of object in the audit trail.
KIND: Final = "error"
# An error is new for this long after its first occurrence.
NEW: Final = timedelta(days=1)
FIELDS: Final = ("triage", "triaged_at", "muted_until", "muted_count", "assignee_id")


_UNMUTED: Final = {"muted_until": None, "muted_count": None}


class TriageError(Exception):
    """Raised if an error cannot be triaged as asked. Its text is for the user."""


@dataclass(frozen=True, slots=True)
class Triaged:
    """A completed change: the error, and the former values of FIELDS for an undo."""

    error: ErrorGroup
    before: dict[str, Any]


# Muted errors that happened after the end of the mute, or often enough.
ENDED_MUTE: Final = Q(triage=Triage.MUTED) & (
    Q(last_at__gte=F("muted_until")) | Q(count__gte=F("muted_count"))
)


# Errors that are neither resolved nor muted.
UNRESOLVED: Final = Q(triage__in=(Triage.OPEN, Triage.REGRESSED)) | ENDED_MUTE


def unresolved() -> QuerySet[ErrorGroup]:
    """Return the errors that are neither resolved nor muted."""
    return ErrorGroup.objects.filter(UNRESOLVED)


def muted() -> QuerySet[ErrorGroup]:
    """Return the errors whose mute has not ended."""
    return ErrorGroup.objects.filter(triage=Triage.MUTED).exclude(ENDED_MUTE)


def needing_attention(now: datetime) -> QuerySet[ErrorGroup]:
    """Return the faults that are new, that happened again after they were resolved, or whose mute has ended.

    Mistakes of callers need no attention.
    """
    new = Q(triage=Triage.OPEN, first_at__gte=now - NEW)
    return ErrorGroup.objects.filter(new | Q(triage=Triage.REGRESSED) | ENDED_MUTE, is_fault=True)


def state_of(error: ErrorGroup) -> str:
    """Return the state of an error for display: that of a muted error whose mute has ended is "worse"."""
    if error.triage != Triage.MUTED:
        return str(error.triage)
    is_late = error.muted_until is not None and error.last_at >= error.muted_until
    is_frequent = error.muted_count is not None and error.count >= error.muted_count
    return "worse" if is_late or is_frequent else str(Triage.MUTED)


def resolve(*, digest: str, actor: Any) -> Triaged:
    """Resolve an error. It is marked as regressed if it happens again. Raise TriageError."""
    return _change(digest, actor, "resolve", {**_UNMUTED, "triage": Triage.RESOLVED})


def reopen(*, digest: str, actor: Any) -> Triaged:
    """Reopen a muted, resolved or regressed error. Raise TriageError."""
    return _change(digest, actor, "reopen", {**_UNMUTED, "triage": Triage.OPEN})


def mute(*, digest: str, actor: Any, until: datetime | None = None, times: int | None = None) -> Triaged:
    """Mute an error until it happens after a time or has happened ``times`` more times. Raise TriageError.

    Without either, it stays muted.
    """
    if until is not None and until <= clock.utcnow():
        raise TriageError("The end of the mute must be in the future.")
    values = {"triage": Triage.MUTED, "muted_until": until, "muted_count": None}
    return _change(digest, actor, "mute", values, more=times)


def assign(*, digest: str, actor: Any, assignee: Any) -> Triaged:
    """Assign an error to a staff user, or unassign it if ``assignee`` is None. Raise TriageError."""
    if assignee is not None and not _may_be_assigned(assignee):
        raise TriageError("Errors can be assigned only to staff users who may view messages.")
    return _change(digest, actor, "assign", {"assignee_id": None if assignee is None else assignee.pk})


def _may_be_assigned(user: Any) -> bool:
    return bool(user.is_active and user.is_staff and user.has_perm(READS))


def restore(*, digest: str, actor: Any, before: dict[str, Any], after: dict[str, Any]) -> Triaged:
    """Undo a change, unless the error has changed or its former assignee was deleted. Raise TriageError."""
    assignee = before["assignee_id"]
    if assignee is not None and not get_user_model()._default_manager.filter(pk=assignee).exists():
        raise TriageError("The user to whom the error was assigned no longer exists.")
    return _change(digest, actor, "undo", {name: before[name] for name in FIELDS}, only_if=after)


def values_of(error: ErrorGroup) -> dict[str, Any]:
    """Return the triage of an error as JSON values."""
    return {name: _as_json(getattr(error, name)) for name in FIELDS}


def _change(
    digest: str,
    actor: Any,
    action: str,
    values: dict[str, Any],
    *,
    more: int | None = None,
    only_if: dict[str, Any] | None = None,
) -> Triaged:
    """Change an error. ``more`` is the number of further errors after which a mute ends."""
    with transaction.atomic():
        error = ErrorGroup.objects.select_for_update().filter(pk=digest).first()
        if error is None:
            raise TriageError("This error is no longer stored.")
        before = values_of(error)
        if only_if is not None and before != only_if:
            raise TriageError("The error has changed since.")
        if more is not None:
            values["muted_count"] = error.count + more
        if "triage" in values:
            values.setdefault("triaged_at", clock.utcnow())
        for name, value in values.items():
            setattr(error, name, _time(value) if name in ("triaged_at", "muted_until") else value)
        error.save(update_fields=list(values))
        detail = {"tool": error.tool or error.method, "error": error.words, **_told(values)}
        if error.assignee is not None:
            detail["assignee"] = error.assignee.get_username()
        audit(actor=actor, action=f"error.{action}", object_kind=KIND, object_key=digest, detail=detail)
    return Triaged(error, before)


def _time(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _told(values: dict[str, Any]) -> dict[str, Any]:
    """Return the changed values for the audit trail."""
    shown = {name: value for name, value in values.items() if name != "triaged_at" and value is not None}
    return {name: _as_json(value) for name, value in shown.items()}


def _as_json(value: Any) -> Any:
    """Return a value of a field as JSON. The primary keys of users may be of any type, such as UUID."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, (int, str)) else str(value)
