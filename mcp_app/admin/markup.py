"""HTML fragments that several pages use: badges, times, differences. All data is escaped."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.database.aware_times import aware
from mcp_app.interface.text import json_text, visible_block
from mcp_app.models.rollup import BOUNDS

# Longer texts are not compared, because the time of a comparison is quadratic in the worst case.
MAX_DIFF_LINES = 2_000


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a difference. ``kind`` is ``added``, ``removed``, ``same`` or ``skip``."""

    kind: str
    html: SafeString


def badge(text: str, tone: str = "plain") -> SafeString:
    """Return a badge. ``tone`` is "good", "warn", "bad", "info" or "plain"."""
    return format_html('<span class="mcp-badge mcp-badge-{}">{}</span>', tone, text)


def written(at: datetime) -> str:
    """Return a time with seconds in the current time zone, in the format of all pages."""
    return timezone.localtime(at).strftime("%Y-%m-%d %H:%M:%S")


def in_utc(at: datetime) -> str:
    """Return a time in UTC for a link or a search. It does not depend on the reader's time zone."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(at: datetime | None, never: str = "never") -> SafeString:
    """Return a time with seconds in the current time zone, as an HTML element."""
    if at is None:
        return format_html('<span class="mcp-dim">{}</span>', never)
    return format_html(
        '<time class="mcp-time" datetime="{}">{}</time>',
        timezone.localtime(at).isoformat(),
        written(at),
    )


def relative(at: datetime | None, never: str = "never") -> SafeString:
    """Return a time that lists show relative to now, with the exact time as tooltip, and forms exactly."""
    at = aware(at)
    if at is None:
        return moment(at, never)
    exact = written(at)
    return format_html(
        '<time class="mcp-time" datetime="{}" title="{}"><span class="mcp-exact">{}</span>'
        '<span class="mcp-relative">{}</span></time>',
        timezone.localtime(at).isoformat(),
        exact,
        exact,
        from_now(at),
    )


def from_now(at: datetime) -> str:
    """Return a time as text such as ``5 min ago`` or ``in 3 days``. Beyond a month it is a date."""
    seconds = (datetime.now(UTC) - (aware(at) or at)).total_seconds()
    size = abs(seconds)
    for unit, length, most in _UNITS:
        if size < most:
            number = int(size // length)
            words = f"{number} {unit}{'s' if unit == 'day' and number != 1 else ''}"
            return f"{words} ago" if seconds >= 0 else f"in {words}"
    return written(at)[:10]


# A unit, its length, and the shortest time that needs the next unit, all in seconds.
_UNITS = (("s", 1, 60), ("min", 60, 3_600), ("h", 3_600, 86_400), ("day", 86_400, 30 * 86_400))


def with_window(about: str, words: str, address: str, field: str) -> SafeString:
    """Return the help text of a field with a link that opens the form for a new object in a popup.

    Unfold's own link is hidden in a menu.
    """
    # Django's script opens the popup and later selects the new object.
    return format_html(
        '{} <a class="mcp-link related-widget-wrapper-link" id="add_id_{}" data-popup="yes"'
        ' href="{}?_popup=1">{}</a>',
        about,
        field,
        address,
        words,
    )


def span(time: timedelta | None) -> str:
    """Return a duration as text such as ``<0.1 ms``, ``1.5 ms``, ``3.2 s``, ``4 min 05 s`` or ``2 h 03 min``.

    All pages use this form. ``times.js`` has a copy.
    """
    if time is None:
        return "–"
    seconds = max(time.total_seconds(), 0.0)
    if seconds < 0.0001:
        return "<0.1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.{int(seconds < 0.01)}f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours = minutes // 60
    if hours >= 48:
        return f"{hours // 24} d"
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{hours} h {minutes % 60:02d} min"


def number_text(value: float) -> str:
    """Return a number with three significant digits. Whole and large numbers have no decimals."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def rate_text(value: float) -> str:
    """Return a rate with at most two decimals. A rate above 0 is never shown as 0."""
    return "<0.01" if 0 < value < 0.005 else number_text(round(value, 2))


def share_text(value: float | None) -> str:
    """Return a fraction of 1 as text in percent, with at most three digits and two decimals.

    A fraction below 1 is never shown as 100 %, and a fraction above 0 never as 0 %.
    """
    if value is None:
        return "–"
    shown = f"{round(value * 100, 2):.3g}"
    if shown == "100" and value < 1:
        return "99.9 %"
    return "<0.01 %" if shown == "0" and value > 0 else f"{shown} %"


def rounded_share(value: float, digits: int) -> float:
    """Return a fraction rounded to a number of digits. A fraction below 1 stays below 1."""
    return min(round(value, digits), 1 - 10**-digits) if value < 1 else value


def seconds_text(seconds: float | None) -> str:
    """Return a measured duration as text, which may be 0."""
    if seconds == 0:
        return "0 s"
    return "–" if seconds is None else span(timedelta(seconds=seconds))


def percentile_text(seconds: float | None) -> str:
    """Return a percentile from a histogram as text.

    Below the first bound and above the last one, the histogram contains only numbers of calls.
    """
    if seconds is not None and seconds < BOUNDS[0]:
        return f"<{seconds_text(BOUNDS[0])}".replace(".0 ", " ")
    if seconds is not None and seconds >= BOUNDS[-1]:
        return f"> {seconds_text(BOUNDS[-1])}"
    return seconds_text(seconds)


def bytes_text(size: float | None) -> str:
    """Return a number of bytes as text, such as ``12 B``, ``3.2 KiB`` or ``45 MiB``."""
    if size is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 100 or unit == "B" else f"{size:.2g} {unit}"
        size /= 1024
    return f"{size:,.3g} TiB"


def block(text: str) -> SafeString:
    """Return text with several lines in a scrollable box."""
    return format_html('<pre class="mcp-pre" tabindex="0">{}</pre>', visible_block(text))


def json_block(value: Any) -> SafeString:
    """Return a stored JSON value in a scrollable box."""
    return block(json_text(value))


def diff(before: Any, after: Any) -> list[DiffLine]:
    """Return the difference between two JSON values by line, with three lines of context.

    None means that there is no value.
    """
    return diff_lines(
        json_text(before) if before is not None else "", json_text(after) if after is not None else ""
    )


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """Return the difference between two texts by line, with three lines of context."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) > MAX_DIFF_LINES or len(new) > MAX_DIFF_LINES:
        return [DiffLine("skip", format_html("{}", "Too long to compare line by line."))]
    if old == new and before != after:
        return [DiffLine("skip", format_html("{}", "Only the ends of lines differ."))]
    lines = list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
    kinds = {"+": "added", "-": "removed", "@": "skip"}
    shown = [
        DiffLine(kinds.get(line[:1], "same"), visible_block("…" if line.startswith("@@") else line))
        for line in lines
    ]
    # A single change at the beginning of the text needs no line that marks its position.
    return shown[1:] if lines and lines[0].startswith(("@@ -1,", "@@ -1 ", "@@ -0,0")) else shown
