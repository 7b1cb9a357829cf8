"""The sources of this installation: look-up, and queries over all sources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django.db.models import Q, QuerySet

from mcp_app.catalogue.definitions.definition import Definition
from mcp_app.catalogue.sources.base import Source
from mcp_app.models.catalogue import Row

# Each source is added to this list in ``sources/__init__.py``.
SOURCES: Final[list[Source]] = []
_UNKNOWN: Final = Source()


def source_of(row: Row) -> Source:
    """Return the source of a row."""
    return named(type(row), row.source)


def named(kind: type[Any], stored: str) -> Source:
    """Return the source with a stored name for rows of a kind."""
    return next((each for each in SOURCES if each.stored == stored and kind in each.kinds), _UNKNOWN)


def makers(kind: type[Any]) -> list[Source]:
    """Return the sources from which administrators create entries of a kind. The default comes first."""
    return [each for each in SOURCES if kind in each.kinds and kind in each.own_fields and not each.follows]


def made_here(kind: type[Any]) -> Source:
    """Return the default source for entries of a kind that administrators create."""
    return next((each for each in makers(kind) if each.has_button(kind)), _UNKNOWN)


def maker(kind: type[Any], stored: str) -> Source | None:
    """Return the source with this stored name, or None if administrators cannot create entries from it."""
    return next((each for each in makers(kind) if each.stored == stored), None)


def own_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields that administrators fill to create entries of a kind, over all sources."""
    found = (name for each in SOURCES for name in each.own_fields.get(kind, ()))
    return tuple(dict.fromkeys(found))


def choices() -> list[tuple[str, str]]:
    """Return each stored name with its label."""
    return list(dict.fromkeys((each.stored, each.label) for each in SOURCES))


def present(kind: type[Any], stored: Iterable[str]) -> list[tuple[str, str]]:
    """Return the stored names of sources with the texts that rows of a kind have."""
    return [(name, named(kind, name).variety or named(kind, name).label) for name in sorted(stored)]


def rows_stored_as(stored: str) -> Q:
    """Return the condition for rows with a stored name of a source."""
    return Q(source=stored)


def travelling(kind: type[Any]) -> tuple[str, ...]:
    """Return the stored names of sources whose entries of a kind appear in catalogue files."""
    found = (each for each in SOURCES if each.travels and kind in each.kinds)
    return tuple(dict.fromkeys(each.stored for each in found))


def travelling_rows(kind: type[Any]) -> Q:
    """Return the condition for rows of a kind that appear in catalogue files."""
    return Q(source__in=travelling(kind))


def related(kind: type[Any]) -> tuple[str, ...]:
    """Return the relations that are always loaded with rows of a kind."""
    return tuple(name for each in SOURCES if kind in each.kinds for name in each.related)


def rows_of(kind: type[Any]) -> QuerySet[Any]:
    """Return the rows of a kind with the relations that their sources need."""
    rows: QuerySet[Any] = kind._default_manager.all()
    return rows.select_related(*found) if (found := related(kind)) else rows


def provided() -> list[list[Definition]]:
    """Return the definitions of all sources. Comparing them with an earlier list shows changed code."""
    homes = (each.provided(kind) for each in SOURCES for kind in each.kinds)
    return [list(home.values()) for home in homes if home is not None]


def deletable() -> Q:
    """Return the condition for rows that administrators may delete.

    Mirrored rows cannot be deleted as long as their definition exists, because they would be created again.
    """
    return Q(source__in=[each.stored for each in SOURCES if not each.follows]) | Q(missing=True)
