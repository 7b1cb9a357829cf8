"""The columns of rows that administrators edit: when, and by whom."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class EditedRow(models.Model):
    """A row with the time of its creation, and the time and user of its last change."""

    created_at = AwareDateTimeField(auto_now_add=True)
    updated_at = AwareDateTimeField(auto_now=True)
    updated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        editable=False,
    )

    class Meta:
        abstract = True
