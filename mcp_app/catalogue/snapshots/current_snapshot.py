"""The catalogue that this process serves, and its replacement after a change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Container
from concurrent.futures import Future, ThreadPoolExecutor

from mcp_app import conf, servers
from mcp_app.catalogue.snapshots import snapshot_loader
from mcp_app.catalogue.snapshots.entries import NOTHING_BUILT
from mcp_app.catalogue.snapshots.snapshot import EMPTY, Catalogue
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.database.queries import thread_connection
from mcp_app.protocol.messages.server import ENDPOINT, Server


class _Holder:
    """The holder of the current snapshot. Readers see either the old or the new snapshot.

    ``own`` is the catalogue of the installation's own server: that of the default toolset, or the whole.
    ``faulty`` is the server of a default toolset that cannot be built. It replaces the installation's own.
    """

    catalogue: Catalogue = EMPTY
    own: Catalogue = EMPTY
    faulty: Server | None = None

    def put(self, catalogue: Catalogue) -> None:
        """Replace the snapshot."""
        default = next((each for each in catalogue.toolsets.values() if each.is_default), None)
        self.own, self.catalogue = default.catalogue if default else catalogue, catalogue
        self.faulty = default.server if default and default.problem else None
        servers.serve_by_default(default.server.path if default else ENDPOINT)


_holder = _Holder()
servers.register(lambda: _holder.catalogue.servers)
_loading = threading.Lock()
_queueing = threading.Lock()
_executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="catalogue")
_queued: dict[bool, Future[Catalogue]] = {}


def current() -> Catalogue:
    """Return the current catalogue without I/O."""
    return _holder.catalogue


class Views:
    """The process's factory of catalogue views, which each show the current snapshot.

    ``server`` is the installation's own server. Further servers are registered with ``servers``.
    """

    __slots__ = ("server",)

    def __init__(self, server: Server) -> None:
        self.server = server

    def of(self, permissions: Container[str], path: str = ENDPOINT) -> CatalogueView:
        """Return the view for a caller with these permissions, without I/O. Call this once per request.

        Requests pass the path of their endpoint, and long-lived objects such as event streams the path of
        their session. The view of a deleted server is empty, and its ``server`` is ``removed``. A toolset
        that the caller may not use has such a view as well, with a reason as ``refusal``. So has each server
        with a toolset that cannot be built, with a ``fault``.
        """
        if path == ENDPOINT:
            return CatalogueView(_holder.own, permissions, _holder.faulty or self.server)
        whole = _holder.catalogue
        toolset = whole.toolsets.get(path)
        if toolset is None:
            server = servers.at(path)
            return CatalogueView(EMPTY if server.removed else whole, permissions, server)
        if toolset.admits(permissions):
            return CatalogueView(toolset.catalogue, permissions, toolset.server)
        return CatalogueView(EMPTY, permissions, toolset.refusing)

    @property
    def whole(self) -> Catalogue:
        """The whole snapshot, for what concerns all servers and no caller."""
        return _holder.catalogue


def loaded() -> Catalogue:
    """Return the current catalogue. If this process has not loaded it yet, load it first, which blocks."""
    return refresh_now() if _holder.catalogue is EMPTY else _holder.catalogue


def refresh_now(*, force: bool = False) -> Catalogue:
    """Return the stored catalogue, and load it first if its revision changed. Blocks on the database.

    With ``force`` the catalogue is loaded in any case, and every entry is rebuilt.
    """
    with _loading:
        present = _holder.catalogue
        at = snapshot_loader.revision()
        if force or at.number != present.revision:
            _holder.put(snapshot_loader.load(NOTHING_BUILT if force else present.built, at))
        return _holder.catalogue


def refreshed_view(permissions: Container[str], path: str = ENDPOINT) -> CatalogueView:
    """Return a caller's view of the stored catalogue, for use outside of requests. Blocks on the database."""
    refresh_now()
    return Views(conf.get().server).of(permissions, path)


async def refresh(force: bool = False) -> Catalogue:
    """Run ``refresh_now`` in a thread. Concurrent callers share the next load that has not started."""
    return await asyncio.wrap_future(_queue(force))


def replace(catalogue: Catalogue) -> Catalogue:
    """Replace the current catalogue in a test, and return the former catalogue."""
    before = _holder.catalogue
    _holder.put(catalogue)
    return before


def _queue(force: bool) -> Future[Catalogue]:
    # A running load may have read the revision before this caller's change, so it is not shared.
    with _queueing:
        waiting = _queued.get(force)
        if waiting is None or waiting.running() or waiting.done():
            waiting = _queued[force] = _executor.submit(_refresh_in_thread, force)
        return waiting


@thread_connection()
def _refresh_in_thread(force: bool) -> Catalogue:
    return refresh_now(force=force)
