"""The origin of a call for display: the user, the user's API key, and the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from django.contrib.auth import get_user_model
from django.db.models.fields.json import KT
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.auth.permissions import may_view_people
from mcp_app.auth.principal_names import principal_names
from mcp_app.interface.text import marked, visible
from mcp_app.models import Call

# A list needs only this part of ``session_fields``, a column that may be long.
STORED_CLIENT = KT("session_fields__client")


def names_of(calls: Iterable[Call]) -> dict[str, str]:
    """Map the principals of these calls to display names, in two queries."""
    return principal_names({call.principal for call in calls})


def caller_of(call: Call, names: Mapping[str, str]) -> str:
    """Return text such as ``jane · laptop`` or ``boss as jane``.

    ``names`` is a result of ``names_of``.
    """
    return names.get(call.principal, call.principal)


def caller_link(call: Call, names: Mapping[str, str], viewer: Any) -> SafeString:
    """Return the caller's name with the principal as tooltip.

    It is a link to the page of the API key, or else of the user, if the viewer may open that page.
    """
    name, key = visible(caller_of(call, names)), marked(call.principal)
    if address := _page_of(call, viewer):
        return format_html('<a class="mcp-link" href="{}" title="{}">{}</a>', address, key, name)
    return format_html('<span title="{}">{}</span>', key, name)


def _page_of(call: Call, viewer: Any) -> str:
    if call.api_key_id is not None and viewer.has_perm("mcp_app.view_apikey"):
        return reverse("admin:mcp_app_apikey_change", args=[call.api_key_id])
    if call.user_id is None or not may_view_people(viewer):
        return ""
    opts = get_user_model()._meta
    try:
        return reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[call.user_id])
    except NoReverseMatch:
        return ""


def client_of(call: Call) -> str:
    """Return the name of the client. The queryset must have annotated the call with ``client_said``."""
    return client_name(getattr(call, "client_said", "")) or "(no name)"


def client_name(stored: str | None) -> str:
    """Return the client's name from its stored JSON description, or "" if it has none."""
    try:
        client = orjson.loads(stored or "{}")
    except orjson.JSONDecodeError:
        return ""
    return str(client.get("name") or "")[:60] if isinstance(client, dict) else ""
