"""Parsing of times in a search: a duration before now, a day, a time of day, or a date with a time.

Times without a zone are in the current time zone of the page (``timezone.get_current_timezone``).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from django.utils import timezone

from mcp_app.database import clock as database_clock

_AGO: Final = re.compile(r"([0-9]{1,6})(s|m|h|d|w)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_OF_DAY: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DAYS: Final = {"today": 0, "yesterday": 1}
_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?"
)
_ZONE: Final = re.compile(r"(?:Z|[+-][0-9]{2}:?[0-9]{2})\Z", re.IGNORECASE)
_DAY, _MINUTE, _SECOND = timedelta(days=1), timedelta(minutes=1), timedelta(seconds=1)
_LAST: Final = timedelta(microseconds=1)


class NotATime(ValueError):
    """Raised for a text that is not a time."""


def begin_of(text: str) -> datetime:
    """Return the time in a text.

    For a day, a minute or a second, its first moment is returned. Raises NotATime.
    """
    return _read(text)[0]


def end_of(text: str) -> datetime:
    """Return the time in a text.

    For a day, a minute or a second, its last moment is returned. Raises NotATime.
    """
    return _read(text)[1]


def _read(text: str) -> tuple[datetime, datetime]:
    """Return the first and the last moment that a text can mean."""
    try:
        begin, length = _span(text)
        # The length is added in local time, because a day on which the clocks change does not last 24 hours.
        end = (begin + length).astimezone(UTC)
        return begin.astimezone(UTC), end - _LAST if length else end
    except (ValueError, OverflowError):
        raise NotATime from None


def _span(text: str) -> tuple[datetime, timedelta]:
    lower = text.lower()
    if found := _AGO.fullmatch(lower):
        return database_clock.utcnow() - timedelta(**{_UNITS[found[2]]: int(found[1])}), timedelta(0)
    if lower in _DAYS:
        return _midnight() - _DAY * _DAYS[lower], _DAY
    if found := _OF_DAY.fullmatch(lower):
        at = _midnight().replace(hour=int(found[1]), minute=int(found[2]), second=int(found[3] or 0))
        return at, _SECOND if found[3] else _MINUTE
    return _moment(text)


def _midnight() -> datetime:
    here = timezone.get_current_timezone()
    return database_clock.utcnow().astimezone(here).replace(hour=0, minute=0, second=0, microsecond=0)


def _moment(text: str) -> tuple[datetime, timedelta]:
    bare = _ZONE.sub("", text) if "T" in text.upper() else text
    found = _MOMENT.fullmatch(bare.upper())
    if found is None:
        raise NotATime
    at = datetime.fromisoformat(text.upper())
    length = timedelta(0) if found[2] else _SECOND if found[1] else _MINUTE if len(bare) > 10 else _DAY
    return at if at.tzinfo else at.replace(tzinfo=timezone.get_current_timezone()), length
