"""A clock that is CLOCK_OFF seconds off in processes with this folder on the import path.

This affects wall-clock time in Python, but not C libraries or monotonic time.
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
    """A datetime class that creates true datetimes only, so that C libraries accept them."""

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
