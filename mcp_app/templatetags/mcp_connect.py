"""The card that explains how to connect a client. Makes no queries."""

from __future__ import annotations

from typing import Any

from django import template

from mcp_app.connect.address import connection_for
from mcp_app.connect.snippets import PASTED, snippets

register = template.Library()


@register.inclusion_tag("mcp_admin/connect.html", takes_context=True)
def mcp_connect(context: template.Context) -> dict[str, Any]:
    """Return the endpoint's address and configurations with a placeholder for the key."""
    connection = connection_for(context["request"])
    user = context["request"].user
    return {
        "url": connection.url,
        "lines": snippets(connection, *PASTED),
        "can_issue": user.has_perm("mcp_app.add_apikey"),
        "can_examine": user.has_perm("mcp_app.run_doctor"),
    }
