"""Links from a message to admin pages: its call, its tool, and the test bench.

A link is None if there is no such page or the user may not open it.
"""

from __future__ import annotations

from typing import Any

import orjson
from django.contrib.admin.utils import quote
from django.urls import NoReverseMatch, reverse

from mcp_app.models import Call, Tool

CALLED = "tools/call"
TOOL_NOT_FOUND = "tool_not_found"


def call_page(user: Any, *, method: str, session: str | None, target: str, request_id: str) -> str | None:
    """Return the address of the background call that a request started."""
    if method != CALLED or not session or not user.has_perm("mcp_app.view_call"):
        return None
    calls = Call.objects.filter(session_id=session, tool=target).order_by("-accepted_at")[:200]
    for call_id, written in calls.values_list("pk", "request_id"):
        if str(orjson.loads(written))[:120] == request_id:
            return reverse("admin:mcp_app_call_change", args=[quote(call_id)])
    return None


def tool_page(user: Any, *, method: str, target: str) -> str | None:
    """Return the address of the tool that a request called."""
    if method != CALLED or not user.has_perm("mcp_app.view_tool"):
        return None
    tool = _tool(target)
    return reverse("admin:mcp_app_tool_change", args=[tool]) if tool is not None else None


def refused_tool(user: Any, *, method: str, answer: str) -> Tool | None:
    """Return the tool that exists although the client got the answer "tool not found"."""
    if method != CALLED or TOOL_NOT_FOUND not in answer or not user.has_perm("mcp_app.view_tool"):
        return None
    try:
        data = orjson.loads(answer)["error"]["data"]
        name = data["name"] if data["kind"] == TOOL_NOT_FOUND else None
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return Tool.objects.filter(name=name).first() if isinstance(name, str) else None


def replay_page(user: Any, *, method: str, kind: str, target: str, pk: int | None) -> str | None:
    """Return the address of the tool's test bench, filled with the arguments of a stored call."""
    if method != CALLED or kind != "request" or pk is None:
        return None
    if not user.has_perms(["mcp_app.try_entries", "mcp_app.view_tool"]):
        return None
    tool = _tool(target)
    if tool is None:
        return None
    try:
        return f"{reverse('admin:mcp_app_tool_try', args=[tool])}?message={pk}"
    except NoReverseMatch:
        return None


def incident_page(number: str) -> str | None:
    """Return the address of the exception behind an incident number, if the project serves the console."""
    try:
        return reverse("mcp_console:incident", args=[number])
    except NoReverseMatch:
        return None


def _tool(name: str) -> int | None:
    return Tool.objects.filter(name=name).values_list("pk", flat=True).first()
