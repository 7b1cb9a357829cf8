"""How the other processes hear of a new revision; catalogue code only says that there is one."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from mcp_app import conf
from mcp_app.streams.blocking import announce as broadcast

Announcer = Callable[[int], None]


def _broadcast(revision: int) -> None:
    # Without Redis there is one process only, and it refreshes by itself.
    if conf.get().redis_url:
        broadcast.announce("catalogue", {"revision": revision})


class _Hook:
    announcer: Announcer = staticmethod(_broadcast)


def set_announcer(announcer: Announcer | None) -> None:
    """Replace what is called with a committed revision; None restores the broadcast through Redis."""
    _Hook.announcer = staticmethod(announcer or _broadcast)


def announce_on_commit(revision: int) -> None:
    """Tell everyone once the change can be read (TOOL-23)."""
    transaction.on_commit(lambda: _Hook.announcer(revision))
