"""Checks of type hints and defaults at import. Without them, errors would appear at the first call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, get_args

import pydantic
from django.db.models import Model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.schemas.validation import shortened

_COLLECTIONS = (list, tuple, set, frozenset)


def check_default(where: str, name: str, hint: Any, default: Any) -> None:
    """Raise DefinitionError if the default does not fit the hint."""
    value = default.default if isinstance(default, FieldInfo) else default
    if value is PydanticUndefined or type(value) is hint:
        return
    try:
        fitting = pydantic.TypeAdapter(hint).validate_python(value)
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
    else:
        if type(fitting) is type(value) or fitting == value or _holds_the_same(fitting, value):
            return
        problem = f"it would have to be {shortened(fitting)}"
    remedy = "Add None to the hint." if value is None else "Correct one of them."
    raise DefinitionError(
        f"{where}: the default {shortened(value)} of parameter {name!r} does not fit its type hint: "
        f"{problem}. {remedy}"
    )


def check_returns(where: str, hint: Any) -> None:
    """Raise DefinitionError if the hint contains a Django model: all its fields would be published."""
    if model := next(_models((hint,)), None):
        raise DefinitionError(
            f"{where}: returns the model {model.__name__}, and so all of its fields. Return chosen ones: a "
            "dict, a pydantic model or dataclass, or rows of queryset.values(...)."
        )


def refuse_model(where: str, name: str, hint: Any) -> None:
    """Raise DefinitionError if the hint contains a Django model, whose rows clients cannot send."""
    if model := next(_models((hint,)), None):
        raise DefinitionError(
            f"{where}: parameter {name!r} is the model {model.__name__}, which no client can send. Take its "
            "key instead, and get the row."
        )


def _models(hints: Iterable[Any]) -> Iterator[type[Model]]:
    for hint in hints:
        if isinstance(hint, type) and issubclass(hint, Model):
            yield hint
        yield from _models(get_args(hint))


def _holds_the_same(fitting: Any, value: Any) -> bool:
    """Return True for collections with equal items, such as an empty tuple as the default of a list."""
    return (
        isinstance(fitting, _COLLECTIONS)
        and isinstance(value, _COLLECTIONS)
        and sorted(map(repr, fitting)) == sorted(map(repr, value))
    )
