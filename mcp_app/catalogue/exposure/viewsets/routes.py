"""The URLs of actions in the project, which views read from the request and use for links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from django.core.exceptions import ImproperlyConfigured
from django.urls import (
    NoReverseMatch,
    Resolver404,
    ResolverMatch,
    URLPattern,
    URLResolver,
    get_resolver,
    get_script_prefix,
    resolve,
    reverse,
)

from mcp_app.catalogue.exposure.viewsets.actions import Action


@dataclass(frozen=True, slots=True)
class Route:
    """A named URL pattern that leads to an action. ``callback`` is None if no pattern leads there."""

    name: str = ""
    variables: frozenset[str] = frozenset()
    callback: Any = None


@dataclass(frozen=True, slots=True)
class Address:
    """The target of a request: the route, the path below the script prefix, and the view's arguments."""

    route: Route
    path: str
    kwargs: Mapping[str, Any]
    match: ResolverMatch | None = None


def address_of(action: Action, prefix: str, values: Mapping[str, Any]) -> Address | None:
    """Return the address of the action with these path values, or None if no path accepts the values.

    Raises ImproperlyConfigured if the variables of every route differ from the names in ``values``.
    """
    texts = {name: str(value) for name, value in values.items()}
    routes = _routes(get_resolver(), action)
    if not routes:
        return _unrouted(action, prefix, texts)
    fitting = [route for route in routes if route.variables == texts.keys()]
    if not fitting:
        missing = ", ".join(sorted(routes[0].variables - texts.keys())) or "no variables"
        raise ImproperlyConfigured(
            f"{action.where}: its route has {missing}: give expose.viewset url={{name: value}} for each."
        )
    return next((found for route in fitting if (found := _routed(action, route, texts))), None)


def _routed(action: Action, route: Route, texts: dict[str, str]) -> Address | None:
    try:
        path = unquote(reverse(route.name, kwargs=texts))
        path = "/" + path.removeprefix(get_script_prefix())
        match = resolve(path)
    except (NoReverseMatch, Resolver404):
        return None
    if not _leads_to(action, match.func):
        return None  # The path leads elsewhere, as /orders/export/ may with the key "export".
    return Address(route, path, match.kwargs, match)


def _unrouted(action: Action, prefix: str, texts: Mapping[str, str]) -> Address | None:
    pattern = getattr(action.viewset, "lookup_value_regex", "[^/.]+")
    if action.detail and not re.fullmatch(pattern, texts[action.lookup]):
        return None
    path = action.path(prefix).format_map({name: quote(text, safe="") for name, text in texts.items()})
    return Address(Route(), unquote(path), dict(texts))


@lru_cache(maxsize=512)
def _routes(resolver: URLResolver, action: Action) -> tuple[Route, ...]:
    return tuple(_named(resolver, action, (), frozenset()))


def _named(
    resolver: URLResolver, action: Action, spaces: tuple[str, ...], variables: frozenset[str]
) -> Iterator[Route]:
    for pattern in resolver.url_patterns:
        found = variables | set(pattern.pattern.regex.groupindex)
        if isinstance(pattern, URLPattern):
            if pattern.name and _leads_to(action, pattern.callback):
                yield Route(":".join((*spaces, pattern.name)), found, pattern.callback)
        else:
            space = (pattern.namespace,) if pattern.namespace else ()
            yield from _named(pattern, action, (*spaces, *space), found)


def _leads_to(action: Action, callback: Any) -> bool:
    actions = getattr(callback, "actions", None) or {}
    return getattr(callback, "cls", None) is action.viewset and actions.get(action.method) == action.name
