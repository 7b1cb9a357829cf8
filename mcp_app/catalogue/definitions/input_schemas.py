"""JSON Schemas (2020-12) of function arguments, and the binding of checked arguments.

This module uses pydantic and type hints, but not entries, the database or requests.
"""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import pydantic
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo

from mcp_app.catalogue.definitions.definition import DefinitionError, InvalidArgumentsError
from mcp_app.catalogue.definitions.hint_checks import check_default, refuse_model
from mcp_app.catalogue.definitions.signatures import Bind, Signature, code_path
from mcp_app.catalogue.definitions.typing_rules import UntitledJsonSchema, plain
from mcp_app.catalogue.schemas.validation import complaints, shortened

_PREFIX = "p_"
_ANNOTATED: Any = Annotated  # Typed as Any: type checkers refuse run-time subscripts.


def input_schema(signature: Signature) -> dict[str, Any]:
    """Build the object schema of the parameters (TOOL-02, TOOL-03). Raises DefinitionError."""
    if not signature.parameters:
        return {"type": "object", "additionalProperties": False}
    model = _model(signature)
    for item in signature.parameters:
        if item.default is not inspect.Parameter.empty:
            check_default(code_path(signature.function), item.name, item.hint, item.default)
    schema = model.model_json_schema(by_alias=True, schema_generator=UntitledJsonSchema)
    schema.pop("title", None)
    ordered = {"type": "object", "properties": schema.pop("properties")}
    if schema.get("required"):
        ordered["required"] = schema.pop("required")
    return {**ordered, "additionalProperties": False, **schema}


def binder(signature: Signature) -> Bind:
    """Return the function that binds validated JSON arguments, ``dict`` if every hint is plain JSON."""
    rules = [plain(item.hint) for item in signature.parameters]
    if None in rules or any(isinstance(item.default, FieldInfo) for item in signature.parameters):
        return _pydantic_binder(signature)
    kinds = {item.name: rule.number for item, rule in zip(signature.parameters, rules, strict=True) if rule}
    integers = tuple(name for name, number in kinds.items() if number == "int")
    floats = tuple(name for name, number in kinds.items() if number == "float")
    return _number_binder(integers, floats) if integers or floats else dict


def raw_binder(signature: Signature) -> Bind:
    """Return the binding function of a hand-written schema. It keeps values and drops unknown names."""
    if signature.takes_any:
        return dict
    names = frozenset(item.name for item in signature.parameters)
    return lambda arguments: {name: value for name, value in arguments.items() if name in names}


def text_binder(signature: Signature) -> Bind:
    """Return the function that binds string arguments, such as the variables of a URI template."""
    return dict if all(item.hint is str for item in signature.parameters) else _pydantic_binder(signature)


def explain(error: pydantic.ValidationError) -> str:
    """Return the first problems in one line, each with path, expected and received (TOOL-10)."""
    return complaints(map(_problem, error.errors(include_url=False, include_context=False)))


def _problem(found: Any) -> str:
    path = ".".join(str(part) for part in found["loc"]) or "(arguments)"
    return f"{path}: {found['msg']}, got {shortened(found.get('input'))}"


def _model(signature: Signature) -> type[pydantic.BaseModel]:
    """Build a pydantic model of the parameters.

    Fields are prefixed and aliased because a parameter may be called ``json`` or ``_x``, which pydantic
    refuses as a field name.
    """
    where = code_path(signature.function)
    fields: dict[str, Any] = {}
    for item in signature.parameters:
        hint = _ANNOTATED[item.hint, pydantic.Field(alias=item.name, description=item.description or None)]
        fields[_PREFIX + item.name] = (hint, ... if item.default is inspect.Parameter.empty else item.default)
    try:
        model: type[pydantic.BaseModel] = pydantic.create_model(
            "Arguments", __config__=pydantic.ConfigDict(extra="forbid"), **fields
        )
        model.model_json_schema(by_alias=True)
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError) as error:
        for item in signature.parameters:
            refuse_model(where, item.name, item.hint)
        raise DefinitionError(f"{where}: a parameter's type has no JSON Schema: {error}") from error
    return model


def _number_binder(integers: tuple[str, ...], floats: tuple[str, ...]) -> Bind:
    # JSON Schema accepts 1.0 as an integer and 1 as a number, but the function expects the hinted type.
    def bind(arguments: dict[str, Any]) -> dict[str, Any]:
        bound = dict(arguments)
        for name in integers:
            if type(value := bound.get(name)) is float:
                bound[name] = int(value)
        for name in floats:
            if type(value := bound.get(name)) is int:
                bound[name] = float(value)
        return bound

    return bind


def _pydantic_binder(signature: Signature) -> Bind:
    model = _model(signature)
    defaulted = {_PREFIX + item.name for item in signature.parameters if isinstance(item.default, FieldInfo)}

    def bind(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            checked = model.model_validate(arguments)
        except pydantic.ValidationError as error:
            raise InvalidArgumentsError(explain(error)) from error
        given = checked.model_fields_set | defaulted
        return {field[len(_PREFIX) :]: getattr(checked, field) for field in given}

    return bind
