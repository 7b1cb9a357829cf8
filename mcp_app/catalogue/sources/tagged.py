"""The effective tags of stored entries, for filters. The tags of a served entry are in the snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from mcp_app.catalogue.definitions.tags import tags_in
from mcp_app.catalogue.sources.lookup import related

# The administrator's tags, those in the administrator's ``_meta``, and those in the stored definition.
_TAGS = ("tags", "meta__tags", "definition___meta__tags")


class Facets(NamedTuple):
    """The effective tags of all rows of a kind by row id, and the stored names of their sources."""

    tags: dict[int, tuple[str, ...]]
    stored: set[str]


def facets_of(kind: type[Any]) -> Facets:
    """Return the tags and sources of all rows of a kind, in one query.

    A preset without tags has the tags of its tool.
    """
    behind = [f"{relation}_id" for relation in related(kind)]
    own: dict[int, tuple[str, ...]] = {}
    bases: dict[int, list[int]] = {}
    stored: set[str] = set()
    for pk, name, *values in kind._default_manager.values_list("pk", "source", *_TAGS, *behind):
        stored.add(name)
        own[pk] = next((tags for given in values[: len(_TAGS)] if (tags := tags_in({"tags": given}))), ())
        bases[pk] = [base for base in values[len(_TAGS) :] if base is not None]
    effective = {pk: found or _first(own.get(base, ()) for base in bases[pk]) for pk, found in own.items()}
    return Facets(effective, stored)


def tags_by_row(kind: type[Any]) -> dict[int, tuple[str, ...]]:
    """Return the effective tags of all rows of a kind by row id."""
    return facets_of(kind).tags


def rows_tagged(kind: type[Any], tag: str) -> list[int]:
    """Return the ids of the rows with a tag."""
    return [pk for pk, tags in tags_by_row(kind).items() if tag in tags]


def _first(found: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return next((tags for tags in found if tags), ())
