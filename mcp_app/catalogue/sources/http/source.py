"""The source of HTTP tools: tools that send a request which administrators describe."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from mcp_app import conf
from mcp_app.catalogue.definitions.content import ToolResult
from mcp_app.catalogue.definitions.definition import Definition, DefinitionError, ToolDefinition, ToolFunction
from mcp_app.catalogue.schemas import schema_bounds
from mcp_app.catalogue.schemas.validation import SchemaError
from mcp_app.catalogue.sources.base import Adding, Source
from mcp_app.catalogue.sources.checking import Errors, UnfitError, collect
from mcp_app.catalogue.sources.http.arguments import FIELDS, unused
from mcp_app.catalogue.sources.http.calls import called
from mcp_app.catalogue.sources.http.plan import RequestPlan
from mcp_app.catalogue.sources.tool_checks import check_clients, check_hints, check_output, check_stored
from mcp_app.credentials.services import NOT_ALLOWED, USE, bound_to
from mcp_app.models import Tool
from mcp_app.protocol.http import param_headers
from mcp_app.protocol.messages.names import check_name

_PICK: Final = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Names of the members to return. Leave it out to get all.",
}


class HttpSource(Source):
    """Tools that send an HTTP request, made in the admin or imported from an OpenAPI document."""

    stored = "http"
    label = "HTTP tool"
    kinds = (Tool,)
    tone = "good"
    origin = unserved = ""
    own_fields = {Tool: ("name", "request", "input_schema", "output_schema", "annotations")}
    adding = {Tool: Adding("HTTP tool", "A request to a web API.", "admin:mcp_app_tool_http")}
    travels = True

    def definition(self, row: Any) -> Definition | None:
        """Return the definition of a tool that sends the row's request. Raises DefinitionError."""
        plan = RequestPlan.read(row.request)
        wire: dict[str, Any] = {"name": row.name, "inputSchema": input_schema(plan, row.input_schema)}
        if row.output_schema:
            wire["outputSchema"] = row.output_schema
        wire["annotations"] = _annotations(plan, row.annotations)
        return ToolDefinition(name=row.name, wire=wire, code_path="", function=_function(plan))

    def check(self, row: Any, errors: Errors) -> None:
        """Check name, request, schemas and hints."""
        collect(errors, "name", lambda: check_name(row.name))
        collect(errors, "request", lambda: _check_request(row.request))
        collect(errors, "annotations", lambda: check_hints(row.annotations))
        collect(errors, "output_schema", lambda: check_output(row.output_schema))
        for name in ("request", "input_schema", "output_schema", "annotations"):
            if name not in errors:
                collect(errors, name, partial(check_stored, getattr(row, name)))
        if "request" not in errors:
            plan = RequestPlan.read(row.request)
            collect(errors, "input_schema", lambda: _check_input(plan, row.input_schema))
            if row.enabled and conf.get().strict_schemas and not errors:
                collect(errors, "input_schema", lambda: check_clients(row))

    def annotations_of(self, row: Tool) -> Any:
        """Return the annotations of a tool, with the hints of its method."""
        try:
            return _annotations(RequestPlan.read(row.request), row.annotations)
        except DefinitionError:
            return row.annotations

    def permission_to_store(self, row: Any) -> tuple[str, str, str]:
        """Return the permission to use a credential, if the row's request has one."""
        plan = RequestPlan.read(row.request)
        return (USE, "request", f"credential: {NOT_ALLOWED}") if plan.credential else ("", "", "")


def usual_hints(plan: RequestPlan) -> dict[str, bool]:
    """Return the hints that the method of a request implies."""
    hints = {"readOnlyHint": plan.is_safe, "openWorldHint": True}
    if not plan.is_safe:
        hints |= {"destructiveHint": plan.method == "DELETE", "idempotentHint": plan.may_repeat}
    return hints


def _annotations(plan: RequestPlan, own: Any) -> dict[str, Any]:
    return {**usual_hints(plan), **(own or {})}


def input_schema(plan: RequestPlan, stored: Any) -> dict[str, Any]:
    """Return the schema that clients see."""
    schema: dict[str, Any] = dict(stored) if isinstance(stored, Mapping) else {}
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})
    if plan.result.fields and FIELDS not in schema["properties"]:
        schema["properties"] = {**schema["properties"], FIELDS: _PICK}
    return schema


def _function(plan: RequestPlan) -> ToolFunction:
    async def send(arguments: dict[str, Any]) -> ToolResult:
        return await called(plan, arguments)

    return ToolFunction(
        call=send, is_async=True, context_name=None, bind=lambda arguments: {"arguments": arguments}
    )


def _check_request(request: Any) -> None:
    if request is None:
        raise UnfitError("Describe the request, at least its origin, method and path.")
    try:
        plan = RequestPlan.read(request)
    except DefinitionError as error:
        raise UnfitError(str(error)) from None
    if plan.credential and (problem := bound_to(plan.credential, plan.origin)):
        raise UnfitError(f"credential: {problem}")
    if plan.result.fields and FIELDS in plan.arguments():
        raise UnfitError(f"result.fields: the request has an argument with the name {FIELDS}.")


def _check_input(plan: RequestPlan, schema: Any) -> None:
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise UnfitError('An input schema is an object with "type": "object".')
    whole = input_schema(plan, schema)
    try:
        schema_bounds.compile_foreign(whole)
        param_headers.read(whole)
    except (SchemaError, ValueError) as error:
        raise UnfitError(str(error)) from None
    if problem := unused(plan, whole):
        raise UnfitError(problem)


HTTP: Final = HttpSource()
