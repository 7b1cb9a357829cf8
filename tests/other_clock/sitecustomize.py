"""Python imports this when this folder is on its path: the process's clock is then CLOCK_OFF seconds off.

Of all that Python says, not of what libraries in C ask the system; monotonic time goes on as it is.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from typing import Any

_OFF = float(os.environ.get("CLOCK_OFF", "0"))
_TRUE_TIME, _TRUE_TIME_NS, _TRUE = time.time, time.time_ns, dt.datetime


class _Any(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _TRUE)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _TRUE)


class _Off(_TRUE, metaclass=_Any):  # type: ignore[misc,valid-type]
    """Makes true datetimes only, so that libraries in C take them."""

    def __new__(cls, *args: Any, **keywords: Any) -> Any:
        return _TRUE(*args, **keywords)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return _TRUE.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now(dt.UTC).replace(tzinfo=None)


if _OFF:
    time.time = lambda: _TRUE_TIME() + _OFF
    time.time_ns = lambda: _TRUE_TIME_NS() + int(_OFF * 1e9)
    dt.datetime = _Off  # type: ignore[misc]
