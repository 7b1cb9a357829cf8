"""The builder of tool definitions from a function and its decorator's options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mcp_app.catalogue.definitions import input_schemas, output_schemas, signatures
from mcp_app.catalogue.definitions.definition import DefinitionError, ToolDefinition, ToolFunction, Wire
from mcp_app.catalogue.definitions.hint_checks import check_returns
from mcp_app.catalogue.definitions.tool_limits import (
    MAX_APPROVAL_MINUTES,
    MAX_PRIORITY,
    MAX_RESULT,
    MAX_RETRIES,
    MIN_RESULT_BYTES,
    MIN_RESULT_TOKENS,
    POSITIVE,
    QUEUE_NAME,
    LimitKeywords,
    ToolLimits,
)
from mcp_app.catalogue.definitions.typing_rules import translated
from mcp_app.catalogue.definitions.wire_parts import (
    EntryKeywords,
    EntryOptions,
    check_name,
    check_permission,
    shared_wire,
)
from mcp_app.catalogue.schemas import schema_bounds, validation
from mcp_app.catalogue.schemas.portable import portable
from mcp_app.protocol.http import param_headers


class TaskKeywords(EntryKeywords, LimitKeywords, total=False):
    """The options of an exposed Celery task, for the type checker.

    ``background`` is missing because such a task always runs in the background.
    """

    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    atomic: bool
    task_required: bool
    asks_first: Callable[..., Any] | None
    input_schema: Wire | None
    output_schema: Wire | None


class ToolKeywords(TaskKeywords, total=False):
    """The options of a tool, for the type checker."""

    background: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions(EntryOptions, ToolLimits):
    """The options of a tool. If a hint (TOOL-19) is None, the protocol's default applies."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    atomic: bool = False
    task_required: bool = False
    asks_first: Callable[..., Any] | None = None
    input_schema: Wire | None = None
    output_schema: Wire | None = None


def define_tool(
    function: Callable[..., Any], options: ToolOptions, *, is_made: bool = False
) -> ToolDefinition:
    """Build the definition. Raises DefinitionError naming the function.

    With ``is_made`` the schemas in ``options`` were generated and are therefore rewritten in portable form.
    Hand-written schemas are not rewritten.
    """
    input_schema, output_schema = options.input_schema, options.output_schema
    signature = signatures.read(function, hints_required=input_schema is None)
    where = signatures.code_path(function)
    name = check_name(where, options.name or getattr(function, "__name__", ""))
    # Before the limits in general, because its error names the range.
    _check_approval(where, options)
    _check_limits(where, options)
    _check_queueing(where, options)
    wire = shared_wire(where, name, options, signature.description)
    if input_schema is None:
        _refuse_open_arguments(where, signature)
        wire["inputSchema"] = translated(input_schemas.input_schema(signature))
        bind = input_schemas.binder(signature)
    else:
        wire["inputSchema"] = _raw_input(where, input_schema, signature)
        bind = input_schemas.raw_binder(signature)
    check_returns(where, signature.returns)
    output = _output(signature, output_schema)
    _check_result_bounds(where, options, output)
    if output.schema is not None:
        wire["outputSchema"] = translated(output.schema)
    for member, written in (("inputSchema", input_schema), ("outputSchema", output_schema)):
        if member in wire and (is_made or written is None):
            wire[member] = portable(wire[member])
    if annotations := _annotations(options):
        wire["annotations"] = annotations
    _check_schema(where, wire, "inputSchema", is_written=input_schema is not None)
    _check_schema(where, wire, "outputSchema", is_written=output_schema is not None)
    return ToolDefinition(
        name=name,
        wire=wire,
        function=replace(signature.callable_with(bind), is_atomic=_is_atomic(where, options, signature)),
        code_path=where,
        permission=check_permission(where, options.permission),
        task_required=options.task_required,
        asks_first=_asks_first(where, options, signature),
        wraps_result=output.wraps,
        **{**options.limits(), "background": _is_queued(options)},
    )


def _is_atomic(where: str, options: ToolOptions, signature: signatures.Signature) -> bool:
    if options.atomic and signature.is_async:
        raise DefinitionError(
            f"{where}: atomic=True needs a synchronous function, because Django's transactions belong to one "
            "thread. Write it with def: it runs in a thread of its own."
        )
    return options.atomic


def _asks_first(where: str, options: ToolOptions, tool: signatures.Signature) -> ToolFunction | None:
    """Return the function that asks questions before a call becomes a task.

    The function receives only the arguments that are its parameters.
    """
    if options.asks_first is None:
        return None
    if not (options.background or options.task_required):
        raise DefinitionError(f"{where}: asks_first needs background=True or task_required=True.")
    signature = signatures.read(options.asks_first)
    names = frozenset(item.name for item in signature.parameters)
    known = {item.name for item in tool.parameters}
    if signature.context_name is None:
        raise DefinitionError(f"{where}: asks_first needs a parameter for the Context, to ask with.")
    if not tool.takes_any and (unknown := sorted(names - known)):
        raise DefinitionError(f"{where}: asks_first takes {unknown[0]!r}, which is no argument of the tool.")
    bind = input_schemas.binder(signature)
    return signature.callable_with(
        lambda arguments: bind({name: value for name, value in arguments.items() if name in names})
    )


def _annotations(options: ToolOptions) -> Wire:
    """Return the hints that are set (TOOL-19)."""
    wire = {
        "readOnlyHint": options.read_only,
        "destructiveHint": options.destructive,
        "idempotentHint": options.idempotent,
        "openWorldHint": options.open_world,
    }
    return {name: value for name, value in wire.items() if value is not None}


def _output(signature: signatures.Signature, given: Wire | None) -> output_schemas.Output:
    return (
        output_schemas.describe(signature.returns)
        if given is None
        else output_schemas.with_object_root(dict(given))
    )


def _raw_input(where: str, schema: Wire, signature: signatures.Signature) -> Wire:
    """Return the schema unchanged (SCHEMA-02) after checking it against the function's parameters."""
    if schema.get("type") != "object":
        raise DefinitionError(f'{where}: input_schema needs "type": "object" at its root.')
    properties = schema.get("properties", {})
    accepted = {item.name for item in signature.parameters}
    if not signature.takes_any and (unknown := sorted(set(properties) - accepted)):
        raise DefinitionError(f"{where}: takes no parameter {unknown[0]!r}; add it, or take **arguments.")
    required = set(schema.get("required", ()))
    if unfilled := sorted({item.name for item in signature.parameters if item.required} - required):
        name = unfilled[0]
        raise DefinitionError(f"{where}: parameter {name!r} needs a default, as input_schema may omit it.")
    return schema


def _refuse_open_arguments(where: str, signature: signatures.Signature) -> None:
    if signature.takes_any:
        raise DefinitionError(f"{where}: **arguments needs an input_schema that describes them.")


def _is_queued(options: ToolOptions) -> bool:
    return options.background or options.needs_approval or options.task_required


def _check_limits(where: str, options: ToolOptions) -> None:
    if options.timeout is not None and options.timeout <= 0:
        raise DefinitionError(
            f"{where}: timeout is in seconds and must be positive, got {options.timeout!r}."
        )
    for limit in POSITIVE:
        number = getattr(options, limit)
        if number is not None and number <= 0:
            raise DefinitionError(f"{where}: {limit} must be positive, got {number!r}.")


def _check_result_bounds(where: str, options: ToolOptions, output: output_schemas.Output) -> None:
    for limit, least in (("max_result_tokens", MIN_RESULT_TOKENS), ("max_result_bytes", MIN_RESULT_BYTES)):
        number = getattr(options, limit)
        if number is not None and not least <= number <= MAX_RESULT:
            raise DefinitionError(f"{where}: {limit} is {least} to {MAX_RESULT}, got {number!r}.")
        if number is not None and output.schema is not None:
            raise DefinitionError(
                f"{where}: {limit} does not apply to a tool with an output schema: annotate it with -> Any."
            )


def _check_queueing(where: str, options: ToolOptions) -> None:
    if not _is_queued(options) and (
        options.retries or options.queue or options.priority or options.max_running
    ):
        raise DefinitionError(f"{where}: retries, queue, priority and max_running need background=True.")
    if options.retries and options.idempotent is not True:
        # R6: a call that must not happen twice must not start twice.
        raise DefinitionError(
            f"{where}: retries need idempotent=True, as a lost attempt may have done its work."
        )
    if not 0 <= options.retries <= MAX_RETRIES or not 0 <= options.priority <= MAX_PRIORITY:
        raise DefinitionError(f"{where}: retries are 0 to {MAX_RETRIES} and priority is 0 to {MAX_PRIORITY}.")
    if options.queue and not QUEUE_NAME.fullmatch(options.queue):
        raise DefinitionError(f"{where}: a queue is named by letters, digits and _.- only.")


def _check_approval(where: str, options: ToolOptions) -> None:
    if not options.needs_approval and (options.approval_minutes is not None or options.four_eyes):
        raise DefinitionError(f"{where}: approval_minutes and four_eyes need needs_approval=True.")
    if options.approval_minutes is not None and not 1 <= options.approval_minutes <= MAX_APPROVAL_MINUTES:
        raise DefinitionError(f"{where}: approval_minutes are 1 to {MAX_APPROVAL_MINUTES}.")


def _check_schema(where: str, wire: Wire, member: str, *, is_written: bool) -> None:
    """Check a schema by compiling it. A hand-written schema must respect the bounds for foreign schemas."""
    if member not in wire:
        return
    compiled = schema_bounds.compile_foreign if is_written else validation.compile_schema
    try:
        compiled(wire[member])
        if member == "inputSchema":
            param_headers.read(wire[member])
    except (validation.SchemaError, ValueError) as error:
        raise DefinitionError(f"{where}: {member}: {error}") from error
