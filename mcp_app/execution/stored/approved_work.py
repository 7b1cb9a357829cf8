"""The work that an approval covers. It is compared when a call is accepted, decided and started.

An approval is a text: the digest of the work, with a mark if the approval was given under four eyes. It is
stored with the approved call. If the call asks its client, the approval is also sealed in its state.
"""

from __future__ import annotations

from typing import Any, Final

from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.execution.stored.call_record import CallRecord, digest

UNDER_FOUR_EYES: Final = "+four-eyes"


def work_of(identity: str, arguments: dict[str, Any]) -> str:
    """Return the digest of a tool's identity and all arguments, including those that a preset fixes."""
    return digest(identity, arguments)


def approval_of(call: CallRecord) -> str:
    """Return the approval of a call, or ""."""
    if not call.approved:
        return ""
    return call.work + UNDER_FOUR_EYES if call.four_eyes else call.work


def covers(approval: str, entry: ToolEntry, arguments: dict[str, Any]) -> bool:
    """Return True if an approval covers this work under the tool's current definition and approval rule."""
    work = work_of(entry.identity, {**arguments, **entry.fixed_arguments})
    return approval == work + UNDER_FOUR_EYES or (approval == work and not entry.four_eyes)
