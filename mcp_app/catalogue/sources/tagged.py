"""The effective tags of stored entries, for filters. The tags of a served entry are in the snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mcp_app.catalogue.definitions.tags import tags_in
from mcp_app.catalogue.sources.lookup import related

# The administrator's tags, those in the administrator's ``_meta``, and those in the stored definition.
_TAGS = ("tags", "meta__tags", "definition___meta__tags")


def tags_by_row(kind: type[Any]) -> dict[int, tuple[str, ...]]:
    """Return the effective tags of all rows of a kind by row id.

    A preset without tags has the tags of its tool.
    """
    behind = [f"{relation}_id" for relation in related(kind)]
    own: dict[int, tuple[str, ...]] = {}
    bases: dict[int, list[int]] = {}
    for pk, *values in kind._default_manager.values_list("pk", *_TAGS, *behind):
        own[pk] = next((tags for given in values[: len(_TAGS)] if (tags := tags_in({"tags": given}))), ())
        bases[pk] = [base for base in values[len(_TAGS) :] if base is not None]
    return {pk: tags or _first(own.get(base, ()) for base in bases[pk]) for pk, tags in own.items()}


def rows_tagged(kind: type[Any], tag: str) -> list[int]:
    """Return the ids of the rows with a tag."""
    return [pk for pk, tags in tags_by_row(kind).items() if tag in tags]


def _first(found: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return next((tags for tags in found if tags), ())
