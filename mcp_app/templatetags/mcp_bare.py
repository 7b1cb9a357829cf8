"""The head of pages outside the admin: connect, login, consent, the API."""

from __future__ import annotations

from typing import Any

from django import template
from django.apps import apps
from django.templatetags.static import static

register = template.Library()


@register.inclusion_tag("mcp_connect/head.html")
def mcp_bare_head(*styles: str) -> dict[str, Any]:
    """Return the viewport, icon, font and style sheets. The font is that of the skin, if it is installed."""
    fonts = ["unfold/fonts/inter/styles.css"] if apps.is_installed("unfold") else []
    own = ("mcp_app/admin.css", "mcp_app/connect.css", *(f"mcp_app/{name}.css" for name in styles))
    return {"styles": [static(name) for name in (*fonts, *own)]}
