"""Parsing of function signatures: parameters with hints and descriptions, and the context parameter."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from mcp_app.catalogue.definitions import docstrings
from mcp_app.catalogue.definitions.definition import DefinitionError, ToolFunction
from mcp_app.catalogue.definitions.typing_rules import described, portable

Bind = Callable[[dict[str, Any]], dict[str, Any]]

# The opcodes of `await`, `async for` and `async with`.
WAITING = frozenset({"GET_AWAITABLE", "GET_ANEXT", "BEFORE_ASYNC_WITH"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that callers fill. ``default`` is ``inspect.Parameter.empty`` if there is no default."""

    name: str
    hint: Any
    default: Any
    description: str

    @property
    def required(self) -> bool:
        """True if the caller must send the argument."""
        if isinstance(self.default, FieldInfo):
            return self.default.is_required()
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters without the context, and its description."""

    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    takes_any: bool
    context_name: str | None
    is_async: bool
    returns: Any
    description: str

    def callable_with(self, bind: Bind) -> ToolFunction:
        """Return the function with ``bind`` as its argument binding."""
        waitless = self.is_async and never_waits(self.function)
        return ToolFunction(self.function, self.is_async, self.context_name, bind, waitless)


def never_waits(function: Callable[..., Any]) -> bool:
    """Return True if an async function awaits nothing and therefore finishes in one step."""
    code = getattr(function, "__code__", None)
    if code is None or not inspect.iscoroutinefunction(function):
        return False
    return all(instruction.opname not in WAITING for instruction in dis.get_instructions(code))


def code_path(function: Callable[..., Any]) -> str:
    """Return ``module.qualified_name`` of the function."""
    module = getattr(function, "__module__", "") or type(function).__module__
    return f"{module}.{getattr(function, '__qualname__', type(function).__name__)}"


def read(function: Callable[..., Any], *, hints_required: bool = True) -> Signature:
    """Parse a function's signature. Raises DefinitionError if the function cannot be offered."""
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
    """Return True for a context: a class with ``__mcp_context__ = True`` (also ``Context | None``)."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    candidates = get_args(hint) or (hint,)
    return any(getattr(item, "__mcp_context__", False) is True for item in candidates)


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
