"""Wrappers that expose existing code as functions of tools, and options that several tools share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from mcp_app.catalogue.definitions.definition import DefinitionError, ToolDefinition
from mcp_app.catalogue.definitions.signatures import code_path
from mcp_app.catalogue.definitions.tool_definitions import ToolOptions, define_tool
from mcp_app.catalogue.definitions.tool_limits import LimitKeywords
from mcp_app.catalogue.definitions.wire_parts import Icon, check_options

# The keyword that passes a call's context. No argument can have this name, because it has a space.
CONTEXT: Final = "mcp context"
# Takes the request and the context of a call. Returns None or a context manager in which the view runs.
Prepare = Callable[[Any, Any], AbstractContextManager[Any] | None]


class SharedKeywords(LimitKeywords, total=False):
    """The options that one ``expose`` line passes to all its tools, for the type checker."""

    icons: Iterable[Icon]
    meta: Mapping[str, Any] | None
    tags: Iterable[str]
    background: bool


def definition_of(
    stand_in: Callable[..., Any], options: ToolOptions, *, is_made: bool = False
) -> ToolDefinition:
    """Return the definition of a tool whose function takes the context under CONTEXT.

    With ``is_made`` the schemas in ``options`` were generated. Raises DefinitionError.
    """
    definition = define_tool(stand_in, options, is_made=is_made)
    return replace(definition, function=replace(definition.function, context_name=CONTEXT))


def deferred(declared: ToolDefinition, make: Callable[[], ToolDefinition]) -> ToolDefinition:
    """Return ``declared`` with a final definition that ``make`` builds at the first use of the tool."""
    return replace(declared, deferred=_Once(make))


class _Once:
    """A function that is called until it succeeds once.

    It may fail at first, because tables that it reads may be created later.
    """

    def __init__(self, make: Callable[[], ToolDefinition]) -> None:
        self._make = make
        self._made: ToolDefinition | None = None

    def __call__(self) -> ToolDefinition:
        if self._made is None:
            self._made = self._make()
        return self._made


def named_after(
    stand_in: Callable[[dict[str, Any], Any], Any], owner: type, operation: str
) -> Callable[..., Any]:
    """Wrap a function of arguments and context as a function that takes keywords.

    The code path of the wrapper is ``operation`` of ``owner``.
    """

    def named(**arguments: Any) -> Any:
        context = arguments.pop(CONTEXT)
        return stand_in(arguments, context)

    # Messages, duplicate checks and the admin identify a tool by its code path.
    named.__module__, named.__name__ = owner.__module__, operation
    named.__qualname__ = f"{owner.__qualname__}.{operation}"
    return named


def shared_options(owner: type, options: Mapping[str, Any]) -> ToolOptions:
    """Parse the options of one ``expose`` line. Raises TypeError for an unknown option."""
    check_options(code_path(owner), options, SharedKeywords.__annotations__)
    return ToolOptions(**options)


def snake_case(name: str) -> str:
    """Convert ``OrderLine`` to ``order_line``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def chosen(where: str, kind: str, given: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return ``given`` as a tuple. Raises DefinitionError if it is a string, empty or not in ``known``."""
    if isinstance(given, str):
        raise DefinitionError(f"{where}: {kind} is a list of names, got the string {given!r}.")
    names, there = tuple(dict.fromkeys(given)), list(known)
    if not names:
        raise DefinitionError(f"{where}: {kind} is empty. Choose from {', '.join(there)}.")
    for name in names:
        if name not in there:
            near = get_close_matches(str(name), there, n=1)
            meant = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(there)}."
            raise DefinitionError(f"{where}: {kind} has no {name!r}. {meant}")
    return names
