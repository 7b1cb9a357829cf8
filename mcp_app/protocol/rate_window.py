"""Rate limit windows by key, and the grouping of client addresses into networks.

The number of keys is limited. The caller passes the current time.
"""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address
from typing import Final

KEYS: Final = 10_000


class RateWindow:
    """Counters in windows that start with a key's first hit.

    If there are too many keys, the oldest are dropped.
    """

    __slots__ = ("_keys", "_windows")

    def __init__(self, keys: int = KEYS) -> None:
        self._keys = keys
        self._windows: dict[str, tuple[float, int]] = {}

    def hit(self, key: str, now: float, seconds: float = 60.0) -> tuple[int, float]:
        """Count a hit. Return the count in this window and the seconds until the window ends."""
        until, count = self._windows.get(key, (0.0, 0))
        if until <= now:
            # Inserted at the end, so that the keys with the oldest windows are dropped first.
            self._windows.pop(key, None)
            until, count = now + seconds, 0
            if len(self._windows) >= self._keys:
                del self._windows[next(iter(self._windows))]
        self._windows[key] = until, count + 1
        return count + 1, until - now


def client_network(address: str) -> str:
    """Return the network that counts as one client: an IPv4 address, or the /64 of an IPv6 address.

    One client may use every address of its /64.
    """
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, IPv4Address):
        return address
    return str(found.ipv4_mapped or f"{ip_address(int(found) >> 64 << 64)}/64")
