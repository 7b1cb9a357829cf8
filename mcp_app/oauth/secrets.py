"""Generation, hashing and sealing of tokens and codes."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import asdict, dataclass
from typing import Final

import orjson

from mcp_app.sealing import KeyRing, Unsealed

ACCESS: Final = "mcpat_"
REFRESH: Final = "mcprt_"
CODE: Final = "mcpac_"
SECRET: Final = "mcpcs_"  # noqa: S105 - the prefix of a client's secret
_SEALED_FOR: Final = "mcp_oauth.refresh"


def new(prefix: str) -> str:
    """Return ``prefix`` followed by 256 random bits. Secret scanners recognize tokens by the prefix."""
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """Return the hash under which a token is stored and looked up.

    One fast hash is enough for 256 random bits.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair of tokens. ``ends`` is the expiry of the access token, in seconds since the epoch."""

    access: str
    refresh: str
    scope: str
    ends: float


def seal(pair: Pair, by: str) -> str:
    """Encrypt a pair of tokens. The refresh token ``by`` is the key."""
    return KeyRing((by,), _SEALED_FOR).seal(orjson.dumps(asdict(pair)))


def unseal(sealed: str, by: str) -> Pair | None:
    """Decrypt a pair of tokens. Return None if ``by`` is not the refresh token that encrypted it."""
    try:
        return Pair(**orjson.loads(KeyRing((by,), _SEALED_FOR).open(sealed)))
    except Unsealed:
        return None
