"""Turns a function's type hints into JSON Schema 2020-12 and into the way arguments are bound to it.

Knows pydantic and type hints; nothing of tools as entries, of the database or of requests.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pydantic
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from mcp_app.catalogue.definitions import docstrings
from mcp_app.catalogue.definitions.definition import DefinitionError, InvalidArgumentsError, ToolFunction
from mcp_app.catalogue.definitions.hint_checks import check_default, refuse_model
from mcp_app.catalogue.definitions.typing_rules import described, plain, portable
from mcp_app.catalogue.schemas.json_schema import complaints, shortened

Bind = Callable[[dict[str, Any]], dict[str, Any]]
_PREFIX = "p_"
_ANNOTATED: Any = Annotated  # Subscripted with values at run time, which type checkers refuse.

# What `await`, `async for` and `async with` compile to.
WAITING = frozenset({"GET_AWAITABLE", "GET_ANEXT", "BEFORE_ASYNC_WITH"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument as the caller sees it; ``default`` is ``inspect.Parameter.empty`` when it is required."""

    name: str
    hint: Any
    default: Any
    description: str

    @property
    def required(self) -> bool:
        """The caller must send it."""
        if isinstance(self.default, FieldInfo):
            return self.default.is_required()
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and gives: its parameters without the context, and its documentation."""

    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    takes_any: bool
    context_name: str | None
    is_async: bool
    returns: Any
    description: str

    def callable_with(self, bind: Bind) -> ToolFunction:
        """The function with the given way of binding arguments."""
        waitless = self.is_async and never_waits(self.function)
        return ToolFunction(self.function, self.is_async, self.context_name, bind, waitless)


def never_waits(function: Callable[..., Any]) -> bool:
    """Whether an async function has nothing to await, so that it ends in the step it begins in."""
    code = getattr(function, "__code__", None)
    if code is None or not inspect.iscoroutinefunction(function):
        return False
    return all(instruction.opname not in WAITING for instruction in dis.get_instructions(code))


class _Schema(GenerateJsonSchema):
    """Titles made from parameter names only repeat them, at a price for every model that reads the list."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No invented titles."""
        return False


def code_path(function: Callable[..., Any]) -> str:
    """``module.qualified_name`` of the function, for messages and for the administrator."""
    module = getattr(function, "__module__", "") or type(function).__module__
    return f"{module}.{getattr(function, '__qualname__', type(function).__name__)}"


def read(function: Callable[..., Any], *, hints_required: bool = True) -> Signature:
    """Read a function's signature; raises DefinitionError naming it when it cannot be offered."""
    where = code_path(function)
    if isinstance(function, type) or not hasattr(function, "__call__"):  # noqa: B004
        raise DefinitionError(f"{where}: only functions can be decorated.")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise DefinitionError(f"{where}: generators are not supported; use ctx.progress instead.")
    hints = _hints(function, where)
    doc = docstrings.read(function)
    parameters: list[Parameter] = []
    context_name: str | None = None
    takes_any = False
    for name, item in inspect.signature(function).parameters.items():
        if item.kind is inspect.Parameter.VAR_KEYWORD:
            takes_any = True
        elif is_context(hints.get(name)):
            context_name = _only_context(where, context_name, name)
        else:
            _check_parameter(where, item, hint_missing=hints_required and name not in hints)
            hint = hints.get(name, str)
            text = described(hint) or doc.arguments.get(name, "")
            parameters.append(Parameter(name, hint, item.default, text))
    return Signature(
        function=function,
        parameters=tuple(parameters),
        takes_any=takes_any,
        context_name=context_name,
        is_async=_is_async(function),
        returns=hints.get("return", inspect.Signature.empty),
        description=doc.description,
    )


def is_context(hint: Any) -> bool:
    """The hint is the call's context: its class says ``__mcp_context__ = True`` (also ``Context | None``)."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    candidates = get_args(hint) or (hint,)
    return any(getattr(item, "__mcp_context__", False) is True for item in candidates)


def input_schema(signature: Signature) -> dict[str, Any]:
    """The object schema of the parameters (TOOL-02, TOOL-03); raises DefinitionError for an unusable hint."""
    if not signature.parameters:
        return {"type": "object", "additionalProperties": False}
    model = _model(signature)
    for item in signature.parameters:
        if item.default is not inspect.Parameter.empty:
            check_default(code_path(signature.function), item.name, item.hint, item.default)
    schema = model.model_json_schema(by_alias=True, schema_generator=_Schema)
    schema.pop("title", None)
    ordered = {"type": "object", "properties": schema.pop("properties")}
    if schema.get("required"):
        ordered["required"] = schema.pop("required")
    return {**ordered, "additionalProperties": False, **schema}


def binder(signature: Signature) -> Bind:
    """How validated JSON arguments become keyword arguments: a dict copy when every hint is plain JSON."""
    rules = [plain(item.hint) for item in signature.parameters]
    if None in rules or any(isinstance(item.default, FieldInfo) for item in signature.parameters):
        return _pydantic_binder(signature)
    kinds = {item.name: rule.number for item, rule in zip(signature.parameters, rules, strict=True) if rule}
    integers = tuple(name for name, number in kinds.items() if number == "int")
    floats = tuple(name for name, number in kinds.items() if number == "float")
    return _number_binder(integers, floats) if integers or floats else dict


def raw_binder(signature: Signature) -> Bind:
    """Arguments of a hand-written schema pass as given; names the function does not take are dropped."""
    if signature.takes_any:
        return dict
    names = frozenset(item.name for item in signature.parameters)
    return lambda arguments: {name: value for name, value in arguments.items() if name in names}


def text_binder(signature: Signature) -> Bind:
    """How texts, such as the variables of a URI template, become keyword arguments."""
    return dict if all(item.hint is str for item in signature.parameters) else _pydantic_binder(signature)


def explain(error: pydantic.ValidationError) -> str:
    """The first problems in one line, each with path, expected and got (TOOL-10)."""
    return complaints(map(_problem, error.errors(include_url=False, include_context=False)))


def _problem(found: Any) -> str:
    path = ".".join(str(part) for part in found["loc"]) or "(arguments)"
    return f"{path}: {found['msg']}, got {shortened(found.get('input'))}"


def _hints(function: Callable[..., Any], where: str) -> Mapping[str, Any]:
    target = function if inspect.isroutine(function) else getattr(function, "func", type(function).__call__)
    try:
        hints = get_type_hints(target, include_extras=True)
    except NameError as error:
        raise DefinitionError(
            f"{where}: the type hint {error.name!r} cannot be resolved; import it at module level "
            "(not only under TYPE_CHECKING)."
        ) from error
    return {name: portable(hint) for name, hint in hints.items()}


def _is_async(function: Callable[..., Any]) -> bool:
    target = getattr(function, "func", function)
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(type(target).__call__)


def _only_context(where: str, present: str | None, name: str) -> str:
    if present is not None:
        raise DefinitionError(f"{where}: takes the context twice ({present!r} and {name!r}); keep one.")
    return name


def _check_parameter(where: str, item: inspect.Parameter, *, hint_missing: bool) -> None:
    if item.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
        raise DefinitionError(f"{where}: parameter {item.name!r} must be usable by keyword.")
    if hint_missing and item.name in ("self", "cls"):
        raise DefinitionError(
            f"{where}: a method has no object to work on; offer that of an object: tool(obj.method)."
        )
    if hint_missing:
        raise DefinitionError(f"{where}: parameter {item.name!r} needs a type hint, such as str.")


def _model(signature: Signature) -> type[pydantic.BaseModel]:
    """A pydantic model of the parameters.

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
    # JSON Schema calls 1.0 an integer and 1 a number; Python code expects the type of its hint.
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
