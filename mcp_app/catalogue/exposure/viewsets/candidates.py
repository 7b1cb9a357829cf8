"""Suggestions of viewsets that the project serves and no tool exposes yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import iscoroutinefunction
from typing import Any

from django.urls import URLResolver, get_resolver
from rest_framework.viewsets import ViewSetMixin

from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.definitions.signatures import code_path


def candidates() -> list[str]:
    """Return a line for an ``mcp.py`` for each viewset that the project serves and no tool exposes."""
    exposed = {tool.code_path.rpartition(".")[0] for tool in registry.tools.values()}
    found: dict[Any, dict[str, None]] = {}
    for callback in _callbacks(get_resolver().url_patterns):
        viewset: Any = getattr(callback, "cls", None)
        actions = getattr(callback, "actions", None) or {}
        if (
            isinstance(viewset, type)
            and issubclass(viewset, ViewSetMixin)
            and code_path(viewset) not in exposed
        ):
            names = [name for name in actions.values() if not iscoroutinefunction(getattr(viewset, name))]
            found.setdefault(viewset, {}).update(dict.fromkeys(names))
    return [
        f"expose.viewset({viewset.__name__}, actions={list(names)})"
        for viewset, names in found.items()
        if names and not viewset.__module__.startswith("mcp_app.")
    ]


def _callbacks(patterns: Iterable[Any]) -> Iterator[Any]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _callbacks(pattern.url_patterns)
        else:
            yield pattern.callback
