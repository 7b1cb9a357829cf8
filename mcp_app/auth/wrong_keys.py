"""A limit for wrong API keys: after some, an address gets 429. Valid keys always work.

Each process counts separately. API keys cannot be guessed: the limit protects the database and the log,
also from clients that repeat a revoked key.
"""

from __future__ import annotations

import logging
import time
from hashlib import sha256

from mcp_app.protocol.errors import TooManyRequests
from mcp_app.protocol.rate_window import RateWindow, client_network

TOO_MANY = "Too many wrong API keys from your address: wait before you try another one."
# A wrong key is not looked up again for this long.
REMEMBERED_SECONDS = 10.0
REMEMBERED = 1_000

log = logging.getLogger("mcp.auth")


class WrongKeys:
    """Recent wrong keys by address; ``per_minute`` of 0 means no limit."""

    __slots__ = ("_per_minute", "_tally", "_until")

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._tally = RateWindow()
        self._until: dict[bytes, float] = {}

    def repeated(self, authorization: bytes, address: str) -> bool:
        """Return True if an address over the limit repeats the same key, so that no look-up is needed."""
        until = self._until.get(_digest(authorization, address)) if self._until else None
        return until is not None and time.monotonic() < until

    def count(self, authorization: bytes, address: str) -> None:
        """Count a wrong key. Raises TooManyRequests over the limit. Without an address nothing is counted."""
        if not self._per_minute or not address:
            return
        now = time.monotonic()
        number, rest = self._tally.hit(client_network(address), now)
        if number <= self._per_minute:
            return
        if number == self._per_minute + 1:
            log.warning("More than %d wrong API keys in a minute from %s", self._per_minute, address)
        if len(self._until) >= REMEMBERED:
            self._until.clear()
        self._until[_digest(authorization, address)] = now + REMEMBERED_SECONDS
        raise TooManyRequests(TOO_MANY, retry_after=rest)

    def forget(self) -> None:
        """Discard remembered keys: after a change, a wrong key may be valid."""
        self._until.clear()


def _digest(authorization: bytes, address: str) -> bytes:
    """Return a digest, since the key may be valid elsewhere and memory can be written to disk."""
    return sha256(b"%b\0%b" % (address.encode(), authorization)).digest()
