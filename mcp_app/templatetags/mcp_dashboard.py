"""The dashboard on the admin's first page."""

from __future__ import annotations

from typing import Any

from django import template

register = template.Library()


@register.inclusion_tag("mcp_admin/dashboard.html", takes_context=True)
def mcp_dashboard(context: template.Context) -> dict[str, Any]:
    """Return the user's dashboard; None without the permission to view messages or calls."""
    # Imported late: Unfold loads tag libraries while the admin is still being imported.
    from mcp_app.admin.dashboard import dashboard, may_see

    request = context["request"]
    return {"dashboard": dashboard(request) if may_see(request) else None}
