"""The stored queries for which a toolset had no fitting tool."""

from __future__ import annotations

from typing import Final

from django.db import transaction
from django.db.models import F

from mcp_app.database import clock
from mcp_app.models import SearchMiss

# The least recent queries of a toolset are deleted.
MAX_PER_TOOLSET: Final = 200
_LONGEST: Final = 200


def record(slug: str, query: str) -> None:
    """Count a query."""
    text = " ".join(query.replace("\0", " ").lower().split())[:_LONGEST].encode(errors="replace").decode()
    with transaction.atomic():
        rows = SearchMiss.objects.filter(slug=slug)
        if rows.filter(query=text).update(count=F("count") + 1, last_at=clock.now()):
            return
        SearchMiss.objects.bulk_create(
            [SearchMiss(slug=slug, query=text, last_at=clock.now())], ignore_conflicts=True
        )
        extra = rows.order_by("-last_at", "-pk").values_list("pk", flat=True)[MAX_PER_TOOLSET:]
        SearchMiss.objects.filter(pk__in=list(extra)).delete()


def of(slug: str, most: int = 20) -> list[SearchMiss]:
    """Return the most frequent queries of a toolset."""
    return list(SearchMiss.objects.filter(slug=slug).order_by("-count", "-last_at")[:most])
