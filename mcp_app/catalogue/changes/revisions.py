"""The revision counter: every change of the catalogue locks and increments it."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F, Q, QuerySet

from mcp_app import conf
from mcp_app.catalogue.schemas.strict_json import check_storable
from mcp_app.catalogue.sources.base import APPEARANCE, LIMITS
from mcp_app.catalogue.sources.lookup import own_fields, source_of
from mcp_app.models import CatalogueChange, CatalogueRevision, Tool
from mcp_app.models import audit as audit_event
from mcp_app.models.catalogue import Row
from mcp_app.streams.blocking.announce import announce

MAX_WHY: Final = 500

_LIST_OF = {"tool": "tools", "prompt": "prompts", "resource": "resources", "template": "resources"}
_SHARED = ("source", *APPEARANCE, "definition", "definition_hash", "missing")
# Columns of kinds that administrators cannot create.
_MIRRORED = ("name", "mime_type")


def lock() -> None:
    """Block other writers of the catalogue until this transaction ends. Call this before reading rows.

    The lock is an UPDATE, because SELECT … FOR UPDATE would lock nothing on SQLite.
    """
    CatalogueRevision.objects.bulk_create([CatalogueRevision(pk=1)], ignore_conflicts=True)
    CatalogueRevision.objects.filter(pk=1).update(number=F("number"))


def bump(kinds: set[str]) -> int:
    """Increment the catalogue revision and the revisions of the lists that contain these kinds.

    Return the new catalogue revision, which is announced on commit.
    """
    lists = {_LIST_OF[kind] for kind in kinds}
    fields = {name: F("number") + 1 for name in ("number", *sorted(lists))}
    CatalogueRevision.objects.filter(pk=1).update(**fields)
    number: int = CatalogueRevision.objects.values_list("number", flat=True).get(pk=1)
    # Other processes cannot read the revision before the commit (TOOL-23).
    transaction.on_commit(lambda: broadcast(number))
    return number


def broadcast(revision: int) -> None:
    """Announce a revision through Redis."""
    # Without Redis there is only one process, and it refreshes its own catalogue.
    if conf.get().redis_url:
        announce("catalogue", {"revision": revision})


def kind_of(row: Row) -> str:
    """Return ``tool``, ``prompt``, ``resource`` or ``template``."""
    return row.KIND


def key_of(row: Row) -> str:
    """Return the identifier that clients use for the entry."""
    return str(getattr(row, row.KEY))


def state_of(row: Row) -> dict[str, Any]:
    """Return the state of a row that the history stores."""
    kind: type[Any] = type(row)
    limits = LIMITS if kind is Tool else ()
    columns = (kind._meta.get_field(name).attname for name in own_fields(kind)[1:] or _MIRRORED)
    state = {name: getattr(row, name) for name in (*_SHARED, row.KEY, *limits, *columns)}
    if "file" in state:
        state["file"] = state["file"].name or ""
    if kind is Tool:
        # The name is stored because the row id changes if the tool's code is removed and installed again.
        base = source_of(row).base_of(row)
        state["preset_of"] = base.name if base is not None else None
    return state


def history_of(kind: str, key: str, pk: int | None = None) -> QuerySet[CatalogueChange]:
    """Return all changes of an entry, newest first, including changes under former names.

    ``pk`` is None for a deleted row; then only the changes under ``key`` are found.
    """
    same = Q(key=key) if pk is None else Q(key=key) | Q(entry_id=pk)
    return CatalogueChange.objects.filter(same, kind=kind)


def last_revision(row: Row) -> int:
    """Return the revision of the entry's last change, or 0."""
    newest = history_of(kind_of(row), key_of(row), row.pk).values_list("revision", flat=True).first()
    return newest or 0


def checked_why(why: str) -> str:
    """Return the stripped reason for a change. Raises ValidationError if it is too long or not storable."""
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
    """Write a change to the history, with the states before and after (S20)."""
    CatalogueChange.objects.create(
        revision=revision, kind=kind_of(row), key=key_of(row), entry_id=row.pk, action=action, before=before,
        after=after, actor=stored_actor(actor), why=why,
    )  # fmt: skip


def audit(*, actor: Any, action: str, row: Row | None = None, detail: dict[str, Any] | None = None) -> None:
    """Write an audit event (S21)."""
    audit_event(
        actor=actor,
        action=action,
        object_kind=kind_of(row) if row is not None else "catalogue",
        object_key=key_of(row) if row is not None else "",
        detail=detail,
    )


def stored_actor(actor: Any) -> Any:
    """Return the actor if it is a stored user. Commands and processes have no user and return None."""
    return actor if actor is not None and getattr(actor, "pk", None) is not None else None
