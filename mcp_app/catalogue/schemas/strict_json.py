"""Strict parsing of JSON that people or files provide. Syntax errors name their position."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from django.core.exceptions import ValidationError

MAX_JSON_CHARACTERS = 256 * 1024
MAX_JSON_DEPTH = 64


def parse_json(text: str) -> Any:
    """Parse JSON that a database can store. Raises ValidationError with line and column or the reason."""
    value = load_json(text)
    check_storable(value)
    return value


def load_json(text: str) -> Any:
    """Parse strict JSON. Raises ValidationError with line and column or the reason."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        raise ValidationError(
            f"Not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}.", code="invalid"
        ) from error
    except RecursionError as error:
        raise ValidationError(f"Nested more than {MAX_JSON_DEPTH} levels deep.", code="invalid") from error
    except ValueError as error:  # A number with thousands of digits.
        raise ValidationError("A number is too long.", code="invalid") from error


def _no_constant(name: str) -> NoReturn:
    raise ValidationError(f"{name} is not valid JSON.", code="invalid")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValidationError(f"The name {name!r} occurs twice in one object.", code="invalid")
        members[name] = value
    return members


def check_storable(value: Any) -> None:
    """Refuse values that PostgreSQL cannot store (NUL, lone surrogates, infinity) or that nest too deeply."""
    pending: list[tuple[Any, int]] = [(value, 1)]
    while pending:
        item, depth = pending.pop()
        if depth > MAX_JSON_DEPTH:
            raise ValidationError(f"Nested more than {MAX_JSON_DEPTH} levels deep.", code="invalid")
        children: Iterable[Any] = ()
        if isinstance(item, dict):
            children = (*item.keys(), *item.values())
        elif isinstance(item, list):
            children = item
        elif isinstance(item, str) and (
            "\0" in item or any("\ud800" <= letter <= "\udfff" for letter in item)
        ):
            raise ValidationError("Text may not contain NUL or lone surrogate characters.", code="invalid")
        elif isinstance(item, float) and not math.isfinite(item):
            raise ValidationError("A number is too large.", code="invalid")
        pending.extend((child, depth + 1) for child in children)
