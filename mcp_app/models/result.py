"""The stored whole of results that were cut for the model."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class StoredResult(models.Model):
    """A long result, for its caller alone. ``id`` is random, ``principal`` is the caller's whole key.

    ``path`` is the server that the tool was called at. ``person`` is the person for whom the size counts.
    """

    id = models.CharField(primary_key=True, max_length=32, editable=False)
    principal = models.CharField(max_length=120)
    person = models.CharField(max_length=120, db_index=True)
    # Without a user on loopback.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    path = models.CharField(max_length=255)
    tool = models.CharField(max_length=128)
    page_count = models.PositiveIntegerField()
    size = models.PositiveBigIntegerField(help_text="In bytes.")
    created_at = AwareDateTimeField()
    expires_at = AwareDateTimeField(db_index=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.tool} {self.id}"


class ResultPage(models.Model):
    """A page of a stored result. ``content`` is UTF-8 text, or base64 if ``is_blob``."""

    result = models.ForeignKey(StoredResult, on_delete=models.CASCADE, related_name="pages", db_index=False)
    number = models.PositiveIntegerField()
    mime_type = models.CharField(max_length=255)
    is_blob = models.BooleanField(default=False)
    # Binary, because PostgreSQL's text type rejects the NUL character.
    content = models.BinaryField()

    class Meta:
        default_permissions = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["result", "number"], name="one_page_per_number")
        ]

    def __str__(self) -> str:
        return f"{self.result_id} {self.number}"
