"""How the other processes hear of a new revision; catalogue code only says that there is one."""

from __future__ import annotations

from django.db import transaction

from mcp_app import conf
from mcp_app.streams.blocking import announce


def announce_on_commit(revision: int) -> None:
    """Tell everyone once the change can be read (TOOL-23)."""
    transaction.on_commit(lambda: broadcast(revision))


def broadcast(revision: int) -> None:
    """Say that there is a new revision, through Redis."""
    # Without Redis there is one process only, and it refreshes by itself.
    if conf.get().redis_url:
        announce.announce("catalogue", {"revision": revision})
