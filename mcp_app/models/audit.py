"""The audit trail: who changed what, and when. ``audit`` adds rows, and rows are never changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Never

from django.conf import settings
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class AppendOnlyError(Exception):
    """Raised on an attempt to change the audit trail."""


class AppendOnlyQuerySet(models.QuerySet["AuditEvent"]):
    """A query set that refuses bulk updates and deletions (S21)."""

    def update(self, **kwargs: Any) -> Never:
        """Raise AppendOnlyError."""
        raise AppendOnlyError

    def delete(self) -> Never:
        """Raise AppendOnlyError."""
        raise AppendOnlyError


class AuditEvent(models.Model):
    """An administrative or security event."""

    at = AwareDateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        related_name="+",
    )
    actor_name = models.CharField(max_length=200, blank=True)
    action = models.CharField(max_length=60, db_index=True)
    object_kind = models.CharField(max_length=40, blank=True)
    object_key = models.CharField(max_length=500, blank=True)
    detail = models.JSONField(default=dict)

    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[Any] = ["-id"]
        verbose_name_plural = "audit trail"

    def __str__(self) -> str:
        return f"{self.action} {self.object_key}".strip()

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert the row. Raise AppendOnlyError if the row already exists."""
        if not self._state.adding:
            raise AppendOnlyError
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Never:
        """Raise AppendOnlyError."""
        raise AppendOnlyError


def stored_user(actor: Any) -> Any:
    """Return the actor if it is a stored user, or None if it is a command or a process."""
    return actor if getattr(actor, "pk", None) is not None else None


def audit(
    *, actor: Any, action: str, object_kind: str, object_key: str, detail: dict[str, Any] | None = None
) -> None:
    """Record an action (S21) in the change's transaction. ``actor`` is a user, or None for the system."""
    audit_each(actor=actor, action=action, object_kind=object_kind, details={object_key: detail or {}})


def audit_each(*, actor: Any, action: str, object_kind: str, details: Mapping[str, dict[str, Any]]) -> None:
    """Record an action on many objects of one kind. ``details`` maps each object's key to its details."""
    who = stored_user(actor)
    name = str(actor or "system")[:200]
    AuditEvent.objects.bulk_create(
        AuditEvent(
            actor=who,
            actor_name=name,
            action=action,
            object_kind=object_kind,
            object_key=key[:500],
            detail=detail,
        )
        for key, detail in details.items()
    )
