"""The actions of a viewset with their HTTP methods and path variables."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

_STANDARD: Final = {
    "list": ("get", False, "List"),
    "create": ("post", False, "Create one of"),
    "retrieve": ("get", True, "Get one of"),
    "update": ("put", True, "Replace one of"),
    "partial_update": ("patch", True, "Change one of"),
    "destroy": ("delete", True, "Delete one of"),
}
# ``<int:year>`` and ``(?P<year>[0-9]+)``.
_VARIABLE: Final = re.compile(r"<(?:\w+:)?(\w+)>")
_MARKS: Final = ("name", "description", "suffix", "detail", "basename", "__annotations__")
_making = threading.Lock()
HINTS: Final[dict[str, dict[str, bool]]] = {
    "get": {"read_only": True, "idempotent": True},
    "post": {"read_only": False},
    "put": {"read_only": False, "destructive": True, "idempotent": True},
    "patch": {"read_only": False, "destructive": True},
    "delete": {"read_only": False, "destructive": True, "idempotent": True},
}


@dataclass(frozen=True, slots=True, eq=False)
class Action:
    """An action of a viewset. ``is_extra`` is True for an ``@action``, which has its own ``initkwargs``."""

    viewset: Any
    name: str
    method: str
    detail: bool
    is_extra: bool = False
    url_path: str = ""
    initkwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The dotted path for messages."""
        return f"{self.viewset.__module__}.{self.viewset.__qualname__}.{self.name}"

    @property
    def lookup(self) -> str:
        """The argument that identifies the object."""
        own = getattr(self.viewset, "lookup_url_kwarg", None) or getattr(self.viewset, "lookup_field", None)
        return str(own or "pk")

    @property
    def path_variables(self) -> tuple[str, ...]:
        """The arguments that a route takes from the path."""
        return (*((self.lookup,) if self.detail else ()), *_VARIABLE.findall(self.url_path))

    def path(self, prefix: str) -> str:
        """Return the path below a router, with variables in braces."""
        parts = [prefix, *(f"{{{name}}}" for name in self.path_variables)]
        return "/" + "/".join([*parts, self.name] if self.is_extra else parts) + "/"

    def described(self, prefix: str, text: str) -> str:
        """Return the description. For standard actions, add a prefix to the text about the class."""
        if self.is_extra:
            return text
        return f"{_STANDARD[self.name][2]} {prefix.replace('_', ' ')}. {text}".strip()

    def hints(self) -> dict[str, Any]:
        """Return the hints that the HTTP method implies (TOOL-19). ``create`` is not destructive."""
        found = {**HINTS.get(self.method, {}), "open_world": False}
        return {**found, "destructive": False} if self.name == "create" and not self.is_extra else found


def actions_of(viewset: Any) -> dict[str, Action]:
    """Map names to the actions of the class. An action with several methods has its first method."""
    found = {
        name: Action(viewset, name, method, detail)
        for name, (method, detail, _) in _STANDARD.items()
        if callable(getattr(viewset, name, None))
    }
    for extra in viewset.get_extra_actions():
        for method, name in extra.mapping.items():
            action = Action(viewset, name, method, extra.detail, True, extra.url_path, dict(extra.kwargs))
            found.setdefault(name, action)
    return found


@contextmanager
def untouched(viewset: Any) -> Iterator[None]:
    """Restore the class attributes that REST framework changes when it creates a view."""
    with _making:
        before = {name: vars(viewset)[name] for name in _MARKS if name in vars(viewset)}
        try:
            yield
        finally:
            for name in _MARKS:
                if name in before:
                    if vars(viewset)[name] is not before[name]:
                        setattr(viewset, name, before[name])
                elif name in vars(viewset):
                    delattr(viewset, name)
