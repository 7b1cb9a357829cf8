"""What the clients of a chaos run received: a list of facts with times, in order of arrival."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """One fact about the call ``nonce``.

    ``kind``: posted, accepted, message (with ``run`` and ``number`` of the tool), progress, answer,
    error, refused, cut, closed (by the server before the answer),
    cancel. ``about`` is the nonce a message itself names. ``at`` is monotonic seconds.
    """

    nonce: str
    kind: str
    at: float
    about: str = ""
    run: str = ""
    number: float = 0
    event_id: str = ""
    text: str = ""


@dataclass
class History:
    """A list of facts filled by many threads."""

    seen: list[Seen] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, nonce: str, kind: str, **more: object) -> None:
        with self._lock:
            self.seen.append(Seen(nonce, kind, time.monotonic(), **more))  # type: ignore[arg-type]

    def of(self, nonce: str, *kinds: str) -> list[Seen]:
        """Return the facts of one call, optionally of some kinds only."""
        with self._lock:
            return [each for each in self.seen if each.nonce == nonce and (not kinds or each.kind in kinds)]

    def count(self, kind: str) -> int:
        with self._lock:
            return sum(each.kind == kind for each in self.seen)

    @property
    def nonces(self) -> list[str]:
        with self._lock:
            return list(dict.fromkeys(each.nonce for each in self.seen))
