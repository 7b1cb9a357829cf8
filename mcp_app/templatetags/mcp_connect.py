"""Owns the card that says how to connect a client; reads no rows."""

from __future__ import annotations

from typing import Any

from django import template

register = template.Library()


@register.inclusion_tag("mcp_admin/connect.html", takes_context=True)
def mcp_connect(context: template.Context) -> dict[str, Any]:
    """The endpoint's address and lines to paste, with a placeholder for the key."""
    from mcp_app.admin.connect import (
        client_lines,
        endpoint_url,
    )  # The admin need not be installed to load filters.

    url = endpoint_url(context["request"])
    user = context["request"].user
    return {"url": url, "lines": client_lines(url), "can_issue": user.has_perm("mcp_app.add_apikey")}
