"""The catalogue's revision counter and its history of changes."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class CatalogueRevision(models.Model):
    """The only row (pk 1): the newest revision, and the last revision that changed each list."""

    number = models.PositiveBigIntegerField(default=0)
    tools = models.PositiveBigIntegerField(default=0)
    prompts = models.PositiveBigIntegerField(default=0)
    resources = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"revision {self.number}"


class CatalogueChange(models.Model):
    """A change to an entry: the values before and after, the author, the time and the reason.

    It is never edited. ``key`` is the key that the entry had at that time. ``entry_id`` is the id of its
    row, which connects the changes of an entry even after it was renamed.
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
        """Return the action as readable text."""
        if self.action == "mirrored":
            state = self.after or self.before or {}
            return "registered from code" if state.get("code_path") else "registered"
        return "added" if self.action == "created" else self.action.replace("_", " ")
