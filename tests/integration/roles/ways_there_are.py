"""Ways into the server found in its code: URL patterns, actions, API routes, ASGI paths, socket messages."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from textwrap import dedent
from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver, get_resolver, resolve

from mcp_app.api.urls import urlpatterns as api_patterns
from mcp_app.console.consumer import LiveConsumer
from mcpsite.asgi import application

SOCKET: Final = "/console/ws"
# Endpoints of OAuth, which are open to all, and logins of users at other servers, with tests of their own.
OF_CLIENTS: Final = ("/oauth/", "/accounts/", "/.well-known/", "/connections/<id>/")
NAMED: Final = re.compile(r"<(?:\w+:)?\w+>")


def pages() -> Iterator[str]:
    """Yield the addresses that Django serves, without the API."""
    for found in _walked(get_resolver().url_patterns, ""):
        if not found.startswith("/api/") and not _is_of_clients(found):
            yield found


def _walked(patterns: Any, before: str) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _walked(pattern.url_patterns, before + str(pattern.pattern))
        elif isinstance(pattern, URLPattern):
            yield from _readable(before + str(pattern.pattern))


def _readable(route: str) -> list[str]:
    """Return the route in the notation of the table."""
    choice = re.search(r"\^\(\?P<app_label>([\w|]+)\)/\$$", route)
    if choice:
        return [f"/{route[: choice.start()]}{label}/" for label in choice[1].split("|")]
    named, rest, _ = re.split(r"(\(\?P<url>\.\*\)\$$|\^\.\*\$$|$)", route, maxsplit=1)
    return [f"/{NAMED.sub('<id>', named)}{'<any>' if rest else ''}"]


def routes() -> Iterator[tuple[str, str]]:
    """Yield each method of each API route."""
    for pattern in api_patterns:
        view: Any = pattern.callback
        methods = getattr(view, "actions", None) or [
            name for name in view.cls.http_method_names if hasattr(view.cls, name)
        ]
        [path] = _readable(f"api/{pattern.pattern}")
        yield from ((name.upper(), path) for name in methods if name != "head")


def actions(request: HttpRequest) -> Iterator[str]:
    """Yield the list actions of the admin for the user, as ``address action=name``."""
    for model, pages_of in admin.site._registry.items():
        address = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        # A page without rows has no list, and a list may have no actions.
        if pages_of.has_view_permission(request) and model._meta.model_name != "doctor":
            request.resolver_match = resolve(address)
            yield from (f"{address} action={name}" for name in pages_of.get_actions(request))


def served() -> set[str]:
    """Return the addresses that are served before Django, in one spelling each."""
    # An address with a trailing slash is the same one: tests/unit/test_asgi.py.
    slashed = {"/mcp/", "/sse/"}
    return {route for route in application.routes if route not in slashed and not _is_of_clients(route)}


def _is_of_clients(address: str) -> bool:
    # Clients request metadata below the server's path as well.
    return address.startswith(OF_CLIENTS) or "/.well-known/" in address


def said_to_the_socket() -> set[str]:
    """Return the messages that a page may send to the console's WebSocket: the patterns of its consumer."""
    tree = ast.parse(dedent(inspect.getsource(LiveConsumer._on_message)))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.MatchMapping):
            key, value = node.keys[0], node.patterns[0]
            assert isinstance(key, ast.Constant)
            watched = isinstance(value, ast.MatchValue) and isinstance(value.value, ast.Constant)
            found.add(f"{key.value}={value.value.value}" if watched else str(key.value))  # type: ignore[attr-defined]
    return found
