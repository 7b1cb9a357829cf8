"""Limits the guessing of API keys: after some wrong ones an address gets 429; valid keys always work.

Counted in each process by itself. Keys are too long to be found by guessing: the bound is there for the
database, for the log, and for clients that go on with a key that was revoked.
"""

from __future__ import annotations

import logging
import time
from hashlib import sha256

from mcp_app.protocol.errors import TooManyRequests
from mcp_app.protocol.rate_window import RateWindow, client_network

TOO_MANY = "Too many wrong API keys from your address: wait before you try another one."
# A key that was wrong a moment ago is not looked up again; after this it may have become right.
REMEMBERED_SECONDS = 10.0
REMEMBERED = 1_000

log = logging.getLogger("mcp.auth")


class WrongKeys:
    """What wrong keys came from which address lately; ``per_minute`` of 0 is no limit."""

    __slots__ = ("_per_minute", "_tally", "_until")

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._tally = RateWindow()
        self._until: dict[bytes, float] = {}

    def repeated(self, authorization: bytes, address: str) -> bool:
        """Whether an address that tried too many tries the same one again: it need not be looked up."""
        until = self._until.get(_digest(authorization, address)) if self._until else None
        return until is not None and time.monotonic() < until

    def count(self, authorization: bytes, address: str) -> None:
        """A key was wrong; raises TooManyRequests when too many were. Without an address none is counted."""
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
        """Keys changed: what was wrong may be right now."""
        self._until.clear()


def _digest(authorization: bytes, address: str) -> bytes:
    """Not the key itself: it may be right elsewhere, and memory is written to disk when a process dies."""
    return sha256(b"%b\0%b" % (address.encode(), authorization)).digest()
