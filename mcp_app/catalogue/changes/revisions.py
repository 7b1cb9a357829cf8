"""The one revision counter: every change of the catalogue is written under its lock and raises it."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db.models import F, Q, QuerySet

from mcp_app.catalogue.changes.announce import announce_on_commit
from mcp_app.catalogue.schemas.strict_json import check_storable
from mcp_app.catalogue.sources.base import DRESS, LIMITS
from mcp_app.catalogue.sources.registry import own_fields, source_of
from mcp_app.models import CatalogueChange, CatalogueRevision, Tool
from mcp_app.models import audit as audit_event
from mcp_app.models.catalogue import Row

MAX_WHY: Final = 500

_LIST_OF = {"tool": "tools", "prompt": "prompts", "resource": "resources", "template": "resources"}
_SHARED = ("source", *DRESS, "definition", "definition_hash", "missing")
# Of kinds that nobody makes here.
_MIRRORED = ("name", "mime_type")


def lock() -> None:
    """Make other writers of the catalogue wait until this transaction ends; call it before reading rows.

    An update locks on every database; SELECT … FOR UPDATE would lock nothing on SQLite.
    """
    CatalogueRevision.objects.bulk_create([CatalogueRevision(pk=1)], ignore_conflicts=True)
    CatalogueRevision.objects.filter(pk=1).update(number=F("number"))


def bump(kinds: set[str]) -> int:
    """Raise the revision, and that of the lists that these kinds of rows are in; return it.

    It is announced on commit.
    """
    lists = {_LIST_OF[kind] for kind in kinds}
    fields = {name: F("number") + 1 for name in ("number", *sorted(lists))}
    CatalogueRevision.objects.filter(pk=1).update(**fields)
    number: int = CatalogueRevision.objects.values_list("number", flat=True).get(pk=1)
    announce_on_commit(number)
    return number


def kind_of(row: Row) -> str:
    """``tool``, ``prompt``, ``resource`` or ``template``."""
    return row.KIND


def key_of(row: Row) -> str:
    """What clients call the entry."""
    return str(getattr(row, row.KEY))


def state_of(row: Row) -> dict[str, Any]:
    """What history keeps of a row."""
    kind: type[Any] = type(row)
    limits = LIMITS if kind is Tool else ()
    columns = (kind._meta.get_field(name).attname for name in own_fields(kind)[1:] or _MIRRORED)
    state = {name: getattr(row, name) for name in (*_SHARED, row.KEY, *limits, *columns)}
    if "file" in state:
        state["file"] = state["file"].name or ""
    if kind is Tool:
        # Its number would mean another tool, or none, once the code that defines it was away for a while.
        base = source_of(row).base_of(row)
        state["preset_of"] = base.name if base is not None else None
    return state


def history_of(kind: str, key: str, pk: int | None = None) -> QuerySet[CatalogueChange]:
    """Every change of an entry, newest first, whatever its name was; ``pk`` is None when its row is gone."""
    same = Q(key=key) if pk is None else Q(key=key) | Q(entry_id=pk)
    return CatalogueChange.objects.filter(same, kind=kind)


def last_revision(row: Row) -> int:
    """The revision at which this entry last changed, 0 when nothing is recorded of it."""
    newest = history_of(kind_of(row), key_of(row), row.pk).values_list("revision", flat=True).first()
    return newest or 0


def checked_why(why: str) -> str:
    """The reason of a change as it is kept; raises ValidationError."""
    text = why.strip()
    if len(text) > MAX_WHY:
        raise ValidationError({"why": [f"This has {len(text)} characters: use at most {MAX_WHY}."]})
    check_storable(text)
    return text


def record(
    *,
    revision: int,
    row: Row,
    action: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    actor: Any,
    why: str = "",
) -> None:
    """Keep what an entry was and became (S20)."""
    CatalogueChange.objects.create(
        revision=revision, kind=kind_of(row), key=key_of(row), entry_id=row.pk, action=action, before=before,
        after=after, actor=known(actor), why=why,
    )  # fmt: skip


def audit(*, actor: Any, action: str, row: Row | None = None, detail: dict[str, Any] | None = None) -> None:
    """Say who did it (S21)."""
    audit_event(
        actor=actor,
        action=action,
        object_kind=kind_of(row) if row is not None else "catalogue",
        object_key=key_of(row) if row is not None else "",
        detail=detail,
    )


def known(actor: Any) -> Any:
    """A stored user, or None for commands and processes."""
    return actor if actor is not None and getattr(actor, "pk", None) is not None else None
