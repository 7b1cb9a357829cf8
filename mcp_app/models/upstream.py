"""Other MCP servers whose tools are offered here, and accounts of users at these servers."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.models.edited import EditedRow
from mcp_app.observability.redaction import without_query_values


class Upstream(EditedRow):
    """Another MCP server, and its tools as it listed them last.

    ``listed`` is compressed JSON. ``held`` maps a tool of the server to the digest of its new definition and
    the reason why its calls are refused until an administrator publishes that definition. The availability
    of the server is not stored here.
    """

    class Era(models.TextChoices):
        """The protocol revisions that requests use."""

        AUTO = "auto", "automatic"
        MODERN = "modern", "2026-07-28"
        LEGACY = "legacy", "2025-11-25 and older"

    class Isolation(models.TextChoices):
        """The callers that share a session at a server with sessions."""

        SESSION = "session", "not at all"
        USER = "user", "per user"
        SHARED = "shared", "by everyone"

    name = models.CharField(
        max_length=64,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]*\Z", "Use lower-case letters, digits, - and _.")],
        help_text="Lower-case letters, digits, - and _. It cannot be changed later.",
    )
    url = models.CharField("URL", max_length=2_000, blank=True, help_text="https://mcp.example.com/mcp")
    command = models.CharField(
        max_length=64,
        blank=True,
        help_text="A command in UPSTREAM_COMMANDS, for a server over stdio. It has no URL.",
    )
    prefix = models.CharField(
        max_length=31,
        validators=[RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9_-]*\Z", "Use letters, digits, - and _.")],
        help_text="Put before each tool name: with crm, search becomes crm_search.",
    )
    credential = models.CharField(max_length=64, blank=True, help_text="Sent with every request.")
    user_connections = models.BooleanField(
        default=False,
        help_text="Each user connects an account by OAuth. The credential is only used to read the lists of "
        "tools, prompts and resources.",
    )
    token_exchange = models.CharField(
        max_length=64,
        blank=True,
        help_text="Swaps the caller's login token for a token of the upstream server. Needs a credential "
        "of the kind OAuth token exchange.",
    )
    oauth_client = models.CharField(
        "OAuth client",
        max_length=64,
        blank=True,
        help_text="A credential with client id and secret, for servers where clients cannot register.",
    )
    era = models.CharField("protocol", max_length=10, choices=Era.choices, default=Era.AUTO)
    isolation = models.CharField(
        "sessions", max_length=10, choices=Isolation.choices, default=Isolation.SESSION
    )
    timeout_seconds = models.FloatField(
        default=60.0,
        validators=[MinValueValidator(1.0), MaxValueValidator(900.0)],
        help_text="For one request. The timeout of a tool replaces it.",
    )
    sampling = models.BooleanField(
        "relay sampling",
        default=False,
        help_text="The upstream server may send prompts to the model of the client.",
    )
    roots = models.BooleanField(
        "relay roots",
        default=False,
        help_text="The upstream server may read the folders that the client lists.",
    )
    enabled = models.BooleanField(default=True, help_text="Off: every call of its tools is refused.")
    title = models.CharField(max_length=200, blank=True, editable=False)
    version = models.CharField("revision", max_length=10, blank=True, editable=False)
    listed = models.BinaryField(null=True, editable=False)
    listed_at = AwareDateTimeField(null=True, blank=True, editable=False)
    held = models.JSONField(default=dict, blank=True, editable=False)

    class Meta:
        verbose_name = "upstream server"
        ordering: ClassVar[Any] = ["name"]

    @property
    def address(self) -> str:
        """The URL without the values of its query, or the name of the command."""
        return without_query_values(self.url) or self.command

    def __str__(self) -> str:
        return self.name


class UpstreamClient(models.Model):
    """This installation as a client of one authorization server, for the logins of one upstream server.

    ``sealed`` is the encrypted client secret of a registration. ``credential`` names the credential with the
    id and secret that an administrator entered. A retired client is not used for new logins.
    """

    class Origin(models.TextChoices):
        """The way in which the authorization server knows the client."""

        ENTERED = "entered", "entered by an administrator"
        DOCUMENT = "document", "metadata document"
        REGISTERED = "registered", "registered"

    upstream = models.ForeignKey(Upstream, on_delete=models.CASCADE, related_name="clients")
    issuer = models.CharField(max_length=500)
    origin = models.CharField(max_length=12, choices=Origin.choices)
    credential = models.CharField(max_length=64, blank=True)
    client_id = models.CharField(max_length=1_000)
    sealed = models.TextField(blank=True)
    auth_method = models.CharField(max_length=30)
    redirect_uri = models.CharField(max_length=1_000)
    token_endpoint = models.CharField(max_length=2_000)
    revocation_endpoint = models.CharField(max_length=2_000, blank=True)
    created_at = AwareDateTimeField(auto_now_add=True)
    used_at = AwareDateTimeField(null=True)
    retired_at = AwareDateTimeField(null=True)

    class Meta:
        # No permissions: no page shows or changes these rows.
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.upstream} at {self.issuer}"


class UserConnection(models.Model):
    """A user's account at an upstream server. ``sealed`` has the encrypted tokens.

    ``key`` is a new random text after each login, and sessions at the server belong to it. ``scope`` has the
    granted scopes, ``asked`` those of the last login, and ``needed`` further scopes that the server requires:
    the next login asks for them. ``problem`` is the reason why the user has to connect again.
    ``renewing_until`` is the lease of the process that renews the tokens.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mcp_user_connections"
    )
    upstream = models.ForeignKey(Upstream, on_delete=models.CASCADE, related_name="connections")
    client = models.ForeignKey(UpstreamClient, on_delete=models.CASCADE, related_name="connections")
    resource = models.CharField(max_length=2_000)
    key = models.CharField(max_length=32)
    sealed = models.TextField(blank=True)
    scope = models.TextField(blank=True)
    asked = models.TextField(blank=True, db_default="")
    needed = models.TextField(blank=True, db_default="")
    can_renew = models.BooleanField(default=False)
    problem = models.CharField(max_length=300, blank=True)
    connected_at = AwareDateTimeField()
    renewed_at = AwareDateTimeField()
    expires_at = AwareDateTimeField(null=True)
    last_used_at = AwareDateTimeField(null=True)
    renewing_until = AwareDateTimeField(null=True)

    class Meta:
        verbose_name = "user connection"
        ordering: ClassVar[Any] = ["-connected_at"]
        # Connections are made by their users only. To change one is to end it, as for sessions.
        default_permissions = ("view", "change", "delete")
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["user", "upstream"], name="mcp_app_account_of_user_is_one")
        ]

    def __str__(self) -> str:
        return f"{self.user} at {self.upstream}"
