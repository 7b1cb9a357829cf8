"""Public pages: instructions for connecting a client, and ``server.json`` for registries.

They need no queries.
"""

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
from mcp_app.connect.server_json import server_json
from mcp_app.connect.snippets import snippets


@login_not_required
@require_safe
def connect(request: HttpRequest) -> HttpResponse:
    """Show the configuration for each known client. Raise Http404 if the page is disabled."""
    _only_when_on()
    connection = connection_for(request)
    # Rendered without the request, so that no context processor reads the visitor's session.
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
    """Return ``server.json`` for MCP registries. Raise Http404 if the page is disabled."""
    _only_when_on()
    document = server_json(connection_for(request), conf.get().server.version)
    layout: dict[str, Any] = {"indent": 2, "ensure_ascii": False}
    return JsonResponse(document, json_dumps_params=layout, headers={"Cache-Control": "no-cache"})


def _only_when_on() -> None:
    if not conf.get().connect_page:
        raise Http404


def _policy() -> str:
    """Return a policy that allows only the page's own styles, fonts, script and icon."""
    source = urlsplit(static("mcp_app/copy.js")).netloc or "'self'"
    return (
        f"default-src 'none'; style-src {source}; script-src {source}; img-src {source}; "
        f"font-src {source}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
