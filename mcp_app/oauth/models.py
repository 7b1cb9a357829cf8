"""Clients, connections (one person, client and server each) and their tokens. Tokens are stored as hashes."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from oauth2_provider.models import AbstractApplication, ApplicationManager

from mcp_app.database import clock
from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.oauth.redirects import matches


class Client(AbstractApplication):
    """A program that people connect to this server, or a machine.

    For a client that registered itself, ``network`` is the network it came from and ``registration`` is a
    hash of its metadata. Together they distinguish a repeated registration from a new one (AUTH-45). A
    machine logs in as its service user within ``scope``. It authenticates with its secret, or with the keys
    in ``jwks`` or at ``jwks_uri`` (AUTH-51).
    """

    token_auth_method = models.CharField(
        max_length=30,
        default="none",
        choices=(
            ("none", "none (public client)"),
            ("client_secret_basic", "client secret in the Authorization header"),
            ("client_secret_post", "client secret in the body"),
            ("private_key_jwt", "signed with a private key (service users only)"),
        ),
        verbose_name="authentication",
    )
    network = models.CharField(max_length=64, blank=True, editable=False)
    registration = models.CharField(max_length=64, blank=True, db_index=True, editable=False)
    service_user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        editable=False,
        related_name="mcp_machine",
    )
    # Null if no user entered the client, or if an earlier version stored it. In the second case, the audit
    # trail names the user.
    entered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    scope = models.CharField(max_length=255, blank=True, db_default="", editable=False)
    jwks = models.TextField(blank=True, db_default="")
    jwks_uri = models.CharField(max_length=500, blank=True, db_default="")
    document_fetched_at = AwareDateTimeField(null=True, blank=True, editable=False)
    disabled_at = AwareDateTimeField(null=True, blank=True, editable=False)
    last_used_at = AwareDateTimeField(null=True, blank=True, editable=False)

    objects: ClassVar[Any] = ApplicationManager()

    class Meta:
        ordering: ClassVar[Any] = ["-created"]
        verbose_name = "OAuth client"
        permissions: ClassVar[Any] = [("add_machine_client", "Can add OAuth clients with a service user")]

    def __str__(self) -> str:
        return str(self.name or self.client_id)

    @property
    def is_machine(self) -> bool:
        """True for a machine, which logs in as itself instead of being connected by people."""
        return bool(self.authorization_grant_type == self.GRANT_CLIENT_CREDENTIALS)

    @property
    def verified(self) -> bool:
        """True if the client's name is verified by its https address or by an administrator."""
        return bool(self.registration_source != self.RegistrationSource.DCR)

    def is_usable(self, request: Any) -> bool:
        """Return False if the client is disabled."""
        return self.disabled_at is None

    def redirect_uri_allowed(self, uri: str) -> bool:
        """Return True if the client may receive responses at ``uri`` (AUTH-32)."""
        return any(matches(registered, uri) for registered in self.redirect_uris.split())


class Connection(models.Model):
    """A person's consent for a client. If it ends, all its tokens end."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mcp_connections"
    )
    client = models.ForeignKey(Client, on_delete=models.CASCADE, related_name="connections")
    resource = models.CharField(max_length=255)
    scope = models.CharField(max_length=255)
    redirect_uri = models.TextField(blank=True)
    created_at = AwareDateTimeField(auto_now_add=True)
    last_used_at = AwareDateTimeField(null=True, blank=True)
    ends_at = AwareDateTimeField()
    revoked_at = AwareDateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=40, blank=True)

    class Meta:
        ordering: ClassVar[Any] = ["-created_at"]
        verbose_name = "OAuth connection"
        indexes: ClassVar[Any] = [models.Index(fields=["user", "client", "revoked_at"])]

    def __str__(self) -> str:
        return f"{self.client} for {self.user}"

    @property
    def live(self) -> bool:
        """True if the connection is neither revoked nor expired."""
        return self.revoked_at is None and self.ends_at > clock.utcnow()


class Secret(models.Model):
    """A credential of a client, stored as a digest."""

    digest = models.CharField(max_length=64, unique=True)
    expires_at = AwareDateTimeField(db_index=True)

    class Meta:
        abstract = True


class AuthorizationCode(Secret):
    """An authorization code, sent through the browser.

    A used code stays stored, so that a second use is detected.
    """

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="codes")
    redirect_uri = models.TextField()
    code_challenge = models.CharField(max_length=128)
    used_at = AwareDateTimeField(null=True)

    def __str__(self) -> str:
        return f"code {self.pk}"


class AccessToken(Secret):
    """An access token. It stays valid after a refresh, so that requests in progress succeed."""

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="access_tokens")
    scope = models.CharField(max_length=255)

    def __str__(self) -> str:
        return f"access token {self.pk}"


class RefreshToken(Secret):
    """A refresh token for one use.

    ``successor`` is the pair of tokens that replaced it, encrypted with the refresh token itself.
    """

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="refresh_tokens")
    used_at = AwareDateTimeField(null=True)
    successor = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"refresh token {self.pk}"


class UsedAssertion(Secret):
    """The hash of a single-use value: a machine's assertion or a person's consent decision."""

    def __str__(self) -> str:
        return f"used {self.pk}"
