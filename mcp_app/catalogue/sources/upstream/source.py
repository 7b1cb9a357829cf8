"""The source of tools of other MCP servers."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from mcp_app import conf
from mcp_app.catalogue.definitions.content import ToolResult
from mcp_app.catalogue.definitions.definition import Definition, DefinitionError, ToolDefinition, ToolFunction
from mcp_app.catalogue.schemas import schema_bounds
from mcp_app.catalogue.schemas.validation import SchemaError
from mcp_app.catalogue.sources.base import Adding, Source
from mcp_app.catalogue.sources.checking import Errors, UnfitError, collect
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.catalogue.sources.tool_checks import check_clients, check_hints, check_output, check_stored
from mcp_app.catalogue.sources.upstream.calls import called
from mcp_app.catalogue.sources.upstream.known import read
from mcp_app.catalogue.sources.upstream.plan import UpstreamPlan
from mcp_app.models import Tool, Upstream
from mcp_app.protocol.http import param_headers
from mcp_app.protocol.messages.names import check_name

# Users who may change the servers may use them in tools that they may change.
USE: Final = "mcp_app.change_upstream"
# The columns with words of the server.
_FOREIGN: Final = (
    "title", "description", "icons", "request", "input_schema", "output_schema", "annotations",
)  # fmt: skip


class UpstreamSource(Source):
    """Tools of other MCP servers, as an administrator has approved them."""

    stored = "upstream"
    label = "upstream server"
    kinds = (Tool,)
    tone = "warn"
    origin = unserved = ""
    own_fields = {Tool: ("name", "request", "input_schema", "output_schema", "annotations")}
    adding = {
        Tool: Adding(
            "upstream server",
            "Tools of another MCP server.",
            "admin:mcp_app_upstream_add",
            permissions=("mcp_app.view_upstream", "mcp_app.add_upstream"),
        )
    }
    travels = True

    def definition(self, row: Any) -> Definition | None:
        """Return the definition of a tool that calls the tool of another server. Raises DefinitionError."""
        plan = UpstreamPlan.read(row.request)
        wire: dict[str, Any] = {"name": row.name, "inputSchema": row.input_schema}
        if row.output_schema:
            wire["outputSchema"] = row.output_schema
        if row.annotations:
            wire["annotations"] = row.annotations
        return ToolDefinition(name=row.name, wire=wire, code_path="", function=_function(row, plan))

    def check(self, row: Any, errors: Errors) -> None:
        """Check name, request, schemas and hints."""
        self._check_owner(row, errors)
        for name in _FOREIGN:
            collect(errors, name, partial(check_stored, getattr(row, name)))
        collect(errors, "name", lambda: check_name(row.name))
        collect(errors, "request", lambda: _check_request(row.request))
        collect(errors, "annotations", lambda: check_hints(row.annotations))
        collect(errors, "output_schema", lambda: check_output(row.output_schema))
        collect(errors, "input_schema", lambda: _check_input(row.input_schema))
        if row.enabled and conf.get().strict_schemas and not errors:
            collect(errors, "input_schema", lambda: check_clients(row))

    def warnings(self, row: Any) -> Errors:
        """Return the reason why calls of a tool are refused now."""
        try:
            plan = UpstreamPlan.read(row.request)
        except DefinitionError:
            return {}
        upstream = Upstream.objects.defer("listed").filter(name=plan.upstream).first()
        if upstream is None:
            return {}
        objection = read(upstream).objection(plan.tool, plan.definition)
        return (
            {"request": [f"Calls are refused: the server {plan.upstream} {objection}"]} if objection else {}
        )

    def permission_to_store(self, row: Any) -> tuple[str, str, str]:
        """Return the permission to use upstream servers."""
        return USE, "request", "upstream: Only users who may change upstream servers can use one."

    def _check_owner(self, row: Tool, errors: Errors) -> None:
        """Name both owners of a name that is taken (INT-68)."""
        other = Tool.objects.filter(name=row.name).exclude(pk=row.pk).first()
        if other is None:
            return
        owners = (f"the tool {row.name!r} of {self.owner(row)}", self.owner(other))
        errors["name"] = [f"The name of {owners[0]} is taken by {owners[1]}. Choose another name or prefix."]

    def owner(self, row: Tool) -> str:
        """Return the owner of a tool's name, for messages."""
        if not self.owns(row):
            return f"a tool of the source {source_of(row).label!r}"
        try:
            return f"the server {UpstreamPlan.read(row.request).upstream!r}"
        except DefinitionError:
            return "an upstream server"


def _function(row: Tool, plan: UpstreamPlan) -> ToolFunction:
    seconds = row.timeout_seconds
    try:
        repeated = param_headers.read(row.input_schema)
    except ValueError as error:
        raise DefinitionError(str(error)) from None

    async def send(arguments: dict[str, Any], context: Any) -> ToolResult:
        return await called(plan, arguments, context, seconds=seconds, repeated=repeated)

    return ToolFunction(
        call=send, is_async=True, context_name="context", bind=lambda arguments: {"arguments": arguments}
    )


def _check_request(request: Any) -> None:
    try:
        plan = UpstreamPlan.read(request)
    except DefinitionError as error:
        raise UnfitError(str(error)) from None
    if not Upstream.objects.filter(name=plan.upstream).exists():
        raise UnfitError(f"There is no upstream server {plan.upstream!r}: add it first.")


def _check_input(schema: Any) -> None:
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise UnfitError('An input schema is an object with "type": "object".')
    try:
        schema_bounds.compile_foreign(schema)
        param_headers.read(schema)
    except (SchemaError, ValueError) as error:
        raise UnfitError(str(error)) from None


UPSTREAM: Final = UpstreamSource()
