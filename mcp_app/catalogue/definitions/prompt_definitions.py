"""The builder of prompt definitions from a function and its decorator's options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from mcp_app.catalogue.definitions import signatures
from mcp_app.catalogue.definitions.definition import CompletionSource, DefinitionError, PromptDefinition, Wire
from mcp_app.catalogue.definitions.wire_parts import EntryOptions, check_name, check_permission, shared_wire


def define_prompt(
    function: Callable[..., Any], options: EntryOptions, completions: Mapping[str, CompletionSource]
) -> PromptDefinition:
    """Build the definition. Raises DefinitionError naming the function."""
    signature = signatures.read(function, hints_required=False)
    where = signatures.code_path(function)
    name = check_name(where, options.name or getattr(function, "__name__", ""))
    if signature.takes_any:
        raise DefinitionError(f"{where}: a prompt names its arguments; replace ** by parameters.")
    choices = {item.name: _choices(where, item) for item in signature.parameters}
    wire = shared_wire(where, name, options, signature.description)
    if signature.parameters:
        wire["arguments"] = [_argument(item) for item in signature.parameters]
    check_completions(where, completions, (item.name for item in signature.parameters))
    limited = {name: values for name, values in choices.items() if values}
    return PromptDefinition(
        name=name,
        wire=wire,
        function=signature.callable_with(dict),
        code_path=where,
        permission=check_permission(where, options.permission),
        completions={**limited, **completions},
        choices=limited,
    )


def check_completions(where: str, completions: Mapping[str, CompletionSource], names: Iterable[str]) -> None:
    """Raise DefinitionError if completions are for an unknown argument, or neither list nor function."""
    known = set(names)
    for name, source in completions.items():
        if name not in known:
            raise DefinitionError(f"{where}: completions for {name!r}, which is no argument of the function.")
        listed = isinstance(source, Sequence) and not isinstance(source, str)
        if not callable(source) and not (listed and all(isinstance(item, str) for item in source)):
            raise DefinitionError(f"{where}: completions for {name!r} must be a list of str or a function.")


def _argument(item: signatures.Parameter) -> Wire:
    wire: Wire = {"name": item.name}
    if item.description:
        wire["description"] = item.description
    if item.required:
        wire["required"] = True
    return wire


def _choices(where: str, item: signatures.Parameter) -> Sequence[str]:
    """Return the values of a ``Literal`` hint, or none for ``str``.

    Raises DefinitionError for other hints (PROMPT-04).
    """
    hint = item.hint
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    parts = (hint,) if get_origin(hint) is Literal else get_args(hint) or (hint,)
    members = [part for part in parts if part is not NoneType]
    if members == [str]:
        return ()
    if len(members) == 1 and get_origin(members[0]) is Literal:
        values = get_args(members[0])
        if all(isinstance(value, str) for value in values):
            return values
    raise DefinitionError(f"{where}: prompt arguments are strings; give {item.name!r} the type str.")
