"""How often each key did something in its current window, and which addresses are one key.

Bounded; the clock is the caller's.
"""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address
from typing import Final

KEYS: Final = 10_000


class RateWindow:
    """Counts in windows, each begun by a key's first hit; of too many keys the oldest go."""

    __slots__ = ("_keys", "_windows")

    def __init__(self, keys: int = KEYS) -> None:
        self._keys = keys
        self._windows: dict[str, tuple[float, int]] = {}

    def hit(self, key: str, now: float, seconds: float = 60.0) -> tuple[int, float]:
        """Count once more; returns how often now, and in how many seconds counting begins anew."""
        until, count = self._windows.get(key, (0.0, 0))
        if until <= now:
            # To the end of the order, so that those that are forgotten first are the oldest.
            self._windows.pop(key, None)
            until, count = now + seconds, 0
            if len(self._windows) >= self._keys:
                del self._windows[next(iter(self._windows))]
        self._windows[key] = until, count + 1
        return count + 1, until - now


def client_network(address: str) -> str:
    """The clients that are counted together: of IPv6 a /64, because one client has all addresses of that."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, IPv4Address):
        return address
    return str(found.ipv4_mapped or f"{ip_address(int(found) >> 64 << 64)}/64")
