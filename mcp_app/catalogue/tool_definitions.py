"""Builds a tool's definition from a function and what its decorator was told."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp_app.catalogue import json_schema, outputs, schema_bounds, signatures
from mcp_app.catalogue.definitions import DefinitionError, ToolDefinition, Wire
from mcp_app.catalogue.wire_parts import Described, check_name, check_permission, shared_wire

MAX_RETRIES = 10
MAX_PRIORITY = 9
QUEUE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Behaviour a client may rely on for its warnings (TOOL-19); None leaves the protocol's default."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    def to_wire(self) -> Wire:
        """The ``annotations`` member without what was not said."""
        wire = {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {name: value for name, value in wire.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds one call may take, calls per minute of one caller, and how long work is queued."""

    timeout: float | None = None
    calls_per_minute: int | None = None
    background: bool = False
    retries: int = 0
    queue: str = ""
    priority: int = 0
    max_running: int | None = None


def define_tool(
    function: Callable[..., Any],
    name: str,
    told: Described,
    *,
    hints: Hints,
    limits: Limits,
    input_schema: Wire | None,
    output_schema: Wire | None,
) -> ToolDefinition:
    """The definition; raises DefinitionError naming the function."""
    signature = signatures.read(function, hints_required=input_schema is None)
    where = signatures.code_path(function)
    name = check_name(where, name or getattr(function, "__name__", ""))
    _check_limits(where, limits)
    _check_queueing(where, limits, hints)
    wire = shared_wire(where, name, told, signature.description)
    if input_schema is None:
        _refuse_open_arguments(where, signature)
        wire["inputSchema"] = signatures.input_schema(signature)
        bind = signatures.binder(signature)
    else:
        wire["inputSchema"] = _raw_input(where, input_schema, signature)
        bind = signatures.raw_binder(signature)
    output = _output(signature, output_schema)
    if output.schema is not None:
        wire["outputSchema"] = output.schema
    if annotations := hints.to_wire():
        wire["annotations"] = annotations
    _check_schema(where, wire, "inputSchema", is_written=input_schema is not None)
    _check_schema(where, wire, "outputSchema", is_written=output_schema is not None)
    return ToolDefinition(
        name=name,
        wire=wire,
        function=signature.callable_with(bind),
        code_path=where,
        permission=check_permission(where, told.permission),
        timeout=limits.timeout,
        calls_per_minute=limits.calls_per_minute,
        background=limits.background,
        retries=limits.retries,
        queue=limits.queue,
        priority=limits.priority,
        max_running=limits.max_running,
        wraps_result=output.wraps,
    )


def _output(signature: signatures.Signature, given: Wire | None) -> outputs.Output:
    return outputs.describe(signature.returns) if given is None else outputs.with_object_root(dict(given))


def _raw_input(where: str, schema: Wire, signature: signatures.Signature) -> Wire:
    """The schema as written (SCHEMA-02), if it is of type object and the function can take its properties."""
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


def _check_limits(where: str, limits: Limits) -> None:
    if limits.timeout is not None and limits.timeout <= 0:
        raise DefinitionError(f"{where}: timeout is in seconds and must be positive, got {limits.timeout!r}.")
    if limits.calls_per_minute is not None and limits.calls_per_minute <= 0:
        raise DefinitionError(f"{where}: calls_per_minute must be positive, got {limits.calls_per_minute!r}.")


def _check_queueing(where: str, limits: Limits, hints: Hints) -> None:
    if not limits.background and (limits.retries or limits.queue or limits.priority or limits.max_running):
        raise DefinitionError(f"{where}: retries, queue, priority and max_running need background=True.")
    if limits.retries and hints.idempotent is not True:
        # R6: what may not happen twice must not be started twice.
        raise DefinitionError(
            f"{where}: retries need idempotent=True, as a lost attempt may have done its work."
        )
    if not 0 <= limits.retries <= MAX_RETRIES or not 0 <= limits.priority <= MAX_PRIORITY:
        raise DefinitionError(f"{where}: retries are 0 to {MAX_RETRIES} and priority is 0 to {MAX_PRIORITY}.")
    if limits.max_running is not None and limits.max_running < 1:
        raise DefinitionError(f"{where}: max_running must be at least 1, got {limits.max_running!r}.")
    if limits.queue and not QUEUE_NAME.fullmatch(limits.queue):
        raise DefinitionError(f"{where}: a queue is named by letters, digits and _.- only.")


def _check_schema(where: str, wire: Wire, member: str, *, is_written: bool) -> None:
    """A schema written by hand may come from anywhere, so it is held to the bounds of foreign ones."""
    if member not in wire:
        return
    compiled = schema_bounds.compile_foreign if is_written else json_schema.compile_schema
    try:
        compiled(wire[member])
    except json_schema.SchemaError as error:
        raise DefinitionError(f"{where}: {member}: {error}") from error
