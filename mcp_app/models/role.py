"""The record of permissions that each role was given once."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models


class OfferedPermission(models.Model):
    """A permission (``app.codename``) that a role's group was given once; what it holds now may be less."""

    role = models.CharField(max_length=40)
    permission = models.CharField(max_length=200)

    class Meta:
        # Nobody looks at it or alters it.
        default_permissions = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["role", "permission"], name="mcp_app_permission_is_offered_once")
        ]

    def __str__(self) -> str:
        return f"{self.role}: {self.permission}"
