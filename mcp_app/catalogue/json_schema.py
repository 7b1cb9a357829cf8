"""JSON Schema: compiles validators and explains failures; the only user of jsonschema_rs.

Compiled with a linear-time regular-expression engine and no way to fetch a ``$ref`` (SCHEMA-03, S15, S16).
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class SchemaError(ValueError):
    """The schema is not valid or not allowed; the text says what and where."""


class Validator:
    """A compiled schema; ``is_valid`` is the quick question, ``explain`` the slow one after a failure."""

    __slots__ = ("_compiled", "is_valid")

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self.is_valid = compiled.is_valid

    def explain(self, instance: Any) -> str:
        """The first failure as ``path: what was expected, got value``; empty when the instance is valid."""
        for error in self._compiled.iter_errors(instance):
            return _explanation(error)
        return ""


def compile_schema(schema: dict[str, Any]) -> Validator:
    """The validator of a schema; raises SchemaError when it is not a schema or refers outside itself."""
    try:
        compiled = jsonschema_rs.validator_for(
            schema, offline=True, validate_formats=False, pattern_options=jsonschema_rs.RegexOptions()
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise SchemaError(f"not a usable JSON Schema: {str(error).splitlines()[0]}") from error
    return Validator(compiled)


def shortened(value: Any) -> str:
    """A received value as text, cut to 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else text[:99] + "…"


def _explanation(error: jsonschema_rs.ValidationError) -> str:
    path = ".".join(str(part) for part in error.instance_path) or "(arguments)"
    return f"{path}: {error.message}, got {shortened(error.instance)}"
