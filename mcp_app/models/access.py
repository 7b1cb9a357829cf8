"""API keys (stored as hashes), marks of service users, external identities, and default permissions."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from mcp_app.database import clock
from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.protocol.scopes import EVERY


class ApiKey(models.Model):
    """A user's bearer credential. Its secret is shown once, on creation."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mcp_api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, editable=False)
    secret_hash = models.CharField(max_length=64, unique=True, editable=False)
    # Processes of an earlier version insert keys without this column. Those keys get every scope.
    scopes = models.CharField(max_length=255, default=EVERY, db_default=EVERY)
    # The issuer is null for a key issued by a management command or by an earlier version. The audit trail
    # shows which of the two it was.
    issued_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    created_at = AwareDateTimeField(auto_now_add=True)
    expires_at = AwareDateTimeField(null=True, blank=True, help_text="Empty: never.")
    revoked_at = AwareDateTimeField(null=True, blank=True, editable=False)
    last_used_at = AwareDateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering: ClassVar[Any] = ["-created_at"]
        verbose_name = "API key"
        permissions: ClassVar[Any] = [("view_metrics", "Can read /metrics")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def usable(self) -> bool:
        """True unless revoked or expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > clock.utcnow())


class ServiceUser(models.Model):
    """The mark on a user account that a machine uses. It has groups and permissions but cannot log in."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mcp_service_user"
    )
    created_at = AwareDateTimeField(auto_now_add=True)

    class Meta:
        default_permissions: ClassVar[Any] = ()

    def __str__(self) -> str:
        return str(self.user)


class ExternalIdentity(models.Model):
    """A user of an identity provider, identified by issuer and subject and never by name or e-mail.

    ``groups_at`` is the time at which the last token that set the user's groups was issued.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mcp_identities"
    )
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    created_at = AwareDateTimeField(auto_now_add=True)
    groups_at = models.BigIntegerField(null=True, editable=False)

    class Meta:
        verbose_name = "external identity"
        verbose_name_plural = "external identities"
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="mcp_app_identity_is_one_person")
        ]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


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
