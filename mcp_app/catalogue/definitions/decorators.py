"""The decorators ``@tool``, ``@prompt`` and ``@resource``, which validate and register a function.

At import, an invalid definition raises a DefinitionError that names the function. An unknown option raises
a TypeError. The decorators return the function unchanged, so it can be called and tested as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Unpack, overload

from mcp_app.catalogue.definitions.definition import CompletionSource
from mcp_app.catalogue.definitions.prompt_definitions import define_prompt
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.definitions.resource_definitions import define_resource
from mcp_app.catalogue.definitions.tool_definitions import ToolKeywords, ToolOptions, define_tool
from mcp_app.catalogue.definitions.wire_parts import EntryKeywords, EntryOptions, read_options

F = TypeVar("F", bound=Callable[..., Any])


@overload
def tool(function: F) -> F: ...


@overload
def tool(**options: Unpack[ToolKeywords]) -> Callable[[F], F]: ...


def tool(function: F | None = None, **options: Unpack[ToolKeywords]) -> F | Callable[[F], F]:
    """Offer a function, sync or async, as a tool.

    ``name``, ``title``, ``description``, ``input_schema`` and ``output_schema`` come from the function, its
    docstring and type hints unless given here. Some clients show ``icons`` and ``meta``.
    ``tags`` are words that group entries, such as ``("billing",)``.

    ``read_only``, ``destructive``, ``idempotent`` and ``open_world`` are hints that clients use for warnings.
    With ``atomic`` a synchronous tool runs in one transaction, which is rolled back if the tool raises.
    ``timeout`` is in seconds, ``calls_per_minute`` counts per caller, ``permission`` is a Django permission.
    With ``background`` the tool runs in a Celery worker that consumes ``queue``. Calls with a higher
    ``priority`` (0 to 9) run first, and at most ``max_running`` calls run at once. If the worker is lost, an
    idempotent tool is retried up to ``retries`` times. With ``task_required`` the tool also runs in a worker.
    Clients of 2025-11-25 and 2026-07-28 must then call it as a task; older clients wait for the result.
    ``asks_first`` is a function that asks the user questions before the task is created. It takes the context
    and any of the tool's arguments. With ``needs_approval`` each call first waits, at most
    ``approval_minutes``, until an operator approves it. With ``four_eyes`` the caller may not be that
    operator. A result above ``max_result_tokens`` or ``max_result_bytes`` is cut, unless the tool has an
    output schema. ``cost`` is what a call spends of budgets in cost units.
    ``input_schema`` replaces the type hints: arguments then arrive exactly as the client sent them.
    Raises DefinitionError for an invalid definition and TypeError for an unknown option.
    """

    def register(decorated: F) -> F:
        parsed = read_options(ToolOptions, decorated, options)
        registry.add_tool(define_tool(decorated, parsed))
        return decorated

    return register if function is None else register(function)


@overload
def prompt(function: F) -> F: ...


@overload
def prompt(
    *, completions: Mapping[str, CompletionSource] | None = None, **options: Unpack[EntryKeywords]
) -> Callable[[F], F]: ...


def prompt(
    function: F | None = None,
    *,
    completions: Mapping[str, CompletionSource] | None = None,
    **options: Unpack[EntryKeywords],
) -> F | Callable[[F], F]:
    """Offer a function, sync or async, as a prompt. Its parameters are the prompt's arguments, all strings.

    ``completions`` maps an argument to its candidate values, or to a function ``(value, other_arguments)``
    that returns them. ``name``, ``title``, ``description``, ``icons``, ``meta``, ``tags`` and ``permission``
    are as in ``tool``. Raises DefinitionError for an invalid definition and TypeError for an unknown option.
    """

    def register(decorated: F) -> F:
        parsed = read_options(EntryOptions, decorated, options)
        registry.add_prompt(define_prompt(decorated, parsed, completions or {}))
        return decorated

    return register if function is None else register(function)


def resource(
    uri: str,
    *,
    mime_type: str = "",
    annotations: Mapping[str, Any] | None = None,
    size: int | None = None,
    completions: Mapping[str, CompletionSource] | None = None,
    **options: Unpack[EntryKeywords],
) -> Callable[[F], F]:
    """Offer a function, sync or async, as the resource ``uri`` or as every resource of a template.

    The variables of a template such as ``notes://{slug}`` are the function's parameters.

    ``completions`` maps a variable to its candidate values, as in ``prompt``. ``name``, ``title``,
    ``description``, ``icons``, ``meta``, ``tags`` and ``permission`` are as in ``tool``.
    Raises DefinitionError for an invalid definition and TypeError for an unknown option.
    """

    def register(decorated: F) -> F:
        parsed = read_options(EntryOptions, decorated, options)
        definition = define_resource(
            decorated,
            uri,
            parsed,
            mime_type=mime_type,
            annotations=annotations or {},
            size=size,
            completions=completions or {},
        )
        registry.add_resource(definition)
        return decorated

    return register
