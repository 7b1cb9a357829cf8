"""The format of durations and of times of day on all pages."""

from __future__ import annotations

from datetime import datetime, timedelta

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def took(milliseconds: float) -> str:
    """Format milliseconds as ``<0.1 ms``, ``1.5 ms``, ``3.2 s`` or ``2 min 06 s``, as the live log does."""
    # Imported late: Unfold loads tag libraries while the admin is still being imported.
    from mcp_app.admin.markup import span

    return span(timedelta(milliseconds=milliseconds))


@register.filter
def ago(at: datetime) -> SafeString:
    """Return a time relative to now, with the exact time as tooltip."""
    from mcp_app.admin.markup import relative

    return relative(at)


@register.filter
def clock(at: datetime) -> SafeString:
    """Return the time of day with milliseconds as HTML, with date and time zone as tooltip."""
    local = timezone.localtime(at)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        local.isoformat(),
        f"{local:%Y-%m-%d %H:%M:%S %Z}",
        f"{local:%H:%M:%S}.{local.microsecond // 1_000:03d}",
    )
