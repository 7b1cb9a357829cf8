"""The only module that writes saved searches: save, rename, share, delete, restore. It checks access."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from mcp_app.message_log.search.language import parse
from mcp_app.models import SavedSearch, audit

READS: Final = "mcp_app.view_message"
SHARES: Final = "mcp_app.share_searches"
MOST: Final = 50
LONGEST_NAME: Final = 80


def searches_of(user: Any) -> QuerySet[SavedSearch]:
    """Return the user's own searches and all shared searches."""
    return SavedSearch.objects.filter(Q(user_id=user.pk) | Q(shared=True))


def save_search(*, user: Any, name: str, text: str, pk: int | None = None) -> SavedSearch:
    """Save a search under a name.

    To restore a deleted search, pass its former primary key as ``pk``. Raises ValidationError with a text for
    the user, and PermissionDenied.
    """
    if not user.has_perm(READS):
        raise PermissionDenied
    name, text = _named(name), text.strip()
    search = parse(text)
    if not text or search.problems:
        raise ValidationError(" ".join(search.problems) or "Enter a search before you save it.")
    if SavedSearch.objects.filter(user_id=user.pk).count() >= MOST:
        raise ValidationError(f"You can save at most {MOST} searches. Delete one first.")
    return _stored(SavedSearch(pk=pk, user_id=user.pk, name=name, text=text))


def rename_search(*, search: SavedSearch, user: Any, name: str) -> None:
    """Rename one of the user's own searches. Raises ValidationError for an invalid or used name."""
    _only_own(search, user)
    search.name = _named(name)
    _stored(search)


def delete_search(*, search: SavedSearch, user: Any) -> None:
    """Delete one of the user's own searches. A shared search disappears for all users."""
    _only_own(search, user)
    search.delete()


def restore_search(*, user: Any, pk: int, name: str, text: str, shared: bool) -> SavedSearch:
    """Restore a deleted search of the user under its former primary key.

    A search that was shared is shared again if the user may still share searches. Raises ValidationError.
    """
    if SavedSearch.objects.filter(pk=pk).exists():
        raise ValidationError("This search was already restored.")
    with transaction.atomic():
        search = save_search(user=user, name=name, text=text, pk=pk)
        if shared and user.has_perm(SHARES):
            share_search(search=search, user=user, shared=True)
            search.shared = True
    return search


def share_search(*, search: SavedSearch, user: Any, shared: bool) -> None:
    """Share a search with all users who may read the log, or stop sharing it.

    Raises PermissionDenied.
    """
    if not user.has_perms([READS, SHARES]) or not (search.shared or search.user_id == user.pk):
        raise PermissionDenied
    with transaction.atomic():
        SavedSearch.objects.filter(pk=search.pk).update(shared=shared)
        audit(
            actor=user,
            action="search.share" if shared else "search.unshare",
            object_kind="search",
            object_key=search.name,
            detail={"text": search.text},
        )


def _named(name: str) -> str:
    name = " ".join(name.replace("\x00", "").split())
    if not 0 < len(name) <= LONGEST_NAME:
        raise ValidationError(f"Enter a name of 1 to {LONGEST_NAME} characters.")
    return name


def _only_own(search: SavedSearch, user: Any) -> None:
    if not user.has_perm(READS):
        raise PermissionDenied
    if search.user_id != user.pk:
        raise ValidationError("This search belongs to another user.")


def _stored(search: SavedSearch) -> SavedSearch:
    try:
        with transaction.atomic():
            search.save()
    except IntegrityError:
        raise ValidationError(f"You already have a search named “{search.name}”.") from None
    return search
