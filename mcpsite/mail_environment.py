"""Environment variables for mail and notifications. This module does not import Django."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

REMEDIES = {
    "EMAIL_URL": "smtp://user:password@host:587 (with STARTTLS) or smtps://user:password@host:465",
    "EMAIL_FROM": "the address that mails come from, for example mcp@example.com",
    "NOTIFY_ARGUMENTS": "on or off",
}
SECONDS: Final = 10
_PORTS: Final = {"smtp": 587, "smtps": 465}


class MailEnvironment(BaseSettings):
    """The mail server and the content of notifications."""

    email_url: str = Field("", repr=False)
    email_from: str = ""
    notify_arguments: bool = False

    @field_validator("email_url")
    @classmethod
    def _server(cls, value: str) -> str:
        if not value:
            return value
        try:
            parts = urlsplit(value)
            named = bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            named = False
        if not named or parts.scheme not in _PORTS or parts.path.strip("/") or parts.query:
            # The value is not shown, because it contains a password.
            raise ValueError("is not the address of a mail server")
        return value

    @property
    def in_mail_settings(self) -> dict[str, Any]:
        """Django's mail settings, or {} without a mail server."""
        if not self.email_url:
            return {}
        parts = urlsplit(self.email_url)
        host = parts.hostname or ""
        local = host in ("localhost", "127.0.0.1", "::1")
        return {
            "EMAIL_HOST": host,
            "EMAIL_PORT": parts.port or _PORTS[parts.scheme],
            "EMAIL_HOST_USER": unquote(parts.username or ""),
            "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
            "EMAIL_USE_SSL": parts.scheme == "smtps",
            # Mail is sent without encryption only to a server on this machine.
            "EMAIL_USE_TLS": parts.scheme == "smtp" and not local,
            "EMAIL_TIMEOUT": SECONDS,
            **({"DEFAULT_FROM_EMAIL": self.email_from} if self.email_from else {}),
        }
