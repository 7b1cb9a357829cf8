"""Credentials for other servers. The secret is stored encrypted and never shown."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from mcp_app.database import clock
from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.models.edited import EditedRow


class Credential(EditedRow):
    """A secret that tools send to other servers. ``sealed`` is the encrypted secret.

    ``origins`` lists the only servers that receive it. ``placement`` is the place of an API key in a request.
    """

    class Kind(models.TextChoices):
        """The way in which a credential authenticates requests."""

        BEARER = "bearer", "bearer token"
        BASIC = "basic", "user name and password"
        API_KEY = "api_key", "API key"
        HEADERS = "headers", "headers"
        CLIENT_CREDENTIALS = "client_credentials", "OAuth client credentials"
        OAUTH_CLIENT = "oauth_client", "OAuth client of user connections"
        TOKEN_EXCHANGE = "token_exchange", "OAuth token exchange"

    name = models.CharField(
        max_length=64,
        unique=True,
        help_text="Lower-case letters, digits, - and _. Tools and upstream servers refer to this name.",
    )
    kind = models.CharField(max_length=20, choices=Kind.choices)
    sealed = models.TextField(editable=False)
    origins = models.JSONField(
        default=list, help_text="The only servers that receive the secret, such as https://api.example.com."
    )
    token_url = models.CharField(
        "token URL", max_length=500, blank=True, help_text="https://login.example.com/oauth/token"
    )
    scopes = models.CharField(max_length=500, blank=True, help_text="Separated by spaces.")
    resource = models.CharField(
        max_length=500, blank=True, help_text="The resource parameter of token requests (RFC 8707)."
    )
    audience = models.CharField(
        max_length=500, blank=True, help_text="The audience parameter, for servers that require it."
    )
    placement = models.JSONField(default=dict, blank=True)
    expires_at = AwareDateTimeField("expires", null=True, blank=True, help_text="Empty: never.")
    last_used_at = AwareDateTimeField(null=True, blank=True, editable=False)
    last_error = models.CharField(max_length=300, blank=True, editable=False)
    last_error_at = AwareDateTimeField(null=True, blank=True, editable=False)
    rotated_at = AwareDateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering: ClassVar[Any] = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_expired(self) -> bool:
        """True after the expiry."""
        return self.expires_at is not None and self.expires_at <= clock.utcnow()

    @property
    def origin_list(self) -> str:
        """The servers that receive the secret, as text."""
        return ", ".join(self.origins)
