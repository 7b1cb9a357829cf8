"""Tokens with which callers logged in at the identity provider, sealed until their exchange (RFC 8693).

Each token is sealed together with the key of its principal. Caches and Redis contain sealed tokens only.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson

from mcp_app import conf
from mcp_app.credentials.exchange import Subject
from mcp_app.sealing import Unsealed, key_ring
from mcp_app.streams.blocking import shared_values

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

# Tokens of background calls are stored until they expire, but no longer than this.
STORED_SECONDS: Final = 3_600.0
_SEALED_FOR: Final = "caller-token"


def sealed(token: str, principal: str, ends: float) -> str:
    """Encrypt the verified token of a principal. ``ends`` is its expiry in seconds since the epoch."""
    return key_ring(conf.get(), _SEALED_FOR).seal(orjson.dumps([principal, token, ends]))


def opened(text: str, principal: str) -> Subject | None:
    """Decrypt the token of a principal. Return None if it belongs to another principal or has another key."""
    try:
        owner, token, ends = orjson.loads(key_ring(conf.get(), _SEALED_FOR).open(text))
    except Unsealed:
        return None
    return Subject(token, ends) if owner == principal else None


def opener(text: str, principal: str) -> Callable[[], Subject | None]:
    """Return a function that decrypts the token when it is needed."""
    return partial(opened, text, principal)


def store(call_id: UUID, text: str, principal: str) -> None:
    """Store the sealed token of a background call in Redis, for the worker."""
    subject = opened(text, principal)
    left = min(subject.ends - time.time(), STORED_SECONDS) if subject is not None else 0.0
    if left > 0:
        shared_values.put(_name(str(call_id)), text.encode(), left)


def of_call(call_id: str) -> str:
    """Return the sealed token of a background call, or "" if none is stored."""
    found = shared_values.get(_name(call_id))
    return "" if found is None else found.decode()


def _name(call_id: str) -> str:
    return f"caller-token/{call_id}"
