"""The format of durations on all pages."""

from __future__ import annotations

from datetime import datetime, timedelta

from django import template
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def took(milliseconds: float) -> str:
    """Format milliseconds as ``1.5 ms``, ``3.2 s`` or ``2 min 06 s``."""
    # Imported late: Unfold loads tag libraries while the admin is still being imported.
    from mcp_app.admin.markup import span

    return f"{milliseconds:.1f} ms" if milliseconds < 1_000 else span(timedelta(milliseconds=milliseconds))


@register.filter
def ago(at: datetime) -> SafeString:
    """Return a time relative to now, with the exact time as tooltip."""
    from mcp_app.admin.markup import relative

    return relative(at)
