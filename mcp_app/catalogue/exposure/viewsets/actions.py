"""The actions of a viewset: the method of each, whether it is about one object, the variables of its path."""

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
    """``is_extra``: an ``@action`` of the project's own, which sets ``initkwargs`` on its view."""

    viewset: Any
    name: str
    method: str
    detail: bool
    is_extra: bool = False
    url_path: str = ""
    initkwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.viewset.__module__}.{self.viewset.__qualname__}.{self.name}"

    @property
    def lookup(self) -> str:
        """The argument that names the object."""
        own = getattr(self.viewset, "lookup_url_kwarg", None) or getattr(self.viewset, "lookup_field", None)
        return str(own or "pk")

    @property
    def path_variables(self) -> tuple[str, ...]:
        """The arguments that a route takes from the path."""
        return (*((self.lookup,) if self.detail else ()), *_VARIABLE.findall(self.url_path))

    def path(self, prefix: str) -> str:
        """A path with the variables in braces, as the action has it below a router."""
        parts = [prefix, *(f"{{{name}}}" for name in self.path_variables)]
        return "/" + "/".join([*parts, self.name] if self.is_extra else parts) + "/"

    def described(self, prefix: str, text: str) -> str:
        """The description; the usual actions have that of their class, which does not say what they do."""
        if self.is_extra:
            return text
        return f"{_STANDARD[self.name][2]} {prefix.replace('_', ' ')}. {text}".strip()

    def hints(self) -> dict[str, Any]:
        """What the method says about effects (TOOL-19); to create adds and destroys nothing."""
        found = {**HINTS.get(self.method, {}), "open_world": False}
        return {**found, "destructive": False} if self.name == "create" and not self.is_extra else found


def actions_of(viewset: Any) -> dict[str, Action]:
    """Every action of the class by name; of one with several methods, the first."""
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
    """Undo what REST framework writes into the class when it makes a view, and Python when hints are read."""
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
