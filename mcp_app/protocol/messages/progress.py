"""Progress of a call: which reports to send, and checks of tokens and numbers."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.jsonrpc import MAX_SAFE_INTEGER

Token = str | int

# Limited, because every notification repeats the token.
MAX_TOKEN: Final = 1024
# Progress must rise even while a call waits. It rises by a billionth per second, so that it stays far below
# the values that tools report.
WAITING_STEP: Final = 1e-9
WAITING_MOST: Final = 1e-3


def check_progress_token(token: object) -> Token:
    """Return the token unchanged. Raise InvalidParams if it is not a string or integer (META-11)."""
    if isinstance(token, str) and len(token) <= MAX_TOKEN:
        return token
    if type(token) is int and -MAX_SAFE_INTEGER <= token <= MAX_SAFE_INTEGER:
        return token
    raise InvalidParams(
        f"'_meta.progressToken' must be an integer or a string of at most {MAX_TOKEN} characters."
    )


def waiting_progress(seconds: float) -> float:
    """Return the progress to send when a call has waited for ``seconds`` without starting."""
    return min(round((1 + seconds) * WAITING_STEP, 12), WAITING_MOST)


def only_waits(progress: float) -> bool:
    """Return True if a value comes from ``waiting_progress`` and not from a tool."""
    return 0 < progress <= WAITING_MOST


class ProgressGate:
    """A rate limit for progress reports, which also drops values that do not increase.

    It holds one report back. A short burst of reports passes at once. Only continuous reporting is slowed
    down.
    """

    def __init__(self, min_interval: float, burst: int = 10, above: float | None = None) -> None:
        """Set the mean interval between notifications, in the unit of ``now``, and the size of a burst.

        ``above`` is the last progress that was already reported. Values up to it are dropped (PROG-02).
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
        """Return the params to send now, without the token, or None to send nothing (PROG-02, PROG-04).

        Raise ValueError for a bool or a number that is not finite.
        """
        check_progress(progress, total)
        if self._has_waited and progress == 0 and self._greatest is not None:
            # The tool's first report must not be dropped because the waiting call has already reported a
            # billionth.
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
        """True if a report is held back and must be flushed later."""
        return self._held is not None

    def flush(self, now: float | None = None) -> dict[str, Any] | None:
        """Return the report that is held back, or None.

        Call this before the answer, so that the last report arrives.
        """
        held, self._held = self._held, None
        if held is not None and now is not None:
            self._free -= 1
        return held


def check_progress(progress: float, total: float | None) -> None:
    """Raise ValueError for a bool or a number that is not finite."""
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
