"""Tasks on the wire: their names, states and shapes.

Two revisions have tasks: 2026-07-28 as an extension, 2025-11-25 in its core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

EXTENSION: Final = "io.modelcontextprotocol/tasks"
NOTIFICATION: Final = "notifications/tasks"
# The member of a subscription's filter that names tasks.
TASK_IDS: Final = "taskIds"
# The ``_meta`` key of a core task's messages (TASK4-09), and the notification of its changes.
RELATED: Final = "io.modelcontextprotocol/related-task"
STATUS_NOTIFICATION: Final = "notifications/tasks/status"
# The capability that clients must declare, as the error names it.
REQUIRED: Final[dict[str, Any]] = {"extensions": {EXTENSION: {}}}


class Status(StrEnum):
    """The status of a task as clients see it; the last three are final."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A snapshot of a task. ``rest`` depends on the status: inputRequests, result or error (TASKX-06)."""

    id: str
    status: Status
    created_at: datetime
    updated_at: datetime
    until: datetime
    poll_ms: int
    message: str = ""
    rest: Mapping[str, Any] = field(default_factory=dict)

    def created(self) -> dict[str, Any]:
        """Return the result of the request that created the task (TASKX-04)."""
        return {"resultType": "task", **self._members()}

    def detailed(self) -> dict[str, Any]:
        """Return all members for ``tasks/get`` and ``notifications/tasks``."""
        return {**self._members(), **self.rest}

    def core(self) -> dict[str, Any]:
        """Return the form of 2025-11-25; ``tasks/result`` returns its result separately (TASK4-04)."""
        return {**self._state(), "ttl": self._ttl_ms, "pollInterval": self.poll_ms}

    def _members(self) -> dict[str, Any]:
        return {**self._state(), "ttlMs": self._ttl_ms, "pollIntervalMs": self.poll_ms}

    def _state(self) -> dict[str, Any]:
        told = {"statusMessage": self.message} if self.message else {}
        return {
            "taskId": self.id,
            "status": self.status.value,
            **told,
            "createdAt": stamp(self.created_at),
            "lastUpdatedAt": stamp(self.updated_at),
        }

    @property
    def _ttl_ms(self) -> int:
        return round((self.until - self.created_at).total_seconds() * 1000)


def related(members: Mapping[str, Any], task_id: str) -> dict[str, Any]:
    """Add a ``_meta`` that names the core task to params or a result (TASK4-09)."""
    return {**members, "_meta": {**members.get("_meta", {}), RELATED: {"taskId": task_id}}}


def stamp(at: datetime) -> str:
    """Return a time in the protocol's only format."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
