"""The messages of expected exceptions of Django and REST framework, as text for the model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ObjectDoesNotExist, PermissionDenied, ValidationError
from django.http import Http404

# The keys for errors that Django and REST framework do not assign to a field.
_OF_NO_FIELD = (NON_FIELD_ERRORS, "non_field_errors", "detail")


def expected_words(error: BaseException) -> str | None:
    """Return the message of an expected failure, including the names of the fields at fault.

    Return None for any other exception.
    """
    if isinstance(error, ValidationError):
        # The attribute exists only if the error belongs to fields.
        return _joined(getattr(error, "message_dict", error.messages)) or "Invalid values."
    if isinstance(error, PermissionDenied):
        return str(error) or "Permission denied."
    if isinstance(error, (ObjectDoesNotExist, Http404)):
        return str(error) or "Not found."
    if isinstance(error, _api_exception()):
        return _joined(getattr(error, "detail", "")) or "The request was refused."
    return None


def _api_exception() -> tuple[type[BaseException], ...]:
    """Return REST framework's base exception in a tuple. The tuple is empty if the library is not loaded."""
    module = sys.modules.get("rest_framework.exceptions")
    return () if module is None else (module.APIException,)


def _joined(detail: Any) -> str:
    return "; ".join(_lines(detail, ""))


def _lines(detail: Any, place: str) -> Iterator[str]:
    if isinstance(detail, dict):
        for name, inner in detail.items():
            below = place if name in _OF_NO_FIELD else f"{place}.{name}".lstrip(".")
            yield from _lines(inner, below)
    elif isinstance(detail, (list, tuple)):
        for number, inner in enumerate(detail):
            # In a list of objects, as from a nested serializer, valid objects have empty entries.
            yield from _lines(inner, f"{place}[{number}]" if isinstance(inner, dict) else place)
    elif detail:
        yield f"{place}: {detail}" if place else str(detail)
