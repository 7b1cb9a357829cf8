"""The source of tools, prompts and resources of other MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from mcp_app import conf
from mcp_app.catalogue.definitions.content import ToolResult
from mcp_app.catalogue.definitions.definition import (
    CompletionSource,
    Definition,
    DefinitionError,
    PromptDefinition,
    ResourceDefinition,
    ToolDefinition,
    ToolFunction,
)
from mcp_app.catalogue.schemas import schema_bounds
from mcp_app.catalogue.schemas.validation import SchemaError
from mcp_app.catalogue.sources.base import Adding, Source
from mcp_app.catalogue.sources.checking import Errors, UnfitError, collect
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.catalogue.sources.tool_checks import check_clients, check_hints, check_output, check_stored
from mcp_app.catalogue.sources.upstream.calls import called, completed, fetched, prompted
from mcp_app.catalogue.sources.upstream.kinds import (
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    ItemKind,
    kind_of,
)
from mcp_app.catalogue.sources.upstream.known import read
from mcp_app.catalogue.sources.upstream.plan import UpstreamPlan
from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool, Upstream
from mcp_app.protocol.http import param_headers
from mcp_app.protocol.messages import uri_template
from mcp_app.protocol.messages.names import check_name

# Users who may change the servers may use them in tools that they may change.
USE: Final = "mcp_app.change_upstream"
# The columns with words of the server.
_FOREIGN: Final = ("title", "description", "icons", "request", "annotations")
_OF_TOOLS: Final = ("input_schema", "output_schema")
_CONTENT: Final = ("name", "request", "mime_type", "annotations")


class UpstreamSource(Source):
    """Tools, prompts and resources of other MCP servers, as an administrator has approved them."""

    stored = "upstream"
    label = "upstream server"
    kinds = (Tool, Prompt, Resource, ResourceTemplate)
    tone = "warn"
    origin = unserved = ""
    own_fields = {
        Tool: ("name", "request", *_OF_TOOLS, "annotations"),
        Prompt: ("name", "request", "arguments"),
        Resource: ("uri", *_CONTENT),
        ResourceTemplate: ("uri_template", *_CONTENT),
    }
    adding = {
        Tool: Adding(
            "upstream server",
            "Tools, prompts and resources of another MCP server.",
            "admin:mcp_app_upstream_add",
            permissions=("mcp_app.view_upstream", "mcp_app.add_upstream"),
        )
    }
    travels = True
    uses_caller_token = True

    def has_button(self, kind: type[Any]) -> bool:
        """Return True for tools. The page of a server imports the other kinds too."""
        return kind is Tool

    def can_wait(self, request: str) -> bool:
        """Return True for tools without a page of results, which is looked up among the resources."""
        return '"ui"' not in request

    def definition(self, row: Any) -> Definition | None:
        """Return the definition of an entry that asks another server. Raises DefinitionError."""
        plan = UpstreamPlan.read(row.request, kind_of(type(row)))
        return _DEFINITIONS[plan.kind](row, plan)

    def check(self, row: Any, errors: Errors) -> None:
        """Check the key, the request, schemas and hints of an entry."""
        is_tool = isinstance(row, Tool)
        self._check_owner(row, errors)
        for name in (*_FOREIGN, *(_OF_TOOLS if is_tool else ())):
            if hasattr(row, name):
                collect(errors, name, partial(check_stored, getattr(row, name)))
        collect(errors, "request", lambda: _check_request(row.request, kind_of(type(row))))
        if isinstance(row, Tool | Prompt):
            collect(errors, "name", lambda: check_name(row.name))
        else:
            collect(errors, row.KEY, lambda: _check_uri(row))
        if not is_tool:
            return
        collect(errors, "annotations", lambda: check_hints(row.annotations))
        collect(errors, "output_schema", lambda: check_output(row.output_schema))
        collect(errors, "input_schema", lambda: _check_input(row.input_schema))
        if row.enabled and conf.get().strict_schemas and not errors:
            collect(errors, "input_schema", lambda: check_clients(row))

    def warnings(self, row: Any) -> Errors:
        """Return the reason why an entry is refused now."""
        try:
            plan = UpstreamPlan.read(row.request, kind_of(type(row)))
        except DefinitionError:
            return {}
        upstream = Upstream.objects.defer("listed").filter(name=plan.upstream).first()
        if upstream is None:
            return {}
        objection = read(upstream).objection(plan.key, plan.definition)
        return (
            {"request": [f"Calls are refused: the server {plan.upstream} {objection}"]} if objection else {}
        )

    def permission_to_store(self, row: Any) -> tuple[str, str, str]:
        """Return the permission to use upstream servers."""
        return USE, "request", "upstream: Only users who may change upstream servers can use one."

    def unavailable(self, kind: type[Any], key: str, row: Any) -> str:
        """Return "": catalogue files contain all entries of other servers."""
        return ""

    def _check_owner(self, row: Any, errors: Errors) -> None:
        """Name both owners of a name or URI that is taken (INT-68)."""
        kind, key = type(row), getattr(row, row.KEY)
        other = kind.objects.filter(**{row.KEY: key}).exclude(pk=row.pk).first()
        if other is None:
            return
        noun = "name" if row.KEY == "name" else "URI"
        owners = (f"the {kind_of(kind).noun} {key!r} of {self.owner(row)}", self.owner(other))
        errors[row.KEY] = [
            f"The {noun} of {owners[0]} is taken by {owners[1]}. Choose another name or prefix."
        ]

    def owner(self, row: Any) -> str:
        """Return the owner of an entry's key, for messages."""
        if not self.owns(row):
            return f"a {kind_of(type(row)).noun} of the source {source_of(row).label!r}"
        try:
            return f"the server {UpstreamPlan.read(row.request, kind_of(type(row))).upstream!r}"
        except DefinitionError:
            return "an upstream server"


def _tool(row: Tool, plan: UpstreamPlan) -> ToolDefinition:
    wire: dict[str, Any] = {"name": row.name, "inputSchema": row.input_schema}
    if row.output_schema:
        wire["outputSchema"] = row.output_schema
    if row.annotations:
        wire["annotations"] = row.annotations
    if plan.ui and (page := _published(plan.upstream, plan.ui)):
        wire["_meta"] = {"ui": {"resourceUri": page}}
    seconds = row.timeout_seconds
    try:
        repeated = param_headers.read(row.input_schema)
    except ValueError as error:
        raise DefinitionError(str(error)) from None

    async def send(arguments: dict[str, Any], context: Any) -> ToolResult:
        return await called(plan, arguments, context, seconds=seconds, repeated=repeated)

    return ToolDefinition(name=row.name, wire=wire, code_path="", function=_function(send))


def _published(upstream: str, uri: str) -> str:
    """Return the URI here of a published resource of a server, or ""."""
    found = Resource.objects.filter(request__upstream=upstream, request__resource=uri)
    return found.values_list("uri", flat=True).first() or ""


def _prompt(row: Prompt, plan: UpstreamPlan) -> PromptDefinition:
    async def send(arguments: dict[str, Any], context: Any) -> dict[str, Any]:
        return await prompted(plan, arguments, context)

    wire = {"name": row.name, **({"arguments": row.arguments} if row.arguments else {})}
    completions = {each["name"]: _completion(plan, each["name"]) for each in row.arguments}
    return PromptDefinition(
        name=row.name, wire=wire, code_path="", function=_function(send), completions=completions
    )


def _resource(row: Resource | ResourceTemplate, plan: UpstreamPlan) -> ResourceDefinition:
    is_template, key = isinstance(row, ResourceTemplate), str(getattr(row, row.KEY))
    try:
        template = uri_template.compile(plan.item)
    except ValueError as error:
        raise DefinitionError(str(error)) from None

    async def send(arguments: dict[str, Any], context: Any) -> list[dict[str, Any]]:
        return await fetched(plan, template.expand(arguments) if is_template else plan.item, context)

    wire: dict[str, Any] = {"uriTemplate" if is_template else "uri": key, "name": row.name}
    if row.mime_type:
        wire["mimeType"] = row.mime_type
    if row.annotations:
        wire["annotations"] = row.annotations
    completions = {name: _completion(plan, name) for name in template.names} if is_template else {}
    return ResourceDefinition(
        uri=key, wire=wire, code_path="", is_template=is_template, function=_function(send),
        completions=completions,
    )  # fmt: skip


_DEFINITIONS: Final[Mapping[ItemKind, Callable[[Any, UpstreamPlan], Definition]]] = {
    TOOLS: _tool,
    PROMPTS: _prompt,
    RESOURCES: _resource,
    TEMPLATES: _resource,
}


def _function(send: Callable[..., Any]) -> ToolFunction:
    return ToolFunction(
        call=send, is_async=True, context_name="context", bind=lambda arguments: {"arguments": arguments}
    )


def _completion(plan: UpstreamPlan, argument: str) -> CompletionSource:
    async def complete(value: str, others: Mapping[str, str]) -> list[str]:
        return await completed(plan, argument, value, others)

    return complete


def _check_request(request: Any, kind: ItemKind) -> None:
    try:
        plan = UpstreamPlan.read(request, kind)
    except DefinitionError as error:
        raise UnfitError(str(error)) from None
    if not Upstream.objects.filter(name=plan.upstream).exists():
        raise UnfitError(f"There is no upstream server {plan.upstream!r}: add it first.")


def _check_uri(row: Resource | ResourceTemplate) -> None:
    try:
        names = uri_template.compile(str(getattr(row, row.KEY))).names
    except ValueError as error:
        raise UnfitError(str(error)) from None
    if bool(names) != isinstance(row, ResourceTemplate):
        raise UnfitError("A URI has no {placeholders}, and a template has some.")


def _check_input(schema: Any) -> None:
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise UnfitError('An input schema is an object with "type": "object".')
    try:
        schema_bounds.compile_foreign(schema)
        param_headers.read(schema)
    except (SchemaError, ValueError) as error:
        raise UnfitError(str(error)) from None


UPSTREAM: Final = UpstreamSource()
