"""What the library asks its project: how secrets lie in the database, and what an app is told."""

from __future__ import annotations

from typing import Any

from allauth.mfa.adapter import DefaultMFAAdapter

from mcp_app import conf
from mcp_app.auth.public_paths import former_names
from mcp_app.execution.questions.sealing import key_ring

_PURPOSE = "second factor"


class FactorAdapter(DefaultMFAAdapter):
    """Secrets are sealed by the secrets of this installation: a copy of the database has no code in it."""

    def encrypt(self, text: str) -> str:
        """What is stored."""
        return key_ring(conf.get(), _PURPOSE).seal(text.encode())

    def decrypt(self, encrypted_text: str) -> str:
        """What was meant; raises Unsealed."""
        return key_ring(conf.get(), _PURPOSE).open(encrypted_text).decode()

    def get_totp_label(self, user: Any) -> str:
        """Whose code it is, in the app."""
        return str(user.get_username())

    def get_totp_issuer(self) -> str:
        """Where it is for, in the app."""
        return conf.get().server.label


__getattr__ = former_names(__name__)
