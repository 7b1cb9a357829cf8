"""Expected exceptions of Django and REST framework, as text for the model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ObjectDoesNotExist, PermissionDenied, ValidationError
from django.http import Http404

# The keys under which Django and REST framework report errors of no single field.
_OF_NO_FIELD = (NON_FIELD_ERRORS, "non_field_errors", "detail")


def expected_words(error: BaseException) -> str | None:
    """Return the message of an expected failure, with the fields it names.

    Return None for other exceptions.
    """
    if isinstance(error, ValidationError):
        # The attribute exists only if the error names fields.
        return _joined(getattr(error, "message_dict", error.messages)) or "Invalid values."
    if isinstance(error, PermissionDenied):
        return str(error) or "Permission denied."
    if isinstance(error, (ObjectDoesNotExist, Http404)):
        return str(error) or "Not found."
    if isinstance(error, _api_exception()):
        return _joined(getattr(error, "detail", "")) or "The request was refused."
    return None


def _api_exception() -> tuple[type[BaseException], ...]:
    """Return REST framework's base class, or nothing if the library is not loaded."""
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
            # A list of objects, as of a nested serializer, has empty entries for valid ones.
            yield from _lines(inner, f"{place}[{number}]" if isinstance(inner, dict) else place)
    elif detail:
        yield f"{place}: {detail}" if place else str(detail)
