"""How often each key did something in its current window; bounded, and the clock is the caller's."""

from __future__ import annotations

from typing import Final

KEYS: Final = 10_000


class RateWindow:
    """Counts in windows of ``seconds``, each begun by a key's first hit; of too many keys the oldest go."""

    __slots__ = ("_keys", "_seconds", "_windows")

    def __init__(self, seconds: float = 60.0, keys: int = KEYS) -> None:
        self._seconds = seconds
        self._keys = keys
        self._windows: dict[str, tuple[float, int]] = {}

    def hit(self, key: str, now: float) -> tuple[int, float]:
        """Count once more; returns how often now, and in how many seconds counting begins anew."""
        until, count = self._windows.get(key, (0.0, 0))
        if until <= now:
            # To the end of the order, so that those that are forgotten first are the oldest.
            self._windows.pop(key, None)
            until, count = now + self._seconds, 0
            if len(self._windows) >= self._keys:
                del self._windows[next(iter(self._windows))]
        self._windows[key] = until, count + 1
        return count + 1, until - now
