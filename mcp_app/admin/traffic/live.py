"""Helpers of the live pages of the log and of the sessions."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from mcp_app.interface.links import page_patterns

# The query parameter of the switch.
LIVE: Final = "live"


def can_go_live(request: HttpRequest, permission: str) -> bool:
    """Return True if the project serves the live console and the user has the permission that it needs."""
    try:
        reverse("mcp_console:sessions")
    except NoReverseMatch:
        return False
    return bool(request.user.has_perm(permission))


def live_context(request: HttpRequest) -> dict[str, Any]:
    """Return the template context of the live pages."""
    return {
        "live": True,
        "may_read": request.user.has_perm("mcp_app.view_message"),
        "may_list": request.user.has_perm("mcp_app.view_session"),
        "can_cancel": request.user.has_perm("mcp_app.change_call"),
        "pages": page_patterns(request.user),
    }
