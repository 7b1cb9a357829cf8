"""The record of permissions that roles were granted by default, each one once."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models


class OfferedPermission(models.Model):
    """A permission (``app.codename``) once granted to a role's group. The group may have lost it since."""

    role = models.CharField(max_length=40)
    permission = models.CharField(max_length=200)

    class Meta:
        # No permissions: no page shows or changes these rows.
        default_permissions = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["role", "permission"], name="mcp_app_permission_is_offered_once")
        ]

    def __str__(self) -> str:
        return f"{self.role}: {self.permission}"
