"""An independent authenticator app."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time


class App:
    """RFC 6238 with its defaults."""

    def __init__(self, secret: str) -> None:
        self._key = base64.b32decode(secret)

    def code(self, steps: int = 0, *, at: float | None = None) -> str:
        """Return the current code, or one of a later step."""
        step = int((time.time() if at is None else at) // 30) + steps
        found = hmac.digest(self._key, step.to_bytes(8), hashlib.sha1)
        place = found[-1] & 15
        return f"{(int.from_bytes(found[place : place + 4]) & 0x7FFFFFFF) % 10**6:06}"

    def wrong(self) -> str:
        """Return a code that is not valid now."""
        near = {self.code(steps) for steps in range(-2, 4)}
        return next(code for code in map("{:06}".format, range(10)) if code not in near)
