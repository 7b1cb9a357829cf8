"""Makes tokens and codes, and says what of them is stored: a hash, or what only the token itself opens."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import asdict, dataclass
from typing import Final

import orjson

from mcp_app.execution.questions.sealing import KeyRing, Unsealed

ACCESS: Final = "mcpat_"
REFRESH: Final = "mcprt_"
CODE: Final = "mcpac_"
SECRET: Final = "mcpcs_"  # noqa: S105 - how a client's secret begins
_SEALED_FOR: Final = "mcp_oauth.refresh"


def new(prefix: str) -> str:
    """256 random bits; the prefix identifies it to tools that scan files and logs for secrets."""
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """What is stored and searched for. With 256 random bits one fast hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True)
class Pair:
    """What one refresh gave; ``ends`` is when the access token does, in seconds since the epoch."""

    access: str
    refresh: str
    scope: str
    ends: float


def seal(pair: Pair, by: str) -> str:
    """The pair as only the holder of the refresh token ``by`` can read it."""
    return KeyRing((by,), _SEALED_FOR).seal(orjson.dumps(asdict(pair)))


def unseal(sealed: str, by: str) -> Pair | None:
    """The pair again, None when ``by`` did not seal it."""
    try:
        return Pair(**orjson.loads(KeyRing((by,), _SEALED_FOR).open(sealed)))
    except Unsealed:
        return None
