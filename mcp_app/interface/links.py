"""Links to admin pages: of a message's call and tool, and of the user, credential and session of a caller.

A link is None if there is no such page or the user may not open it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode
from django.utils.text import slugify

from mcp_app.models import Call, Tool
from mcp_app.models.call import calls_of_session
from mcp_app.protocol.principal_key import caller_ids

CALLED = "tools/call"
TOOL_NOT_FOUND = "tool_not_found"


class CallerPages(NamedTuple):
    """The pages of a caller: of its user, of its API key, and of its OAuth client."""

    user: str | None = None
    api_key: str | None = None
    client: str | None = None


def caller_pages(user: Any, principal: str) -> CallerPages:
    """Return the pages of the user and of the credential in a principal key."""
    ids = caller_ids(principal)
    return CallerPages(
        user_page(user, ids.user) if ids.user else None,
        key_page(user, ids.api_key) if ids.api_key else None,
        client_page(user, ids.client) if ids.client else None,
    )


def page_patterns(user: Any) -> dict[str, str]:
    """Return the addresses of pages that the user may open, with "ID" in the place of the primary key."""
    pages = {
        "user": user_page(user, "ID"),
        "key": key_page(user, "ID"),
        "client": client_page(user, "ID"),
        "tool": _page(user, "mcp_app.tool", "ID"),
    }
    return {name: address for name, address in pages.items() if address}


def user_page(user: Any, pk: Any) -> str | None:
    """Return the page of another user."""
    return _page(user, get_user_model()._meta.label_lower, pk)


def user_address(pk: Any) -> str | None:
    """Return the page of a user, for a reader who may view users."""
    return _reversed(get_user_model()._meta.label_lower, "change", quote(pk))


def key_page(user: Any, pk: Any) -> str | None:
    """Return the page of an API key."""
    return _page(user, "mcp_app.apikey", pk)


def client_page(user: Any, pk: Any) -> str | None:
    """Return the page of an OAuth client."""
    return _page(user, "mcp_oauth.client", pk)


def named_tool_page(user: Any, name: str) -> str | None:
    """Return the page of the tool with this name."""
    if not may_view(user, "mcp_app.tool"):
        return None
    tool = _tool(name)
    return None if tool is None else _page(user, "mcp_app.tool", tool)


def messages_page(user: Any, **narrowed: str) -> str | None:
    """Return the message log, narrowed by fields of its form such as ``principal`` and ``since``."""
    return _list(user, "mcp_app.message", narrowed)


def figures_page(user: Any, **asked: str) -> str | None:
    """Return the page of figures. ``tool`` or ``principal`` limits the counted calls."""
    if not may_view(user, "mcp_app.message"):
        return None
    query = urlencode(asked)
    return f"{reverse('admin:mcp_app_message_figures')}?{query}"


def sessions_page(user: Any, **narrowed: str) -> str | None:
    """Return the list of sessions. ``q`` finds sessions by client, principal and address."""
    return _list(user, "mcp_app.session", narrowed)


def keys_page(user: Any, **narrowed: str) -> str | None:
    """Return the list of API keys. ``q`` finds keys by name, prefix and user."""
    return _list(user, "mcp_app.apikey", narrowed)


def connections_page(user: Any, **narrowed: str) -> str | None:
    """Return the list of OAuth connections. ``q`` finds connections by client and user."""
    return _list(user, "mcp_oauth.connection", narrowed)


def add_limit_page(user: Any, name: str, **filled: str) -> str | None:
    """Return the form of a new limit for users who may add limits, with fields such as ``who`` filled in.

    The name of the limit is made from ``name``.
    """
    if not user.has_perms(["mcp_app.view_limitrule", "mcp_app.add_limitrule"]):
        return None
    address = _reversed("mcp_app.limitrule", "add")
    return address and f"{address}?{urlencode({**filled, 'name': slugify(name)[:64].strip('-_')})}"


def user_connections_page(user: Any, **narrowed: str) -> str | None:
    """Return the list of accounts that users connected at upstream servers."""
    return _list(user, "mcp_app.userconnection", narrowed)


def _list(user: Any, model: str, narrowed: dict[str, str]) -> str | None:
    address = _address(user, model, "changelist")
    return f"{address}?{urlencode(narrowed)}" if address and narrowed else address


def _page(user: Any, model: str, pk: Any) -> str | None:
    return _address(user, model, "change", quote(pk))


def _address(user: Any, model: str, view: str, *args: Any) -> str | None:
    return _reversed(model, view, *args) if may_view(user, model) else None


def _reversed(model: str, view: str, *args: Any) -> str | None:
    try:
        return reverse(f"admin:{model.replace('.', '_')}_{view}", args=args)
    except NoReverseMatch:  # The project serves no such pages.
        return None


def may_view(user: Any, model: str) -> bool:
    """Return True if the user may view or change a model, which Django's admin requires for its pages."""
    app, name = model.split(".")
    return bool(user.has_perm(f"{app}.view_{name}") or user.has_perm(f"{app}.change_{name}"))


class CallOfRequest(NamedTuple):
    """The background call that a request started: the address of its page, and the time of the request."""

    url: str
    requested: datetime


def call_page(user: Any, **request: Any) -> str | None:
    """Return the address of the background call that a request started. See `call_of`."""
    found = call_of(user, **request)
    return found.url if found else None


def call_of(
    user: Any, *, method: str, session: str | None, target: str, request_id: str, at: datetime
) -> CallOfRequest | None:
    """Return the background call that a request started.

    ``at`` is the time of the logged message. Clients use a request id again, and a request is logged when its
    call finishes, so the call with the nearest end is returned.
    """
    if method != CALLED or not session or not user.has_perm("mcp_app.view_call"):
        return None
    calls = Call.objects.filter(calls_of_session(session), tool=target).order_by("-accepted_at")[:200]
    found = [
        (abs((finished or accepted) - at), call_id, accepted)
        for call_id, written, accepted, finished in calls.values_list(
            "pk", "request_id", "accepted_at", "finished_at"
        )
        if str(orjson.loads(written))[:120] == request_id
    ]
    if not found:
        return None
    _, call_id, accepted = min(found)
    return CallOfRequest(reverse("admin:mcp_app_call_change", args=[quote(call_id)]), accepted)


def tool_page(user: Any, *, method: str, target: str) -> str | None:
    """Return the address of the tool that a request called."""
    return named_tool_page(user, target) if method == CALLED else None


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


def document(page: str, anchor: str = "") -> str:
    """Return the URL of a section of the help."""
    return reverse("mcp_document", args=page.split("/")) + (f"#{anchor}" if anchor else "")
