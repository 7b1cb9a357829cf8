"""Registration of viewset actions as tools."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_app import optional_parts
from mcp_app.catalogue.definitions.definition import DefinitionError, ToolDefinition, Wire
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.definitions.signatures import code_path
from mcp_app.catalogue.definitions.tool_definitions import ToolOptions
from mcp_app.catalogue.exposure.adapters import (
    Prepare,
    chosen,
    deferred,
    definition_of,
    named_after,
    shared_options,
    snake_case,
)
from mcp_app.catalogue.exposure.viewsets.actions import Action, actions_of, untouched

if TYPE_CHECKING:
    from mcp_app.catalogue.exposure.viewsets.arguments import Arguments

# Maps tools to the code paths of actions whose views require no permission.
_open: dict[str, str] = {}


def has_open_view(name: str) -> bool:
    """Return True if the tool exposes an action whose view requires no permission."""
    tool = registry.tools.get(name)
    return tool is not None and _open.get(name) == tool.code_path


def open_tools() -> list[str]:
    """Return the names of tools that require no permission and whose views require none either."""
    return [name for name, tool in registry.tools.items() if not tool.permission and has_open_view(name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """The rarely used arguments of ``Expose.viewset``."""

    url: Mapping[str, Any] = field(default_factory=dict)
    input_schemas: Mapping[str, Wire] = field(default_factory=dict)
    prepare: Prepare | None = None
    choose_fields: bool = False


def offer(
    viewset: Any,
    actions: Iterable[str],
    prefix: str,
    extras: Extras,
    permission: str,
    options: Mapping[str, Any],
) -> None:
    """Register the actions as tools, as ``Expose.viewset`` describes.

    Schemas are read at the first use of a tool, because serializers may query tables that do not exist yet.
    """
    where = _checked(viewset)
    shared = replace(shared_options(viewset, options), permission=permission)
    with untouched(viewset):
        known = actions_of(viewset)
        names = chosen(where, "actions", actions, known)
        if extras.input_schemas:
            chosen(where, "input_schemas", extras.input_schemas, names)
        prefix = prefix or snake_case(viewset.__name__.removesuffix("ViewSet")) or "viewset"
        # All definitions are built before the first is registered, so an error leaves no tool registered.
        definitions = [_definition(known[name], prefix, extras, shared) for name in names]
    for definition in definitions:
        registry.add_tool(definition)


def _checked(viewset: Any) -> str:
    if missing := optional_parts.API.missing():
        raise DefinitionError(f"expose.viewset needs {', '.join(missing)}: {optional_parts.API.remedy()}")
    from rest_framework.viewsets import ViewSetMixin

    if not (isinstance(viewset, type) and issubclass(viewset, ViewSetMixin)):
        raise DefinitionError(f"{viewset!r} is no viewset of REST framework: give the class.")
    return code_path(viewset)


def _definition(action: Action, prefix: str, extras: Extras, shared: ToolOptions) -> ToolDefinition:
    from mcp_app.catalogue.exposure.viewsets.arguments import is_open, read, written

    if inspect.iscoroutinefunction(getattr(action.viewset, action.name)):
        raise DefinitionError(f"{action.where}: async actions cannot be exposed; write a tool for it.")
    if is_open(action):
        _open[f"{prefix}_{action.name}"] = action.where
    define = partial(_defined, action, prefix, extras, shared)
    if (schema := extras.input_schemas.get(action.name)) is not None:
        return define(written(action, schema))

    def make() -> ToolDefinition:
        with untouched(action.viewset):
            return define(read(action, prefix, choose_fields=extras.choose_fields))

    return deferred(define(written(action, {"type": "object"})), make)


def _defined(
    action: Action, prefix: str, extras: Extras, shared: ToolOptions, arguments: Arguments
) -> ToolDefinition:
    from mcp_app.catalogue.exposure.viewsets.calls import Exposed

    exposed = Exposed(action, prefix, arguments, extras.url, extras.prepare)
    options = replace(
        shared,
        name=f"{prefix}_{action.name}",
        description=action.described(prefix, arguments.description),
        input_schema=arguments.schema,
        **action.hints(),
    )
    is_made = action.name not in extras.input_schemas
    return definition_of(named_after(exposed, action.viewset, action.name), options, is_made=is_made)
