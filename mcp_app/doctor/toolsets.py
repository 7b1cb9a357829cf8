"""A check of toolsets: those that cannot be offered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.doctor.finding import Finding, error, ok
from mcp_app.doctor.installation import Installation

CHECK: Final = "toolsets.offered"
REMEDY: Final = "Open the toolset in the admin, choose its entries and groups again, and save it."


def offered(_: Installation) -> Iterator[Finding]:
    """Report toolsets that cannot be built. Nothing is served at their address."""
    found = current_snapshot.refresh_now().toolsets
    faulty = {path: toolset for path, toolset in found.items() if toolset.problem}
    for path, toolset in faulty.items():
        where = f"{path} and /mcp" if toolset.is_default else path
        yield error(CHECK, f"nothing is served at {where}: {toolset.problem}", REMEDY)
    if found and not faulty:
        yield ok(CHECK, f"{len(found)} toolset{'s' * (len(found) != 1)}, all of which can be offered")


CHECKS = (offered,)
