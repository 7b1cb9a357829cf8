"""A Celery task that an installation may have had for years."""

from __future__ import annotations

import os
from typing import Any

from celery import shared_task


@shared_task(bind=True)
def import_books(self: Any, books: int) -> dict[str, Any]:
    """Import books."""
    for number in range(1, books + 1):
        meta = {"current": number, "total": books, "message": f"book {number}"}
        self.update_state(state="PROGRESS", meta=meta)
    return {"imported": books, "pid": os.getpid()}
