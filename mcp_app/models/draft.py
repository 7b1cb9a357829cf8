"""Drafts: unpublished changes to catalogue entries, never visible to clients."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.models.catalogue import StoredSource


class Draft(models.Model):
    """A saved change to one entry: the changed values, the author, the time and the reason.

    ``source`` is the stored name of the entry's source. ``entry_id`` is the id of the changed row, or None
    for a new entry. ``revision`` is the revision of that row's last change when the draft was saved.
    ``version`` counts how often this draft was saved.
    """

    kind = models.CharField(max_length=20)
    # A database default: processes of the previous version insert drafts without this column.
    source = models.CharField(
        max_length=16, default=StoredSource.ADMIN.value, db_default=StoredSource.ADMIN.value
    )
    entry_id = models.PositiveBigIntegerField(null=True)
    key = models.CharField(max_length=500)
    values = models.JSONField(default=dict)
    file = models.FileField(upload_to="drafts/", blank=True, max_length=300)
    note = models.CharField(max_length=500, blank=True)
    revision = models.PositiveBigIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = AwareDateTimeField(auto_now_add=True)
    updated_at = AwareDateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar[Any] = ["-updated_at", "-id"]
        # There are no separate permissions: users who may change the entry may edit its draft.
        default_permissions: ClassVar[Any] = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["kind", "entry_id"], name="one_draft_of_an_entry"),
            models.UniqueConstraint(
                fields=["kind", "key"], condition=models.Q(entry_id=None), name="one_draft_of_a_new_entry"
            ),
        ]

    def __str__(self) -> str:
        return self.key
