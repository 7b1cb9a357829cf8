"""Classification of type hints (plain JSON or pydantic) and their preparation for pydantic."""

from __future__ import annotations

import sys
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import annotated_types
import typing_extensions
from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import override
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from mcp_app.catalogue.schemas.portable import LOOKAROUND

_SCHEMA_CONSTRAINTS = (
    annotated_types.Ge,
    annotated_types.Gt,
    annotated_types.Le,
    annotated_types.Lt,
    annotated_types.MultipleOf,
    annotated_types.MinLen,
    annotated_types.MaxLen,
)
_UNION_ORIGINS = (Union, types.UnionType)


class UntitledJsonSchema(GenerateJsonSchema):
    """A schema generator that omits titles, which repeat names and cost every model tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """Drop string patterns with look-around, which some versions of pydantic generate."""
        found = super().decimal_schema(schema)
        for each in (found, *found.get("anyOf", ())):
            if LOOKAROUND.search(each.get("pattern", "")):
                del each["pattern"]
        return found


@dataclass(frozen=True, slots=True)
class Plain:
    """A hint whose valid JSON values are used unchanged, except for the conversion named by ``number``."""

    number: Literal["", "int", "float", "both"] = ""


def plain(hint: Any) -> Plain | None:
    """Return the handling of a hint without pydantic, or None if pydantic must convert or check it."""
    origin = get_origin(hint)
    if origin is Annotated:
        base, *metadata = get_args(hint)
        return plain(base) if all(_expressible(item) for item in metadata) else None
    if hint in (str, bool, Any, object, None, type(None), list, dict):
        return Plain()
    if hint is int or hint is float:
        return Plain("int" if hint is int else "float")
    if origin is Literal:
        return Plain() if all(type(value) in (str, bool, type(None)) for value in get_args(hint)) else None
    if origin in _UNION_ORIGINS:
        return _plain_union([plain(member) for member in get_args(hint)])
    if origin is list or (origin is dict and get_args(hint)[0] is str):
        return Plain() if plain(get_args(hint)[-1]) == Plain() else None
    return None


def _plain_union(members: list[Plain | None]) -> Plain | None:
    numbers = {member.number if member else None for member in members}
    if None in numbers:
        return None
    numbers.discard("")
    if len(numbers) > 1:
        return Plain("both")
    return Plain("int") if "int" in numbers else Plain("float") if "float" in numbers else Plain()


def _expressible(metadata: Any) -> bool:
    """Return True if JSON Schema checks everything that this annotation requires."""
    if isinstance(metadata, FieldInfo):
        return metadata.is_required() and not _renames(metadata) and all(map(_expressible, metadata.metadata))
    if isinstance(metadata, (*_SCHEMA_CONSTRAINTS, str)):
        return True
    members = getattr(metadata, "__dict__", None)
    return type(metadata).__name__ == "_PydanticGeneralMetadata" and set(members or ()) <= {"pattern"}


def _renames(info: FieldInfo) -> bool:
    return bool(info.alias or info.validation_alias or info.serialization_alias)


def described(hint: Any) -> str:
    """Return the text of ``Annotated[..., Field(description=...)]`` or ``Annotated[..., "text"]``, or ""."""
    if get_origin(hint) is not Annotated:
        return ""
    for item in get_args(hint)[1:]:
        text = item.description if isinstance(item, FieldInfo) else item
        if isinstance(text, str | Promise):
            return str(translated(text))
    return ""


def translated(value: Any) -> Any:
    """Return the JSON value with lazy strings translated to LANGUAGE_CODE, the catalogue's only language."""
    if isinstance(value, Promise):
        # All processes must produce the same definition, so the active language is not used.
        with override(settings.LANGUAGE_CODE):
            return str(value)
    if isinstance(value, dict):
        return {name: translated(member) for name, member in value.items()}
    return [translated(item) for item in value] if isinstance(value, list) else value


def portable(hint: Any) -> Any:
    """Return the hint with ``typing.TypedDict`` replaced by its ``typing_extensions`` twin.

    Before Python 3.12 pydantic cannot read ``typing.TypedDict``.
    """
    if sys.version_info >= (3, 12):
        return hint
    if typing_extensions.is_typeddict(hint) and type(hint).__module__ == "typing":
        return _twin(hint)
    arguments = get_args(hint)
    if not arguments or get_origin(hint) is Literal:
        return hint
    replaced = tuple(portable(item) if _is_type(item) else item for item in arguments)
    if all(new is old for new, old in zip(replaced, arguments, strict=True)):
        return hint
    return _rebuilt(hint, replaced)


def _is_type(item: Any) -> bool:
    return isinstance(item, type) or get_origin(item) is not None


def _rebuilt(hint: Any, arguments: tuple[Any, ...]) -> Any:
    origin = get_origin(hint)
    if origin in _UNION_ORIGINS:
        return Union[arguments]  # noqa: UP007 - built from a tuple at run time
    return Annotated[arguments] if origin is Annotated else origin[arguments]


def _twin(hint: Any) -> Any:
    members = {}
    for name, member in typing.get_type_hints(hint, include_extras=True).items():
        inner = portable(member)
        marker = Required if name in hint.__required_keys__ else NotRequired
        members[name] = inner if get_origin(member) in (Required, NotRequired) else marker[inner]
    return typing_extensions.TypedDict(hint.__name__, members)  # type: ignore[operator]
