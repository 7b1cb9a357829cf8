"""The published JSON schemas of the protocol's revisions, to validate the server's messages."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson

DIRECTORY = Path(__file__).parent.parent / "data" / "schema"


@cache
def _document(version: str) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads((DIRECTORY / f"{version}.json").read_bytes())
    return document


def definition(version: str, name: str) -> dict[str, Any]:
    """Return one definition of a revision's schema. Raise KeyError if the revision does not define it."""
    document = _document(version)
    found: dict[str, Any] = document["$defs" if "$defs" in document else "definitions"][name]
    return found


@cache
def _validator(version: str, name: str) -> Any:
    document = dict(_document(version))
    definition(version, name)
    key = "$defs" if "$defs" in document else "definitions"
    document.pop("anyOf", None)
    return jsonschema_rs.validator_for({**document, "$ref": f"#/{key}/{name}"}, validate_formats=True)


def problems(version: str, name: str, instance: Any) -> list[str]:
    """Return the validation errors of ``instance`` as a ``name`` of that revision."""
    found = [
        f"{error.instance_path}: {error.message}" for error in _validator(version, name).iter_errors(instance)
    ]
    if isinstance(instance, dict) and "properties" in definition(version, name):
        unpublished = instance.keys() - definition(version, name)["properties"].keys()
        found += [f"{member!r} is not published" for member in sorted(unpublished)]
    return found
