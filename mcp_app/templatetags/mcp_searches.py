"""The row of saved searches on the pages of the log."""

from __future__ import annotations

from typing import Any, Final

from django import template
from django.urls import reverse

from mcp_app.interface.text import marked
from mcp_app.message_log.search.saved import LONGEST_NAME, searches_of

register = template.Library()
# Further searches are listed on their own page.
MOST_SHOWN: Final = 12


@register.inclusion_tag("mcp_admin/saved_searches.html", takes_context=True)
def mcp_saved_searches(context: template.Context, parameter: str, text: str) -> dict[str, Any]:
    """Return links that put a saved search into ``parameter``, and the form that saves ``text``."""
    request = context["request"]
    found = list(searches_of(request.user).order_by("name", "pk")[: MOST_SHOWN + 1])
    # The user's own searches come first.
    rows = sorted(found[:MOST_SHOWN], key=lambda row: row.user_id != request.user.pk)
    return {
        "request": request,
        "csrf_token": context.get("csrf_token"),
        "rows": [(row, marked(row.text)) for row in rows],
        "more": len(found) > MOST_SHOWN,
        "parameter": parameter,
        "text": text,
        "longest": LONGEST_NAME,
        "url": reverse("admin:mcp_app_message_searches"),
        "back": request.path,
        "live": "live" in request.GET,
    }
