"""Announcement of new revisions to other processes."""

from __future__ import annotations

from django.db import transaction

from mcp_app import conf
from mcp_app.streams.blocking import announce


def announce_on_commit(revision: int) -> None:
    """Announce a revision after the commit, because other processes cannot read it earlier (TOOL-23)."""
    transaction.on_commit(lambda: broadcast(revision))


def broadcast(revision: int) -> None:
    """Announce a revision through Redis."""
    # Without Redis there is only one process, and it refreshes its own catalogue.
    if conf.get().redis_url:
        announce.announce("catalogue", {"revision": revision})
