"""``@tool``, ``@prompt`` and ``@resource``: they check a function and enter it in the registry.

A wrong definition is a DefinitionError at import that names the function. The function itself is returned
unchanged, so it can be called and tested as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

from mcp_app.catalogue.definitions import CompletionSource
from mcp_app.catalogue.prompt_definitions import define_prompt
from mcp_app.catalogue.registry import registry
from mcp_app.catalogue.resource_definitions import define_resource
from mcp_app.catalogue.tool_definitions import Hints, Limits, define_tool
from mcp_app.catalogue.wire_parts import Described, Icon

F = TypeVar("F", bound=Callable[..., Any])


@overload
def tool(function: F) -> F: ...


@overload
def tool(
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    icons: Iterable[Icon] = (),
    meta: Mapping[str, Any] | None = None,
    tags: Iterable[str] = (),
    permission: str = "",
    timeout: float | None = None,
    background: bool = False,
    retries: int = 0,
    queue: str = "",
    priority: int = 0,
    max_running: int | None = None,
    calls_per_minute: int | None = None,
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
) -> Callable[[F], F]: ...


def tool(
    function: F | None = None,
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    icons: Iterable[Icon] = (),
    meta: Mapping[str, Any] | None = None,
    tags: Iterable[str] = (),
    permission: str = "",
    timeout: float | None = None,
    background: bool = False,
    retries: int = 0,
    queue: str = "",
    priority: int = 0,
    max_running: int | None = None,
    calls_per_minute: int | None = None,
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
) -> F | Callable[[F], F]:
    """Offer a function, sync or async, as a tool.

    Name, description and schemas come from the function, its docstring and type hints unless given here.
    ``timeout`` is in seconds, ``calls_per_minute`` counts per caller, ``permission`` is a Django permission.
    ``background`` runs it in a Celery worker, from ``queue``, higher ``priority`` (0 to 9) first, at most
    ``max_running`` calls at once. When its worker is lost an idempotent one is started again, up to
    ``retries`` times.
    ``input_schema`` replaces the type hints: arguments then arrive exactly as the client sent them.
    Raises DefinitionError.
    """
    told = Described(
        title=title, description=description, icons=icons, meta=meta or {}, tags=tags, permission=permission
    )
    hints = Hints(read_only=read_only, destructive=destructive, idempotent=idempotent, open_world=open_world)
    limits = Limits(
        timeout=timeout,
        calls_per_minute=calls_per_minute,
        background=background,
        retries=retries,
        queue=queue,
        priority=priority,
        max_running=max_running,
    )

    def register(decorated: F) -> F:
        registry.add_tool(
            define_tool(
                decorated,
                name,
                told,
                hints=hints,
                limits=limits,
                input_schema=input_schema,
                output_schema=output_schema,
            )
        )
        return decorated

    return register if function is None else register(function)


@overload
def prompt(function: F) -> F: ...


@overload
def prompt(
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    icons: Iterable[Icon] = (),
    meta: Mapping[str, Any] | None = None,
    tags: Iterable[str] = (),
    permission: str = "",
    completions: Mapping[str, CompletionSource] | None = None,
) -> Callable[[F], F]: ...


def prompt(
    function: F | None = None,
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    icons: Iterable[Icon] = (),
    meta: Mapping[str, Any] | None = None,
    tags: Iterable[str] = (),
    permission: str = "",
    completions: Mapping[str, CompletionSource] | None = None,
) -> F | Callable[[F], F]:
    """Offer a function, sync or async, as a prompt; its parameters are the prompt's arguments, all strings.

    ``completions`` maps an argument to its candidate values, or to a function ``(value, other_arguments)``
    that returns them. Raises DefinitionError.
    """
    told = Described(
        title=title, description=description, icons=icons, meta=meta or {}, tags=tags, permission=permission
    )

    def register(decorated: F) -> F:
        registry.add_prompt(define_prompt(decorated, name, told, completions or {}))
        return decorated

    return register if function is None else register(function)


def resource(
    uri: str,
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    mime_type: str = "",
    icons: Iterable[Icon] = (),
    meta: Mapping[str, Any] | None = None,
    tags: Iterable[str] = (),
    permission: str = "",
    annotations: Mapping[str, Any] | None = None,
    size: int | None = None,
    completions: Mapping[str, CompletionSource] | None = None,
) -> Callable[[F], F]:
    """Offer a function, sync or async, as the resource ``uri``, or as every resource of a template such as
    ``notes://{slug}``, whose variables are the function's parameters. Raises DefinitionError.
    """
    told = Described(
        title=title, description=description, icons=icons, meta=meta or {}, tags=tags, permission=permission
    )

    def register(decorated: F) -> F:
        definition = define_resource(
            decorated,
            uri,
            name,
            told,
            mime_type=mime_type,
            annotations=annotations or {},
            size=size,
            completions=completions or {},
        )
        registry.add_resource(definition)
        return decorated

    return register
