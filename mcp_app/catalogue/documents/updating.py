"""Updates: the differences between a document and its tools, and drafts of accepted ones (INT-31)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.catalogue.changes import drafts, revisions
from mcp_app.catalogue.documents.importing import reason_of
from mcp_app.catalogue.documents.storing import converter_of, document_of, newer_of, take_newer
from mcp_app.catalogue.documents.tools import (
    KEPT,
    PARTS,
    UPDATE_OF,
    content_type_of,
    determined,
    digests,
    known_digests,
    parts_in,
    parts_of,
    request_of,
    tools_of,
)
from mcp_app.catalogue.sources.http.openapi.convert import ConvertedTool
from mcp_app.catalogue.sources.http.openapi.faults import Unconvertible
from mcp_app.catalogue.sources.http.openapi.reading import DocumentError
from mcp_app.models import ApiDocument, Draft, Tool, audit


@dataclass(frozen=True, slots=True)
class PartChange:
    """A changed part of a tool. ``kept`` is True if an administrator's words stay."""

    name: str
    old: Any
    new: Any
    kept: bool


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool whose operation changed or disappeared. ``reason`` is set if it can no longer be converted."""

    key: str
    tool: Tool
    action: Literal["changed", "gone"]
    parts: tuple[PartChange, ...] = ()
    reason: str = ""
    waits: bool = False
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """The differences between a document and its tools. ``added`` are keys of new operations.

    ``sha256`` is the digest of the compared document.
    """

    changes: list[ToolChange]
    added: list[str]
    unchanged: int
    sha256: str


class DocumentMoved(DocumentError):
    """A document that was replaced after its differences were shown."""


@dataclass(slots=True)
class Updated:
    """The outcome of an update: drafts of accepted changes, and reasons by operation key."""

    drafts: list[Draft] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


def planned(row: ApiDocument) -> UpdatePlan:
    """Return the differences. The newer version is compared if there is one. Raises DocumentError."""
    current = document_of(row)
    document = newer_of(row) or current
    converter = converter_of(row, document)
    tools = tools_of(row)
    # The chosen content types stay, as long as the operation has them.
    converter.content_types = {key: content_type_of(tool) for key, tool in tools.items()}
    waiting = set(
        Draft.objects.filter(kind=Tool.KIND, entry_id__in=[tool.pk for tool in tools.values()]).values_list(
            "entry_id", flat=True
        )
    )
    changes = []
    for key, tool in tools.items():
        waits = tool.pk in waiting
        if key not in document.places:
            changes += _gone(key, tool, "The document no longer has this operation.", waits)
            continue
        try:
            change = _changed(key, tool, converter.tool(key), waits)
        except Unconvertible as error:
            changes += _gone(key, tool, str(error), waits)
            continue
        changes += [change] if change is not None else []
    added = [key for key in document.places if key not in current.places]
    return UpdatePlan(changes, added, len(tools) - len(changes), document.sha256)


def update_tools(*, row: ApiDocument, accepted: Collection[str], actor: Any, seen: str = "") -> Updated:
    """Save drafts of the accepted changes, by operation key, and put the newer version into use.

    Changes that are not accepted are shown again. ``seen`` is the digest of the document whose differences
    the user has seen. Raises DocumentMoved if the document was replaced since, and DocumentError.
    """
    outcome = Updated()
    with transaction.atomic():
        revisions.lock()
        row.refresh_from_db()
        plan = planned(row)
        if seen and seen != plan.sha256:
            raise DocumentMoved("The document has changed since you looked. Look at its changes again.")
        found = {change.key: change for change in plan.changes}
        for key in dict.fromkeys(accepted):
            if (change := found.get(key)) is None:
                outcome.skipped[key] = "It has not changed."
                continue
            if change.waits:
                outcome.skipped[change.key] = "It has a draft already: publish or discard it first."
                continue
            try:
                note = f"{UPDATE_OF} {row.name}: {change.key}"[:500]
                draft = drafts.save_draft(
                    kind=Tool, entry=change.tool, actor=actor, note=note, **change.values
                )
                outcome.drafts.append(draft)
            except ValidationError as error:
                outcome.skipped[change.key] = reason_of(error)
        is_newer = row.newer is not None
        take_newer(row)
        if outcome.drafts or is_newer:
            audit(
                actor=actor,
                action="document.updated",
                object_kind="document",
                object_key=row.name,
                detail={"drafts": len(outcome.drafts), "skipped": len(outcome.skipped)},
            )
    return outcome


def _gone(key: str, tool: Tool, reason: str, waits: bool) -> list[ToolChange]:
    if not tool.enabled:
        return []
    return [ToolChange(key, tool, "gone", reason=reason, waits=waits, values={"enabled": False})]


def _changed(key: str, tool: Tool, converted: ConvertedTool, waits: bool) -> ToolChange | None:
    new, old, known = parts_of(converted), parts_in(tool), known_digests(tool)
    fresh, present = digests(new), digests(old)
    differing = [name for name in PARTS if fresh[name] != known.get(name) and new[name] != old[name]]
    if not differing:
        return None
    parts = tuple(
        PartChange(name, old[name], new[name], kept=name in KEPT and present[name] != known.get(name))
        for name in differing
    )
    values = {each.name: each.new for each in parts if not each.kept and each.name != "request"}
    values["request"] = _merged(request_of(tool), converted.request, fresh)
    return ToolChange(key, tool, "changed", parts, waits=waits, values=values)


def _merged(request: dict[str, Any], new: dict[str, Any], fresh: dict[str, str]) -> dict[str, Any]:
    """Return a request with the members that the operation determines, and all others unchanged."""
    chosen = {name: value for name, value in request.items() if name not in determined(request)}
    headers = {**new.get("headers", {}), **request.get("headers", {})}
    document = {**request.get("document", {}), "parts": fresh}
    return {**chosen, **determined(new), **({"headers": headers} if headers else {}), "document": document}
