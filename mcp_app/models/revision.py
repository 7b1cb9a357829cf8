"""The catalogue's revision counter and its history of changes."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class CatalogueRevision(models.Model):
    """The only row (pk 1): the newest revision, and the revision of each list's last change."""

    number = models.PositiveBigIntegerField(default=0)
    tools = models.PositiveBigIntegerField(default=0)
    prompts = models.PositiveBigIntegerField(default=0)
    resources = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"revision {self.number}"


class CatalogueChange(models.Model):
    """A change of an entry: values before and after, author, time and reason. Never edited.

    ``key`` is the entry's key at that time; ``entry_id`` is its row, so that history outlives a name.
    """

    revision = models.PositiveBigIntegerField(db_index=True)
    kind = models.CharField(max_length=20)
    key = models.CharField(max_length=500)
    entry_id = models.PositiveBigIntegerField(null=True)
    action = models.CharField(max_length=20)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    why = models.CharField(max_length=500, blank=True)
    at = AwareDateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar[Any] = ["-id"]
        indexes: ClassVar[Any] = [
            models.Index(fields=["kind", "key", "-id"]),
            models.Index(fields=["kind", "entry_id", "-id"]),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.kind} {self.key} at revision {self.revision}"

    @property
    def done(self) -> str:
        """The action as text for people."""
        return self.action.replace("_", " ")
