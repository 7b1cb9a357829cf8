"""The availability of other servers in this process: a breaker for each, without storage.

After FAILURES outages in a row, requests are refused for a time that doubles with every further outage. Then
one request is let through. A refused credential, an error of the protocol or of a tool is not an outage.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from mcp_app.protocol.client.faults import OUTAGES, Kind, UpstreamFault

FAILURES: Final = 5
FIRST_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 60.0


@dataclass(slots=True)
class Breaker:
    """The outages of one server in a row. ``until`` is the time of the next attempt."""

    outages: int = 0
    until: float = 0.0
    delay: float = 0.0
    is_probing: bool = False

    def admit(self, now: float | None = None) -> None:
        """Raise UpstreamFault while the server counts as unavailable."""
        if self.outages < FAILURES:
            return
        left = self.until - (time.monotonic() if now is None else now)
        if left <= 0 and not self.is_probing:
            self.is_probing = True
            return
        wait = max(1, round(left))
        text = f"has not answered {self.outages} times in a row. The next attempt is in {wait} seconds."
        raise UpstreamFault(Kind.UNREACHABLE, text, sent=False)

    def record(self, fault: UpstreamFault | None, now: float | None = None) -> None:
        """Record the end of a request: an outage, or any answer."""
        self.is_probing = False
        if fault is None or fault.kind not in OUTAGES:
            self.outages, self.delay = 0, 0.0
            return
        self.outages += 1
        if self.outages >= FAILURES:
            self.delay = min(self.delay * 2, LONGEST_SECONDS) if self.delay else FIRST_SECONDS
            self.until = (time.monotonic() if now is None else now) + self.delay

    def release(self) -> None:
        """Let another request try, because this one was cancelled."""
        self.is_probing = False
