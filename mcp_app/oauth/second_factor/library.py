"""The hooks of the second-factor library: encryption of secrets, and labels in the authenticator app."""

from __future__ import annotations

from typing import Any

from allauth.mfa.adapter import DefaultMFAAdapter

from mcp_app import conf
from mcp_app.auth.public_paths import former_names
from mcp_app.sealing import key_ring

_PURPOSE = "second factor"


class FactorAdapter(DefaultMFAAdapter):
    """The library's adapter.

    Secrets are stored encrypted, so a copy of the database contains no usable secret.
    """

    def encrypt(self, text: str) -> str:
        """Encrypt a secret for storage."""
        return key_ring(conf.get(), _PURPOSE).seal(text.encode())

    def decrypt(self, encrypted_text: str) -> str:
        """Decrypt a stored secret. Raises Unsealed."""
        return key_ring(conf.get(), _PURPOSE).open(encrypted_text).decode()

    def get_totp_label(self, user: Any) -> str:
        """Return the account name that the authenticator app shows."""
        return str(user.get_username())

    def get_totp_issuer(self) -> str:
        """Return the server name that the authenticator app shows."""
        return conf.get().server.label


__getattr__ = former_names(__name__)
