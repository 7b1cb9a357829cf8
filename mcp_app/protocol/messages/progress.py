"""Which progress reports of a call are worth sending, and which tokens name a call; it has no clock."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.jsonrpc import MAX_SAFE_INTEGER

Token = str | int

# A token is repeated in every notification, so a long one multiplies.
MAX_TOKEN: Final = 1024
# Progress must rise also while a call only waits: a billionth a second, far below what tools report.
WAITING_STEP: Final = 1e-9
WAITING_MOST: Final = 1e-3


def check_progress_token(token: object) -> Token:
    """The token as it came, of the same type. Raises InvalidParams: no string or integer (META-11)."""
    if isinstance(token, str) and len(token) <= MAX_TOKEN:
        return token
    if type(token) is int and -MAX_SAFE_INTEGER <= token <= MAX_SAFE_INTEGER:
        return token
    raise InvalidParams(
        f"'_meta.progressToken' must be an integer or a string of at most {MAX_TOKEN} characters."
    )


def waiting_progress(seconds: float) -> float:
    """What stands as progress in a notice that a call has waited so long and not begun."""
    return min(round((1 + seconds) * WAITING_STEP, 12), WAITING_MOST)


def only_waits(progress: float) -> bool:
    """Whether a number is one of ``waiting_progress`` and says nothing about work."""
    return 0 < progress <= WAITING_MOST


class ProgressGate:
    """Lets strictly increasing progress through, not too often, and holds back the newest of the rest.

    A few reports may follow each other closely; only a tool that goes on like that is slowed down.
    """

    def __init__(self, min_interval: float, burst: int = 10, above: float | None = None) -> None:
        """``min_interval`` is the mean time between notifications, in the unit of ``now`` below.

        ``above`` is what was reported before: nothing smaller is let through (PROG-02).
        """
        self._min_interval = min_interval
        self._burst = burst
        self._free = float(burst)
        self._counted_at: float | None = None
        self._greatest = above
        self._has_waited = above is not None and only_waits(above)
        self._held: dict[str, Any] | None = None

    def offer(
        self, progress: float, total: float | None, message: str | None, now: float
    ) -> dict[str, Any] | None:
        """The params to send now, without token, or None when there is nothing to send (PROG-02, PROG-04).

        Raises ValueError for a number that has no place on the wire (not finite, or a bool).
        """
        check_progress(progress, total)
        if self._has_waited and progress == 0 and self._greatest is not None:
            # The first word of a tool whose call waited before: not to be lost for a billionth.
            progress = self._greatest + WAITING_STEP
        self._has_waited = False
        if self._greatest is not None and progress <= self._greatest:
            return None
        self._greatest = progress
        self._held = _params(progress, total, message)
        if self._min_interval and not self._admits(now):
            return None
        return self.flush(now)

    def _admits(self, now: float) -> bool:
        earned = 0.0 if self._counted_at is None else (now - self._counted_at) / self._min_interval
        self._counted_at = now
        self._free = min(self._burst, self._free + earned)
        return self._free >= 1

    @property
    def held(self) -> bool:
        """Whether a report is held back and must be flushed later."""
        return self._held is not None

    def flush(self, now: float | None = None) -> dict[str, Any] | None:
        """The report held back last, if any: call it before the answer, so that the last one arrives."""
        held, self._held = self._held, None
        if held is not None and now is not None:
            self._free -= 1
        return held


def check_progress(progress: float, total: float | None) -> None:
    """Raises ValueError for a number that has no place on the wire (not finite, or a bool)."""
    _check_number("progress", progress)
    if total is not None:
        _check_number("total", total)


def _params(progress: float, total: float | None, message: str | None) -> dict[str, Any]:
    params: dict[str, Any] = {"progress": progress}
    if total is not None:
        params["total"] = total
    if message is not None:
        params["message"] = message
    return params


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}.")
