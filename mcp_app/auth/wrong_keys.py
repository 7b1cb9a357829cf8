"""A limit for wrong API keys.

A network address that sends too many wrong keys gets 429 responses for wrong keys. Valid keys always work.
Each process counts separately. API keys cannot be guessed, so the limit protects the database and the log,
for example from clients that repeat a revoked key.
"""

from __future__ import annotations

import logging
import time
from hashlib import sha256

from mcp_app.protocol.errors import TooManyRequests
from mcp_app.protocol.rate_window import RateWindow, client_network

TOO_MANY = "Too many wrong API keys from your address: wait before you try another one."
# Above the limit, a wrong key is not looked up again for this many seconds.
REMEMBERED_SECONDS = 10.0
REMEMBERED = 1_000

log = logging.getLogger("mcp.auth")


class WrongKeys:
    """Recent wrong keys by network address. ``per_minute`` is the limit. 0 means no limit."""

    __slots__ = ("_per_minute", "_tally", "_until")

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._tally = RateWindow()
        self._until: dict[bytes, float] = {}

    def repeated(self, authorization: bytes, address: str) -> bool:
        """Return True if the key is already known to be wrong and needs no look-up.

        Keys are remembered only for addresses above the limit.
        """
        until = self._until.get(_digest(authorization, address)) if self._until else None
        return until is not None and time.monotonic() < until

    def count(self, authorization: bytes, address: str) -> None:
        """Count a wrong key. Raises TooManyRequests if the address is above the limit.

        Nothing is counted if the address is unknown.
        """
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
        """Discard the remembered keys.

        Called after a credential changed, because a wrong key may be valid now.
        """
        self._until.clear()


def _digest(authorization: bytes, address: str) -> bytes:
    """Return a digest of the key, under which it is remembered.

    A digest is used because the key may be valid elsewhere, and memory may be written to disk.
    """
    return sha256(b"%b\0%b" % (address.encode(), authorization)).digest()
