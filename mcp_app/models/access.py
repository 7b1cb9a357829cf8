"""API keys: only their hash is stored."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from mcp_app import database_clock


class ApiKey(models.Model):
    """A bearer credential of one user; the secret is shown once, when it is issued."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mcp_api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, editable=False)
    secret_hash = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Empty: never.")
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering: ClassVar[Any] = ["-created_at"]
        verbose_name = "API key"
        permissions: ClassVar[Any] = [("view_metrics", "Can read /metrics")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def usable(self) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and (
            self.expires_at is None or self.expires_at > database_clock.utcnow()
        )
