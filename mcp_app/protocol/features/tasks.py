"""Tasks in protocol messages: their names, states and formats.

Two revisions have tasks: 2026-07-28 as an extension, and 2025-11-25 as a part of its core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

EXTENSION: Final = "io.modelcontextprotocol/tasks"
NOTIFICATION: Final = "notifications/tasks"
# The member of a subscription's filter that contains the ids of tasks.
TASK_IDS: Final = "taskIds"
# The ``_meta`` key in messages about a core task (TASK4-09), and the notification about its changes.
RELATED: Final = "io.modelcontextprotocol/related-task"
STATUS_NOTIFICATION: Final = "notifications/tasks/status"
# The capability that a client must declare, in the form used by the error.
REQUIRED: Final[dict[str, Any]] = {"extensions": {EXTENSION: {}}}


class Status(StrEnum):
    """The status of a task as clients see it. The last three are final."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A snapshot of a task.

    ``rest`` has the members for its status: inputRequests, result or error (TASKX-06).
    """

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
        """Return the task with all its members, for ``tasks/get`` and ``notifications/tasks``."""
        return {**self._members(), **self.rest}

    def core(self) -> dict[str, Any]:
        """Return the form of 2025-11-25. It has no result, because ``tasks/result`` returns it (TASK4-04)."""
        return {**self._state(), "ttl": self._ttl_ms, "pollInterval": self.poll_ms}

    def _members(self) -> dict[str, Any]:
        return {**self._state(), "ttlMs": self._ttl_ms, "pollIntervalMs": self.poll_ms}

    def _state(self) -> dict[str, Any]:
        status_message = {"statusMessage": self.message} if self.message else {}
        return {
            "taskId": self.id,
            "status": self.status.value,
            **status_message,
            "createdAt": stamp(self.created_at),
            "lastUpdatedAt": stamp(self.updated_at),
        }

    @property
    def _ttl_ms(self) -> int:
        return round((self.until - self.created_at).total_seconds() * 1000)


def related(members: Mapping[str, Any], task_id: str) -> dict[str, Any]:
    """Add a ``_meta`` with the id of the core task to params or to a result (TASK4-09)."""
    return {**members, "_meta": {**members.get("_meta", {}), RELATED: {"taskId": task_id}}}


def stamp(at: datetime) -> str:
    """Return a time in the only format that the protocol uses."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
