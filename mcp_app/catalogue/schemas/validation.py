"""Compilation of JSON Schemas and explanation of failures. No other module uses jsonschema_rs.

The regular-expression engine is linear in time and ``$ref`` is never fetched (SCHEMA-03, S15, S16).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import jsonschema_rs

MAX_RECEIVED: Final = 100
MAX_COMPLAINTS: Final = 10
HIDDEN: Final = "a fixed value"

_EXPECTATIONS: Final[dict[str, str]] = {
    "minimum": "a value of at least {}",
    "maximum": "a value of at most {}",
    "exclusiveMinimum": "a value greater than {}",
    "exclusiveMaximum": "a value less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} members",
    "maxProperties": "at most {} members",
    "pattern": "text matching {}",
    "const": "exactly {!r}",
}


class SchemaError(ValueError):
    """An invalid or forbidden schema. The text names the reason and the place."""


class Validator:
    """A compiled schema: ``is_valid`` is fast, ``explain`` describes a failure."""

    __slots__ = ("_compiled", "is_valid")

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self.is_valid: Callable[[Any], bool] = compiled.is_valid

    def explain(self, instance: Any, hidden: Container[str] = ()) -> str:
        """Return the first failures, each as ``path: expected …, got …`` (TOOL-10), or "".

        The values of the members ``hidden`` are not shown.
        """
        errors = self._compiled.iter_errors(instance)
        return complaints(text for error in errors for text in _explanations(error, hidden))


def complaints(texts: Iterable[str]) -> str:
    """Join at most ten complaints, sorted by path, so that a model can fix them at once."""
    found = list(islice(texts, MAX_COMPLAINTS + 1))
    shown = sorted(found[:MAX_COMPLAINTS])
    return "; ".join([*shown, "and more"] if len(found) > MAX_COMPLAINTS else shown)


def compile_schema(schema: dict[str, Any]) -> Validator:
    """Compile a schema. Raises SchemaError if it is invalid or refers outside itself."""
    try:
        compiled = jsonschema_rs.validator_for(
            schema, offline=True, validate_formats=False, pattern_options=jsonschema_rs.RegexOptions()
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise SchemaError(f"not a usable JSON Schema: {_first_line(error)}") from error
    return Validator(compiled)


def shortened(value: Any) -> str:
    """Return a received value as text, cut to 100 characters."""
    text = repr(value)
    return text if len(text) <= MAX_RECEIVED else text[: MAX_RECEIVED - 1] + "…"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]


def _explanations(error: jsonschema_rs.ValidationError, hidden: Container[str]) -> Iterator[str]:
    """Yield one message for the failure, or one message for each unknown argument."""
    kind = error.kind.name
    path = [str(part) for part in error.instance_path]
    is_hidden = bool(path) and path[0] in hidden
    if kind == "required":
        yield f"{'.'.join([*path, error.kind.value])}: expected a value, got nothing"
    elif kind in ("additionalProperties", "unevaluatedProperties"):
        for name in error.kind.value:
            value = error.instance.get(name) if isinstance(error.instance, dict) else None
            where = ".".join([*path, str(name)[:MAX_RECEIVED]])
            got = HIDDEN if is_hidden or (not path and name in hidden) else shortened(value)
            yield f"{where}: expected no such argument, got {got}"
    else:
        where, value = ".".join(path) or "(arguments)", error.instance
        if not path and isinstance(value, dict):
            value = {name: each for name, each in value.items() if name not in hidden}
        yield f"{where}: expected {_expectation(error)}, got {HIDDEN if is_hidden else shortened(value)}"


def _expectation(error: jsonschema_rs.ValidationError) -> str:
    kind, value = error.kind.name, error.kind.value
    if kind == "type":
        return " or ".join(sorted(value))
    if kind == "enum":
        return "one of " + ", ".join(map(repr, value))[:300]
    if kind in _EXPECTATIONS:
        return _EXPECTATIONS[kind].format(value)
    if kind == "anyOf" or kind.startswith("oneOf"):
        return _alternatives(value)
    return f"a value that satisfies {kind!r}"


def _alternatives(branches: Any) -> str:
    """Return the first expectation of each branch of ``anyOf`` that has one, joined with "or"."""
    wanted = [_expectation(branch[0]) for branch in branches if branch] if isinstance(branches, list) else []
    return " or ".join(dict.fromkeys(wanted))[:300] or "a value that fits exactly one alternative"
