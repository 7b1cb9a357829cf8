"""Owns how long something took, as all pages write it."""

from __future__ import annotations

from datetime import timedelta

from django import template

register = template.Library()


@register.filter
def took(milliseconds: float) -> str:
    """``1.5 ms``, ``3.2 s``, ``2 min 06 s``."""
    # Not above: the skin loads the tag libraries while the admin is still being imported.
    from mcp_app.admin.markup import span

    return f"{milliseconds:.1f} ms" if milliseconds < 1_000 else span(timedelta(milliseconds=milliseconds))
