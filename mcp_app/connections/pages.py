"""The page "My connections", and the addresses to which authorization servers redirect.

A login begins with a form, so other sites cannot begin one. The response of the authorization server is
accepted only in the browser session and for the user of that form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST, require_safe

from mcp_app import conf
from mcp_app.auth.own_addresses import login_address, offers_oauth
from mcp_app.connections import login, services
from mcp_app.connections.discovery import LoginRefused
from mcp_app.connections.registration import document_of
from mcp_app.models import Upstream, UserConnection
from mcp_app.upstreams.accounts.use import Standing, problem_of

View = Callable[..., HttpResponse]
_DONE: Final = {"made": "Account connected.", "ended": "Account disconnected."}
# Parameters of a redirect that are read. Servers may add others.
_RESPONSE: Final = ("state", "iss", "code", "error")


def for_users(view: View) -> View:
    """Wrap a view to redirect visitors without a login to the login page."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path(), login_address())
        return view(request, *args, **kwargs)

    return login_not_required(never_cache(guarded))


@for_users
@require_safe
def own(request: HttpRequest) -> HttpResponse:
    """List the servers to which the user can connect an account, and the connections of the user."""
    return _list(request)


@for_users
@require_POST
def connect(request: HttpRequest, pk: int) -> HttpResponse:
    """Begin a login, and show a page with the link to the authorization server."""
    upstream = _server(request, pk)
    try:
        asked = login.begin(
            upstream=upstream, user=request.user, session=request.session, host=request.get_host()
        )
    except LoginRefused as refused:
        return _list(request, upstream.name, str(refused))
    context = {
        "upstream": upstream,
        "origin": _origin(upstream),
        "url": asked.url,
        "target": urlsplit(asked.url).netloc,
        "scopes": asked.scopes,
    }
    return _page(request, "mcp_connections/leave.html", context)


@for_users
@require_GET
def callback(request: HttpRequest, pk: int) -> HttpResponse:
    """Complete a login with the response of the authorization server."""
    response = {name: request.GET[name] for name in _RESPONSE if len(request.GET.getlist(name)) == 1}
    try:
        row = login.finish(upstream=pk, user=request.user, session=request.session, response=response)
    except LoginRefused as refused:
        name = Upstream.objects.filter(pk=pk).values_list("name", flat=True).first()
        return _list(request, name or "", str(refused))
    # The next page has no code in its address.
    return _back("made", row.upstream_id)


@for_users
@require_POST
def disconnect(request: HttpRequest, pk: int) -> HttpResponse:
    """End the user's connection to a server."""
    row = services.connections_of(request.user).get(pk)
    if row is not None:
        services.end(connections=[row], actor=request.user)
    return _back("ended", pk)


@login_not_required
@require_http_methods(["GET", "HEAD"])
def client_document(request: HttpRequest, pk: int) -> HttpResponse:
    """Return our client metadata document for the logins of a server. It contains no secret."""
    try:
        document = document_of(pk)
    except LoginRefused:
        raise Http404 from None
    if not document["client_id"]:
        raise Http404
    return JsonResponse(document, headers={"Cache-Control": "public, max-age=3600"})


def _server(request: HttpRequest, pk: int) -> Upstream:
    found = next((row for row in services.servers_for(request.user) if row.pk == pk), None)
    if found is None:
        raise Http404
    return found


def _list(request: HttpRequest, failed: str = "", reason: str = "") -> HttpResponse:
    rows = _rows(request)
    context = {
        "rows": rows,
        "failed": failed,
        "reason": reason,
        "done": "" if reason else _DONE.get(request.GET.get("done", ""), ""),
        "offers_oauth": offers_oauth(),
    }
    return _page(request, "mcp_connections/own.html", context, status=400 if reason else 200)


def _rows(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the servers and connections of the user. The server in the address comes first."""
    servers = {row.pk: row for row in services.servers_for(request.user)}
    connections = services.connections_of(request.user)
    every = {**{pk: row.upstream for pk, row in connections.items()}, **servers}
    wanted = request.GET.get("server", "")
    rows = [
        {
            "upstream": upstream,
            "origin": _origin(upstream),
            **_state(connections.get(pk)),
            "may_connect": pk in servers,
            "wanted": str(pk) == wanted,
        }
        for pk, upstream in every.items()
    ]
    return sorted(rows, key=lambda row: (not row["wanted"], row["upstream"].name))


def _state(connection: UserConnection | None) -> dict[str, Any]:
    """Return the connection with its state, and the reason why it needs attention."""
    if connection is None:
        return {"connection": None, "state": Standing.MISSING, "problem": ""}
    problem = problem_of(connection)
    state = Standing.ATTENTION if problem else Standing.CONNECTED
    return {"connection": connection, "state": state, "problem": problem}


def _origin(upstream: Upstream) -> str:
    """Return the part of a server's address for users. Its path and query may contain a key."""
    parts = urlsplit(upstream.url)
    return f"{parts.scheme}://{parts.netloc}" if upstream.url else ""


def _back(done: str, pk: int) -> HttpResponse:
    query = urlencode({"done": done, "server": pk})
    return HttpResponseRedirect(f"{reverse('mcp_connections')}?{query}")


def _page(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    response = render(request, template, {"server": conf.get().server.label, **context}, status=status)
    source = urlsplit(static("mcp_app/oauth.css")).netloc or "'self'"
    response["Content-Security-Policy"] = (
        f"default-src 'none'; style-src {source}; img-src {source}; font-src {source}; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    )
    response["Referrer-Policy"] = "same-origin"
    return response
