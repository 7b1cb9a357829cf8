"""Conversion of operations to HTTP tools: request plan, input schema, texts and hints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

import orjson

from mcp_app.catalogue.definitions.tool_limits import BYTES_PER_TOKEN
from mcp_app.catalogue.schemas.schema_bounds import MAX_BYTES, compile_foreign
from mcp_app.catalogue.schemas.validation import SchemaError
from mcp_app.catalogue.sources.http.openapi import names, security
from mcp_app.catalogue.sources.http.openapi.bodies import Body, Member, body_of
from mcp_app.catalogue.sources.http.openapi.faults import Note, Unconvertible
from mcp_app.catalogue.sources.http.openapi.parameters import PLACEHOLDER, Parameter, parameters_of
from mcp_app.catalogue.sources.http.openapi.reading import Document, Place
from mcp_app.catalogue.sources.http.openapi.schemas import (
    MAX_DESCRIPTION,
    Converted,
    Schema,
    Schemas,
    cleaned,
    definition_name,
    too_large,
)
from mcp_app.catalogue.sources.http.openapi.servers import Server, servers_of

MAX_TITLE: Final = 200
MAX_TEXT: Final = 2_000
_SAFE: Final = ("GET", "HEAD", "OPTIONS", "TRACE")
_MAX_NOTES: Final = 50
_PATH_TEXT: Final = "/:@!$&'()*+,;=~%"


@dataclass(frozen=True, slots=True)
class ConvertedTool:
    """An operation as a tool. ``size`` is the length of its definition in ``tools/list``, in bytes.

    ``is_recursive`` is True if a type of its arguments contains itself, which some clients refuse.
    """

    key: str
    name: str
    title: str
    description: str
    input_schema: Schema
    request: dict[str, Any]
    annotations: dict[str, bool]
    tags: tuple[str, ...]
    notes: tuple[Note, ...]
    size: int
    is_recursive: bool

    @property
    def tokens(self) -> int:
        """The estimated number of tokens that the definition takes in a model's context."""
        return self.size // BYTES_PER_TOKEN


class Converter:
    """The conversion of operations of one document for one server.

    ``credentials`` are the names of stored credentials by security scheme, and ``content_types`` the types of
    bodies by operation key.
    """

    def __init__(
        self,
        document: Document,
        *,
        server: Server | None = None,
        credentials: Mapping[str, str] | None = None,
        prefix: str = "",
        content_types: Mapping[str, str] | None = None,
    ) -> None:
        self.document = document
        self.server = server or servers_of(document)[0]
        self.credentials = dict(credentials or {})
        self.prefix = prefix
        self.content_types = dict(content_types or {})
        self.schemas = Schemas(document)

    @cached_property
    def names(self) -> dict[str, str]:
        """The names of all tools by operation key."""
        return names.tool_names(
            {key: place.operation for key, place in self.document.places.items()}, self.prefix
        )

    @cached_property
    def schemes(self) -> dict[str, security.Scheme]:
        """The security schemes of the document by name."""
        return security.schemes_of(self.document)

    @cached_property
    def filled(self) -> frozenset[tuple[str, str]]:
        """The places and names of parameters that a credential fills."""
        return security.filled_parameters(self.schemes)

    def tool(self, key: str) -> ConvertedTool:
        """Return the tool of an operation, with a checked schema. Raises Unconvertible."""
        found = self.outline(key)
        try:
            compile_foreign(found.input_schema)
        except SchemaError as error:
            raise Unconvertible(
                self.document.places[key].pointer, f"Its arguments cannot be checked: {error}"
            ) from error
        return found

    def outline(self, key: str) -> ConvertedTool:
        """Return the tool of an operation without checking its schema as a whole. Raises Unconvertible."""
        place = self.document.places[key]
        if place.method == "TRACE":
            raise Unconvertible(place.pointer, "TRACE requests are not sent")
        notes: list[Note] = []
        parameters = parameters_of(self.document, place, self.filled, notes)
        body = body_of(self.document, place, notes, self.content_types.get(key, ""))
        arguments = _Arguments(self.schemas, parameters, body)
        schema, more, is_recursive = arguments.schema(place.pointer)
        request = self._request(place, arguments, notes)
        title, description = texts_of(place)
        wire = {
            "name": self.names[key],
            "title": title,
            "description": description,
            "inputSchema": schema,
            "annotations": (hints := hints_of(place.method)),
        }
        size = len(orjson.dumps(wire, default=str))
        if size > MAX_BYTES:
            raise too_large(place.pointer)
        found = tuple(dict.fromkeys((*notes, *more)))[:_MAX_NOTES]
        return ConvertedTool(
            key=key,
            name=self.names[key],
            title=title,
            description=description,
            input_schema=schema,
            request=request,
            annotations=hints,
            tags=tags_of(place),
            notes=found,
            size=size,
            is_recursive=is_recursive,
        )

    def _request(self, place: Place, arguments: _Arguments, notes: list[Note]) -> dict[str, Any]:
        server = self._server(place, notes)
        found: dict[str, Any] = {
            "origin": server.origin,
            "method": place.method,
            "path": server.base + arguments.path(place.path),
            "operation": place.key,
        }
        found |= arguments.request()
        if any("json" in kind.lower() for kind in _produced(self.document, place)):
            found["headers"] = {"Accept": "application/json"}
        requirements = security.requirements_of(self.document, place)
        wanted = security.needed(requirements, self.schemes, self.credentials)
        given = {self.credentials.get(name, "") for name in wanted}
        if credential := next(iter(given), "") if len(given) == 1 else "":
            found["credential"] = credential
        if len(wanted) > 1 and not credential:
            hint = security.together(wanted, self.schemes)
            if any(given):
                raise Unconvertible(place.pointer, hint)
            notes.append(Note(place.pointer, hint))
        for name in wanted:
            scheme = self.schemes.get(name)
            if scheme is None or not scheme.kind:
                hint = scheme.hint if scheme is not None else "it is not described"
                notes.append(Note(place.pointer, f"Security {name[:100]!r}: {hint}"))
        return found

    def _server(self, place: Place, notes: list[Note]) -> Server:
        """Return the chosen server, or the operation's server if it has one."""
        own = place.operation.get("servers") or place.item.get("servers")
        if not own:
            return self.server
        server = servers_of(self.document, own)[0]
        if server.problem:
            return self.server
        if server.url != self.server.url:
            notes.append(Note(f"{place.pointer}/servers", f"It is sent to its own server, {server.url}"))
        return server


class _Arguments:
    """The arguments of one operation: their names, their schema, and how they are sent."""

    def __init__(self, schemas: Schemas, parameters: list[Parameter], body: Body | None) -> None:
        self._schemas = schemas
        self._parameters = parameters
        self._body = body
        self._members = () if body is None else body.members if body.whole is None else (body.whole,)
        wires = [(each.name, each.place) for each in parameters]
        wires += [(each.name, "body") for each in self._members]
        found = names.argument_names(wires)
        self._names = found[: len(parameters)]
        self._member_names = dict(
            zip((each.name for each in self._members), found[len(parameters) :], strict=True)
        )
        self._aliases: dict[str, str] = {}

    def schema(self, pointer: str) -> tuple[Schema, list[Note], bool]:
        """Return the input schema, its notes, and True if it is recursive. Raises Unconvertible."""
        properties: dict[str, Schema] = {}
        required: list[str] = []
        targets: dict[str, None] = {}
        notes: list[Note] = []
        for argument, given in self._all():
            found = self._schemas.convert(given.schema, given.pointer)
            self._take(found, targets, notes)
            properties[argument] = _described(found.schema, given)
            if given.required:
                required.append(argument)
        reached = self._schemas.reached(tuple(targets))
        definitions: dict[str, Schema] = {}
        for target in reached:
            component = self._schemas.component(target)
            definitions[definition_name(target)] = component.schema
            notes += component.notes
            self._aliases |= component.aliases
        schema: Schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False
        if definitions:
            schema["$defs"] = definitions
        return schema, notes, self._schemas.is_recursive(reached)

    def path(self, path: str) -> str:
        """Return a path with its arguments as placeholders, and all other text percent-encoded."""
        names = {each.name: name for each, name in self._pairs() if each.place == "path"}
        parts = PLACEHOLDER.split(path)
        return "".join(
            f"{{{names[part]}}}" if number % 2 else quote(part, safe=_PATH_TEXT)
            for number, part in enumerate(parts)
        )

    def request(self) -> dict[str, Any]:
        """Return parameters, body and aliases of the request plan. Call ``schema`` first."""
        found: dict[str, Any] = {"parameters": [each.wire(argument) for each, argument in self._pairs()]}
        if self._body is not None:
            found["body"] = self._body.wire(self._member_names)
        return {**found, "aliases": self._aliases} if self._aliases else found

    def _all(self) -> list[tuple[str, Parameter | Member]]:
        members = ((self._member_names[each.name], each) for each in self._members)
        return [*((argument, each) for each, argument in self._pairs()), *members]

    def _pairs(self) -> list[tuple[Parameter, str]]:
        return [*zip(self._parameters, self._names, strict=True)]

    def _take(self, found: Converted, targets: dict[str, None], notes: list[Note]) -> None:
        targets.update(dict.fromkeys(found.targets))
        notes += found.notes
        self._aliases |= found.aliases


def hints_of(method: str) -> dict[str, bool]:
    """Return the annotations of a tool that sends this method (INT-25)."""
    return {
        "readOnlyHint": method in _SAFE,
        "destructiveHint": method == "DELETE",
        "idempotentHint": method in (*_SAFE, "PUT", "DELETE"),
        "openWorldHint": True,
    }


def texts_of(place: Place) -> tuple[str, str]:
    """Return title and description of an operation."""
    summary = " ".join(cleaned(place.operation.get("summary")).split())
    description = cleaned(place.operation.get("description"), MAX_TEXT)
    hint = place.operation.get("x-speakeasy-mcp")
    if isinstance(hint, dict) and (own := cleaned(hint.get("description"), MAX_TEXT)):
        description = own
    elif summary and not description.startswith(summary):
        description = f"{summary}\n\n{description}".strip()
    return cleaned(summary, MAX_TITLE), description or place.key


def tags_of(place: Place) -> tuple[str, ...]:
    """Return the tags of an operation."""
    given = place.operation.get("tags")
    return tuple(dict.fromkeys(cleaned(tag, 100) for tag in given if tag)) if isinstance(given, list) else ()


def _described(schema: Schema, given: Parameter | Member) -> Schema:
    """Return the schema with the parameter's own description, which comes before that of its schema."""
    text = cleaned(given.description, MAX_DESCRIPTION) if isinstance(given, Parameter) else ""
    return {**schema, "description": text} if text else schema


def _produced(document: Document, place: Place) -> list[str]:
    """Return the content types of successful answers."""
    found: list[str] = []
    responses = place.operation.get("responses")
    for status, response in responses.items() if isinstance(responses, dict) else ():
        if str(status)[:1] != "2" and status != "default":
            continue
        try:
            solved = document.solved(response)
        except KeyError:
            continue
        content = solved.get("content") if isinstance(solved, dict) else None
        found += content if isinstance(content, dict) else ()
    return found
