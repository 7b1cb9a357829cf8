"""Import of operations as drafts of HTTP tools, or as tools in one revision (INT-27)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.catalogue.changes import drafts, revisions, services
from mcp_app.catalogue.changes.services import EntryChange
from mcp_app.catalogue.documents.storing import converter_of, document_of
from mcp_app.catalogue.documents.tools import changed_drafts_of, drafts_of, tools_of, values_of
from mcp_app.catalogue.schemas.strict_json import check_storable
from mcp_app.catalogue.sources.http.openapi.convert import Converter
from mcp_app.catalogue.sources.http.openapi.faults import Unconvertible
from mcp_app.catalogue.sources.http.openapi.reading import DocumentError
from mcp_app.catalogue.sources.http.source import HTTP
from mcp_app.models import ApiDocument, Draft, Tool, audit

MAX_TOOLS: Final = 2_000


@dataclass(slots=True)
class Imported:
    """The outcome of an import: drafts or, with ``revision``, published tools; reasons by operation key."""

    drafts: list[Draft] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    revision: int = 0


def import_operations(
    *,
    row: ApiDocument,
    keys: Iterable[str],
    actor: Any,
    names: Mapping[str, str] | None = None,
    content_types: Mapping[str, str] | None = None,
    publish: bool = False,
) -> Imported:
    """Import operations of a document.

    ``names`` replaces proposed names by operation key, and ``content_types`` the types of bodies. Operations
    that cannot be imported are skipped with a reason. Raises DocumentError without a usable server.
    """
    chosen = list(dict.fromkeys(keys))
    if len(chosen) > MAX_TOOLS:
        raise DocumentError(
            f"{len(chosen)} operations are selected; at most {MAX_TOOLS} are imported at once."
        )
    document = document_of(row)
    converter = converter_of(row, document)
    converter.content_types = dict(content_types or {})
    _check_server(row, converter)
    outcome = Imported()
    with transaction.atomic():
        revisions.lock()
        known = tools_of(row).keys() | drafts_of(row).keys()
        changes: dict[str, EntryChange] = {}
        for key in chosen:
            try:
                values = _values(row, converter, key, known, names or {})
                change = EntryChange(kind=Tool, entry=None, values=values, source=HTTP)
                if publish:
                    services.check_change(change)
                    changes[key] = change
                else:
                    note = f"Imported from {row.name}: {key}"[:500]
                    draft = drafts.save_draft(kind=Tool, actor=actor, source=HTTP, note=note, **values)
                    outcome.drafts.append(draft)
            except (Unconvertible, ValidationError, _Skipped) as error:
                outcome.skipped[key] = reason_of(error)
        if changes:
            why = f"Imported from {row.name}"
            outcome.revision = services.change_entries(changes=changes.values(), actor=actor, why=why)
            outcome.published = [str(each.values["name"]) for each in changes.values()]
        if outcome.drafts or outcome.published:
            counts = {"drafts": len(outcome.drafts), "published": len(outcome.published)}
            audit(
                actor=actor,
                action="document.imported",
                object_kind="document",
                object_key=row.name,
                detail={**counts, "skipped": len(outcome.skipped)},
            )
    return outcome


def publish_imported(*, row: ApiDocument, actor: Any) -> int:
    """Publish all drafts of a document's new tools, and of accepted changes if the actor may change tools.

    Return the revision, or 0 without drafts.
    """
    waiting = list(waiting_drafts_of(row, actor).values())
    if not waiting:
        return 0
    return drafts.publish_drafts(drafts=waiting, actor=actor, why=f"Imported from {row.name}")


def waiting_drafts_of(row: ApiDocument, actor: Any) -> dict[str, Draft]:
    """Return the drafts that ``publish_imported`` publishes for a user, by operation key."""
    may_change = actor is None or actor.has_perm("mcp_app.change_tool")
    return {**drafts_of(row), **(changed_drafts_of(row) if may_change else {})}


def reason_of(error: Exception) -> str:
    """Return an error as one line."""
    if isinstance(error, ValidationError):
        return " ".join(error.messages)
    return str(error)


def _check_server(row: ApiDocument, converter: Converter) -> None:
    """Raise DocumentError for an unusable server, and for a server without encryption that is not chosen."""
    server = converter.server
    if server.problem:
        raise DocumentError(f"The server cannot be used: {server.problem}")
    if not row.server and server.url.lower().startswith("http:"):
        raise DocumentError(
            f"Requests to {server.url} would not be encrypted. Choose this server yourself, or another one."
        )


class _Skipped(Exception):
    pass


def _values(
    row: ApiDocument, converter: Converter, key: str, known: Iterable[str], names: Mapping[str, str]
) -> dict[str, Any]:
    if key not in converter.document.places:
        raise _Skipped("The document has no such operation.")
    if key in known:
        raise _Skipped("It is a tool or a draft already.")
    tool = converter.tool(key)
    values = {"name": names.get(key) or tool.name, **values_of(row, tool)}
    check_storable(values)
    return values
