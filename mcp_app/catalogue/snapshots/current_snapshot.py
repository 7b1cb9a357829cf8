"""The catalogue this process serves now, and how it is replaced when the stored one has moved on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Container
from concurrent.futures import Future, ThreadPoolExecutor

from mcp_app import conf
from mcp_app.catalogue.snapshots import snapshot_loader
from mcp_app.catalogue.snapshots.entries import NOTHING_BUILT
from mcp_app.catalogue.snapshots.snapshot import EMPTY, Catalogue
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.database.queries import thread_connection
from mcp_app.protocol.messages.server import ENDPOINT, Server


class _Holder:
    """The snapshot in use; replaced as a whole, so a reader sees the old one or the new one."""

    catalogue: Catalogue = EMPTY


_holder = _Holder()
_loading = threading.Lock()
_queueing = threading.Lock()
_executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="catalogue")
_queued: dict[bool, Future[Catalogue]] = {}


def current() -> Catalogue:
    """The catalogue in use; no I/O."""
    return _holder.catalogue


class Views:
    """Gives each request of one process its view, always of the snapshot in use at that moment.

    ``server`` is that of the installation. It is the only one, and served at its own path.
    """

    __slots__ = ("_servers", "server")

    def __init__(self, server: Server) -> None:
        self.server = server
        self._servers = {server.path: server}

    def of(self, permissions: Container[str], path: str = ENDPOINT) -> CatalogueView:
        """Return the view of a caller with these permissions; no I/O. Call it once for each request.

        What looks again after its request, as an event stream does, passes the path of its session. Raises
        KeyError for a path that no server has.
        """
        return CatalogueView(_holder.catalogue, permissions, self._servers[path])


def loaded() -> Catalogue:
    """As ``current``, in a process that may not have read the catalogue yet; blocks if it has not."""
    return refresh_now() if _holder.catalogue is EMPTY else _holder.catalogue


def refresh_now(*, force: bool = False) -> Catalogue:
    """Load the stored catalogue if its revision moved, put it in use and return it; blocks.

    ``force``: load it in any case, and build every entry anew.
    """
    with _loading:
        present = _holder.catalogue
        at = snapshot_loader.revision()
        if force or at.number != present.revision:
            _holder.catalogue = snapshot_loader.load(NOTHING_BUILT if force else present.built, at)
        return _holder.catalogue


def refreshed_view(permissions: Container[str]) -> CatalogueView:
    """Return a caller's view of the stored catalogue, for what belongs to no request; blocks."""
    return CatalogueView(refresh_now(), permissions, conf.get().server)


async def refresh(force: bool = False) -> Catalogue:
    """As ``refresh_now``, in a thread; many callers at once share the next load that has not begun."""
    return await asyncio.wrap_future(_queue(force))


def replace(catalogue: Catalogue) -> Catalogue:
    """Put a catalogue in use that did not come from the database, for tests; returns the one before."""
    before, _holder.catalogue = _holder.catalogue, catalogue
    return before


def _queue(force: bool) -> Future[Catalogue]:
    # A load that has begun may have read the revision before this caller's change, so it is not shared.
    with _queueing:
        waiting = _queued.get(force)
        if waiting is None or waiting.running() or waiting.done():
            waiting = _queued[force] = _executor.submit(_refresh_in_thread, force)
        return waiting


@thread_connection()
def _refresh_in_thread(force: bool) -> Catalogue:
    return refresh_now(force=force)
