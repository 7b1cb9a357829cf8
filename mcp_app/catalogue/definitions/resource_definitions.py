"""The builder of resource and template definitions from a function and its decorator's options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcp_app.catalogue.definitions import input_schemas, signatures
from mcp_app.catalogue.definitions.definition import (
    CompletionSource,
    DefinitionError,
    ResourceDefinition,
    Wire,
)
from mcp_app.catalogue.definitions.prompt_definitions import check_completions
from mcp_app.catalogue.definitions.wire_parts import EntryOptions, check_permission, shared_wire
from mcp_app.protocol.messages import uri_template


def define_resource(
    function: Callable[..., Any],
    uri: str,
    options: EntryOptions,
    *,
    mime_type: str,
    annotations: Mapping[str, Any],
    size: int | None,
    completions: Mapping[str, CompletionSource],
) -> ResourceDefinition:
    """Build the definition. Raises DefinitionError naming the function."""
    signature = signatures.read(function, hints_required=False)
    where = signatures.code_path(function)
    variables = _variables(where, uri)
    _check_parameters(where, signature, variables)
    check_completions(where, completions, variables)
    is_template = bool(variables)
    name = options.name or getattr(function, "__name__", "")
    shared = shared_wire(where, name, options, signature.description)
    wire: Wire = {"uriTemplate" if is_template else "uri": uri, **shared}
    own_size = None if is_template else size
    optional = {"mimeType": mime_type, "annotations": dict(annotations), "size": own_size}
    wire.update({key: value for key, value in optional.items() if value not in ("", {}, None)})
    return ResourceDefinition(
        uri=uri,
        is_template=is_template,
        wire=wire,
        function=signature.callable_with(input_schemas.text_binder(signature)),
        code_path=where,
        permission=check_permission(where, options.permission),
        completions=completions,
    )


def _variables(where: str, uri: str) -> tuple[str, ...]:
    if not isinstance(uri, str):
        raise DefinitionError(f"{where}: the decorator needs a URI, for example @resource('notes://today').")
    try:
        return uri_template.compile(uri).names
    except ValueError as error:
        raise DefinitionError(f"{where}: {error}") from error


def _check_parameters(where: str, signature: signatures.Signature, variables: tuple[str, ...]) -> None:
    names = {item.name for item in signature.parameters}
    if missing := [name for name in variables if name not in names and not signature.takes_any]:
        raise DefinitionError(f"{where}: the template has {{{missing[0]}}}, the function does not.")
    required = [item.name for item in signature.parameters if item.required and item.name not in variables]
    if required:
        raise DefinitionError(f"{where}: parameter {required[0]!r} is not a variable of the URI template.")
