"""Views of a catalogue outside any serving process."""

from __future__ import annotations

from collections.abc import Container

from mcp_app.catalogue.snapshots.snapshot import Catalogue
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.protocol.messages.server import Server

SERVER = Server("tests", "1")


def seen(catalogue: Catalogue, permissions: Container[str]) -> CatalogueView:
    """Return the view of a caller with these permissions."""
    return CatalogueView(catalogue, permissions, SERVER)
