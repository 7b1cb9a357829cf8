"""Owns the public pages: how to connect a client, for people and for MCP registries; reads no rows."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.views.decorators.http import require_safe

from mcp_app import conf
from mcp_app.connect.address import connection_for
from mcp_app.connect.registry import server_json
from mcp_app.connect.snippets import snippets


@login_not_required
@require_safe
def connect(request: HttpRequest) -> HttpResponse:
    """The page with a line, a file or a link for each known client; 404 when it is switched off."""
    _only_when_on()
    connection = connection_for(request)
    # Without the request no context processor runs: nothing of a visitor's session is looked at.
    page = render_to_string(
        "mcp_connect/page.html",
        {
            "connection": connection,
            "snippets": snippets(connection),
            "keys": conf.get().api_keys,
        },
    )
    return HttpResponse(page, headers={"Content-Security-Policy": _policy(), "Cache-Control": "no-cache"})


@login_not_required
@require_safe
def server_document(request: HttpRequest) -> HttpResponse:
    """``server.json``, as MCP registries read it; 404 when the page is switched off."""
    _only_when_on()
    document = server_json(connection_for(request), conf.get().server.version)
    layout: dict[str, Any] = {"indent": 2, "ensure_ascii": False}
    return JsonResponse(document, json_dumps_params=layout, headers={"Cache-Control": "no-cache"})


def _only_when_on() -> None:
    if not conf.get().connect_page:
        raise Http404


def _policy() -> str:
    """The page may load its own style, script and icon, and nothing else."""
    source = urlsplit(static("mcp_app/copy.js")).netloc or "'self'"
    return (
        f"default-src 'none'; style-src {source}; script-src {source}; img-src {source}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
