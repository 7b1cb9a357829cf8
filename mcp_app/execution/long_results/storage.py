"""Storage of long results in the database: store, read, delete."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from django.db import transaction

from mcp_app.database import clock
from mcp_app.execution.long_results.pages import Page
from mcp_app.models import ResultPage, StoredResult
from mcp_app.protocol.principal_key import person_of

# A person's older results are deleted, so a quota of bytes alone would allow many small ones.
MAX_PER_PERSON: Final = 500
_SLICE: Final = 200


class Caller(NamedTuple):
    """The caller of a tool: principal key, user and the path of the server."""

    principal: str
    user_id: int | None
    path: str


class StoredPage(NamedTuple):
    """A page of a stored result, and the number of its pages."""

    page: Page
    page_count: int


def store(key: str, caller: Caller, tool: str, pages: list[Page], seconds: float, quota: int) -> None:
    """Store a result for ``seconds``. Delete the person's oldest results above ``quota`` bytes."""
    contents = [page.content.encode() for page in pages]
    person = person_of(caller.principal)
    with transaction.atomic():
        StoredResult.objects.bulk_create(
            [
                StoredResult(
                    id=key,
                    principal=caller.principal,
                    person=person,
                    user_id=caller.user_id,
                    path=caller.path,
                    tool=tool,
                    page_count=len(pages),
                    size=sum(map(len, contents)),
                    created_at=clock.now(),
                    expires_at=clock.now(seconds),
                )
            ]
        )
        ResultPage.objects.bulk_create(
            [
                ResultPage(
                    result_id=key,
                    number=number,
                    mime_type=page.mime_type[:255],
                    is_blob=page.is_blob,
                    content=content,
                )
                for number, (page, content) in enumerate(zip(pages, contents, strict=True), start=1)
            ],
            batch_size=_SLICE,
        )
        _delete(_above(person, quota, key))


def read(key: str, caller: Caller, number: int) -> StoredPage | None:
    """Return a page of a result, or None if the caller has no such result."""
    found = (
        ResultPage.objects.filter(
            result_id=key,
            number=number,
            result__principal=caller.principal,
            result__path=caller.path,
            result__expires_at__gt=clock.now(),
        )
        .values_list("mime_type", "content", "is_blob", "result__page_count")
        .first()
    )
    if found is None:
        return None
    mime_type, content, is_blob, count = found
    return StoredPage(Page(mime_type, bytes(content).decode(), is_blob), count)


def purge() -> int:
    """Delete expired results, and return how many were deleted."""
    expired, removed = StoredResult.objects.filter(expires_at__lte=clock.now()), 0
    while keys := list(expired.values_list("pk", flat=True)[:_SLICE]):
        _delete(keys)
        removed += len(keys)
    return removed


def _above(person: str, quota: int, newest: str) -> list[str]:
    """Return the person's oldest results beyond the quota. The newest result always remains."""
    rows = StoredResult.objects.filter(person=person).order_by("-created_at").values_list("pk", "size")
    sizes = dict(rows)
    # The database's clock can be set back, and SQLite's counts milliseconds: another row may seem as new.
    used, beyond = sizes.pop(newest), []
    for place, (key, size) in enumerate(sizes.items(), start=1):
        used += size
        if used > quota or place >= MAX_PER_PERSON:
            beyond.append(key)
    return beyond


def _delete(keys: list[Any]) -> None:
    if keys:
        ResultPage.objects.filter(result_id__in=keys).delete()
        StoredResult.objects.filter(pk__in=keys).delete()
