"""The availability of other servers in this process: a breaker for each, without storage.

After FAILURES outages in a row, requests are refused for a time that doubles with every further outage. Then
one request is let through. A refused credential, an error of the protocol or of a tool is not an outage.

Calls of one person that take too long count once in a row, so that a slow tool or a short timeout of one
person never stops the calls of others.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from mcp_app.protocol.client.faults import OUTAGES, Kind, UpstreamFault

FAILURES: Final = 5
FIRST_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 60.0


@dataclass(slots=True)
class Breaker:
    """The outages of one server in a row. ``until`` is the time of the next attempt.

    ``slow`` are the persons whose timeouts are counted.
    """

    outages: int = 0
    until: float = 0.0
    delay: float = 0.0
    slow: set[str] = field(default_factory=set)

    def admit(self, now: float | None = None) -> bool:
        """Raise UpstreamFault while the server counts as unavailable. Return True for an attempt."""
        if self.outages < FAILURES:
            return False
        now = time.monotonic() if now is None else now
        left = self.until - now
        if left <= 0:
            # A call may take long, so the next attempt does not wait for its end.
            self.until = now + max(self.delay, FIRST_SECONDS)
            return True
        wait = max(1, round(left))
        text = f"has not answered {self.outages} times in a row. The next attempt is in {wait} seconds."
        raise UpstreamFault(Kind.UNREACHABLE, text, sent=False)

    def record(self, fault: UpstreamFault | None, now: float | None = None, *, person: str = "") -> None:
        """Record the end of a request: an outage, or any answer.

        ``person`` made the request. Requests of this installation, such as those for lists, have none.
        """
        if fault is None or fault.kind not in OUTAGES:
            self.outages, self.delay = 0, 0.0
            self.slow.clear()
            return
        if fault.kind is Kind.TIMEOUT and person:
            if person in self.slow and self.outages < FAILURES:
                return
            self.slow.add(person)
        self.outages += 1
        if self.outages >= FAILURES:
            self.delay = min(self.delay * 2, LONGEST_SECONDS) if self.delay else FIRST_SECONDS
            self.until = (time.monotonic() if now is None else now) + self.delay

    def release(self) -> None:
        """Let another request try, because the attempt was cancelled."""
        self.until = 0.0
