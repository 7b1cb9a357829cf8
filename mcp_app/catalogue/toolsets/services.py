"""The only functions that write toolsets. They check, write, record, audit and announce changes.

They follow ``changes/services.py``: ``actor`` is the acting user or None for the system, ``why`` is stored
with the change, and ``seen`` is the revision of the toolset that the caller read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.auth.membership import grant_membership
from mcp_app.catalogue.changes import pending_drafts, revisions
from mcp_app.catalogue.changes.services import ChangeAuthor, refuse_stale, refuse_unless_publisher
from mcp_app.catalogue.toolsets.checks import check, sound
from mcp_app.models import CatalogueChange, Toolset

FIELDS: Final = (
    "slug", "title", "instructions", "enabled", "is_default", "searches", "audience", "permissions",
    "members", "rules",
)  # fmt: skip


def state_of(row: Toolset) -> dict[str, Any]:
    """Return the state of a toolset that the history stores."""
    return {name: getattr(row, name) for name in FIELDS}


def of_state(state: Mapping[str, Any]) -> Toolset:
    """Return an unsaved toolset with the values of a state, without its damaged parts."""
    return sound(Toolset(**{name: value for name, value in state.items() if name in FIELDS}))


def save_toolset(
    *, actor: Any, toolset: Toolset | None = None, why: str = "", seen: int | None = None, **values: Any
) -> Toolset:
    """Create a toolset (``toolset`` None) or change one. Raises ValidationError and PermissionDenied."""
    refuse_unless_publisher(actor)
    action = "created" if toolset is None else "changed"
    author = ChangeAuthor(actor=actor, action=action, why=revisions.checked_why(why))
    return _save(toolset, values, author, seen)


def publish(
    *, toolset: Toolset | None, values: Mapping[str, Any], author: ChangeAuthor, seen: int | None
) -> Toolset:
    """Write the values of a draft, and return the toolset. Raises ValidationError without a difference."""
    refuse_unless_publisher(author.actor)
    if toolset is not None and all(getattr(toolset, name) == value for name, value in values.items()):
        raise ValidationError("No changes: the toolset already has these values.")
    return _save(toolset, values, author, seen)


def delete_toolset(*, toolset: Toolset, actor: Any, why: str = "") -> None:
    """Delete a toolset. Its streams end, and its address does not exist any more."""
    refuse_unless_publisher(actor)
    why = revisions.checked_why(why)
    with transaction.atomic():
        row = locked(toolset)
        before, pk = state_of(row), row.pk
        pending_drafts.drop_with_entry(_any(row), actor)
        row.delete()
        row.pk = pk  # ``delete`` clears it, but the history needs it.
        author = ChangeAuthor(actor=actor, action="deleted", why=why)
        _remember(row, revisions.bump(set()), author, before, None)


def roll_back(*, to: CatalogueChange, actor: Any, why: str = "", seen: int | None = None) -> Toolset:
    """Restore and return a toolset in its state after a change, or before its deletion."""
    refuse_unless_publisher(actor)
    state = to.after if to.after is not None else to.before or {}
    row = Toolset.objects.filter(slug=to.key).first()
    values = {name: state[name] for name in FIELDS if name in state}
    author = ChangeAuthor(
        actor=actor, action="rolled_back", why=revisions.checked_why(why), detail={"to": to.revision}
    )
    return _save(row, values, author, seen, restores=True)


def _save(
    toolset: Toolset | None,
    values: Mapping[str, Any],
    author: ChangeAuthor,
    seen: int | None,
    *,
    restores: bool = False,
) -> Toolset:
    with transaction.atomic():
        revisions.lock()
        row = Toolset() if toolset is None else locked(toolset)
        stored = state_of(row)
        before = None if toolset is None else state_of(sound(row))
        if before is not None:
            refuse_stale(_any(row), seen)
        fill(row, values, before)
        check(row, _known(before, values) if restores else before)
        after = state_of(row)
        if before is not None and stored == after:
            return row
        for permission in row.permissions:
            grant_membership(permission)
        row.revision = revisions.bump(set())
        row.updated_by = revisions.stored_actor(author.actor)
        row.save()
        _remember(row, row.revision, author, before, after)
    return row


def locked(toolset: Toolset) -> Toolset:
    """Lock the catalogue and return the stored toolset, which may differ from the caller's copy."""
    revisions.lock()
    return Toolset.objects.select_for_update(of=("self",)).get(pk=toolset.pk)


def fill(row: Toolset, values: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
    """Set values of a toolset. Raises ValidationError for an unknown value, and for another slug."""
    if unknown := sorted(values.keys() - set(FIELDS)):
        raise ValidationError({unknown[0]: ["There is no such field."]})
    if before is not None and values.get("slug", row.slug) != row.slug:
        raise ValidationError({"slug": ["This is part of the address and cannot be changed."]})
    for name, value in values.items():
        setattr(row, name, value)


def _known(before: Mapping[str, Any] | None, restored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored state with the members and groups of a restored one, which may no longer exist."""
    stored = before or {}
    lists = {name: [*stored.get(name, ()), *restored.get(name, ())] for name in ("members", "permissions")}
    return {**(before or restored), **lists}


def _remember(
    row: Toolset,
    revision: int,
    author: ChangeAuthor,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> None:
    action, actor, why = author.action, author.actor, author.why
    revisions.record(
        revision=revision, row=_any(row), action=action, before=before, after=after, actor=actor, why=why
    )
    changed = sorted(name for name in FIELDS if before[name] != after[name]) if before and after else []
    detail = {"revision": revision, "changed": changed, **author.detail, **({"why": why} if why else {})}
    revisions.audit(actor=actor, action=f"catalogue.{action}", row=_any(row), detail=detail)


def _any(row: Any) -> Any:
    return row
