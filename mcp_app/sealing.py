"""Sealed tokens: values that a client stores for the server but can neither read nor change.

Tokens are encrypted with AES-256-GCM. The keys are derived with HKDF-SHA-256 from a ring of secrets. The
first secret seals new tokens, and every secret can open tokens. To replace a secret, put the new one first.
A token contains the version of this format and the name of its key, and is authenticated together with
both::

    v1.<8 hex digits: the key>.<base64url: 12 bytes nonce, ciphertext, 16 bytes tag>
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.conf import settings as django_settings

from mcp_app.conf import Settings

VERSION = "v1"
_NONCE_BYTES = 12


class Unsealed(Exception):
    """Raised if a token cannot be opened. The text is for the log and must not be sent to the client."""


class KeyRing:
    """The keys derived from a ring of secrets.

    Processes with the same secrets can open each other's tokens.
    """

    __slots__ = ("_first", "_keys")

    def __init__(self, ring: Sequence[str], purpose: str) -> None:
        """Derive the keys for one purpose.

        ``ring`` starts with the secret that seals. Its older secrets only open.
        """
        derived = [_derive(secret, purpose) for secret in ring]
        self._keys = {_name(key): _cipher(key) for key in reversed(derived)}
        self._first = _name(derived[0])

    def seal(self, payload: bytes) -> str:
        """Return a token for ``payload``. No two tokens are equal."""
        head = f"{VERSION}.{self._first}"
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._keys[self._first].encrypt(nonce, payload, head.encode())
        return f"{head}.{_text(sealed)}"

    def open(self, token: str) -> bytes:
        """Return the payload of a token. Raise Unsealed if it was not sealed with one of these keys."""
        version, _, rest = token.partition(".")
        name, _, text = rest.partition(".")
        if version != VERSION:
            raise Unsealed("it is no token of this version")
        cipher = self._keys.get(name)
        if cipher is None:
            raise Unsealed("its key is not known, or no longer")
        return _opened(cipher, _bytes(text), f"{version}.{name}".encode())


def key_ring(settings: Settings, purpose: str) -> KeyRing:
    """Return the installation's key ring from ``MCP["STATE_KEYS"]`` or Django's secrets (STATE-03)."""
    return _ring(_secrets(settings), purpose)


def token(settings: Settings, purpose: str) -> str:
    """Return a secret that only the processes of this installation know."""
    return _derive(_secrets(settings)[0], purpose).hex()


def _secrets(settings: Settings) -> tuple[str, ...]:
    fallbacks = getattr(django_settings, "SECRET_KEY_FALLBACKS", ())
    return settings.state_keys or (django_settings.SECRET_KEY, *fallbacks)


@lru_cache(maxsize=8)
def _ring(ring: tuple[str, ...], purpose: str) -> KeyRing:
    return KeyRing(ring, purpose)


# The imports are inside the functions, because most processes that load this module never seal a token.
def _derive(secret: str, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    # Use no salt, because every process must derive the same key and there is no place to store a salt.
    derivation = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"mcp {purpose} {VERSION}".encode())
    return derivation.derive(secret.encode())


def _cipher(key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _opened(cipher: Any, sealed: bytes, head: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        opened: bytes = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], head)
    except (InvalidTag, ValueError) as error:
        raise Unsealed("it was changed") from error
    return opened


def _name(key: bytes) -> str:
    return hashlib.sha256(b"name of " + key).hexdigest()[:8]


def _text(sealed: bytes) -> str:
    return urlsafe_b64encode(sealed).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        found = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError as error:
        raise Unsealed("it is cut or no base64") from error
    # The decoder skips characters that are not base64. Reject them, so that each token has only one
    # spelling.
    if _text(found) != text:
        raise Unsealed("it is no base64 that we write")
    if len(found) <= _NONCE_BYTES:
        raise Unsealed("it is too short")
    return found
