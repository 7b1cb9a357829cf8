"""Checks of toolsets that cannot be offered, and of limits that limit no call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.doctor.finding import Finding, error, ok, warning
from mcp_app.doctor.installation import Installation
from mcp_app.limits.subjects import without_effect
from mcp_app.models import LimitRule

LIMITS: Final = "limits.subjects"
LIMITS_REMEDY: Final = "Change its callers or tools, or delete it."
MOST: Final = 20
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
        yield ok(CHECK, f"{len(found)} toolset{'s' * (len(found) != 1)}, without problems")


def limiting(_: Installation) -> Iterator[Finding]:
    """Report limits whose user, group, API key, client, tool or toolset does not exist any more."""
    rows = list(LimitRule.objects.filter(enabled=True))
    reasons = without_effect(rows)
    for row in [each for each in rows if each.pk in reasons][:MOST]:
        yield warning(LIMITS, f"the limit {row.name} limits no call: {reasons[row.pk]}", LIMITS_REMEDY)
    if rows and not reasons:
        yield ok(LIMITS, f"{len(rows)} limit{'s' * (len(rows) != 1)}, without problems")


CHECKS = (offered, limiting)
