"""The argument ``fields`` of an exposed action, by which a model picks members of the response."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

from rest_framework.serializers import ListSerializer, Serializer
from rest_framework.utils.serializer_helpers import ReturnDict, ReturnList

FIELDS: Final = "fields"
_DESCRIPTION: Final = "The members to return. Without it, all members are returned."


def members_of_response(inspector: Any) -> tuple[str, ...]:
    """Return the members of the serializer that an action responds with, () without one."""
    found = inspector.get_response_serializers()
    serializer = found() if isinstance(found, type) else found
    if isinstance(serializer, ListSerializer):
        serializer = serializer.child
    if not isinstance(serializer, Serializer):
        return ()
    return tuple(name for name, member in serializer.fields.items() if not member.write_only)


def argument(names: Sequence[str]) -> dict[str, Any]:
    """Return the schema of the argument."""
    return {
        "type": "array",
        "items": {"enum": [*names]},
        "minItems": 1,
        "uniqueItems": True,
        "description": _DESCRIPTION,
    }


def picked(data: Any, names: Container[str]) -> Any:
    """Return the rows in the data of a response with these members only.

    The data is one row, a list of rows, or a page: an object with rows among other members.
    """
    if isinstance(data, list):
        return [_row(row, names) for row in data]
    if not isinstance(data, Mapping):
        return data
    if not isinstance(data, ReturnDict) and any(isinstance(each, ReturnList) for each in data.values()):
        return {
            name: [_row(row, names) for row in each] if isinstance(each, ReturnList) else each
            for name, each in data.items()
        }
    return _row(data, names)


def _row(row: Any, names: Container[str]) -> Any:
    if not isinstance(row, Mapping):
        return row
    return {name: value for name, value in row.items() if name in names}
