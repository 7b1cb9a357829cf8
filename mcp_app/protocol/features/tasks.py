"""Tasks on the wire, their names, states and shapes; no calls, no stores.

Two revisions have them: 2026-07-28 as an extension, 2025-11-25 in its core.
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
# The ``_meta`` of a core task's messages (TASK4-09), and the notification of its changes.
RELATED: Final = "io.modelcontextprotocol/related-task"
STATUS_NOTIFICATION: Final = "notifications/tasks/status"
# What a client has to declare, as the error that asks for it says it.
REQUIRED: Final[dict[str, Any]] = {"extensions": {EXTENSION: {}}}


class Status(StrEnum):
    """What a client sees of a task's life; nothing follows the last three."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task at one moment. ``rest`` is what its status adds: inputRequests, result or error (TASKX-06)."""

    id: str
    status: Status
    created_at: datetime
    updated_at: datetime
    until: datetime
    poll_ms: int
    message: str = ""
    rest: Mapping[str, Any] = field(default_factory=dict)

    def created(self) -> dict[str, Any]:
        """The result of the request that made it (TASKX-04)."""
        return {"resultType": "task", **self._members()}

    def detailed(self) -> dict[str, Any]:
        """All there is to know, as ``tasks/get`` and ``notifications/tasks`` tell it."""
        return {**self._members(), **self.rest}

    def core(self) -> dict[str, Any]:
        """As 2025-11-25 has it; what belongs to the status is asked for by ``tasks/result`` (TASK4-04)."""
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
    """Params or a result with a ``_meta`` that names the core task they belong to (TASK4-09)."""
    return {**members, "_meta": {**members.get("_meta", {}), RELATED: {"taskId": task_id}}}


def stamp(at: datetime) -> str:
    """A moment in the one form the protocol has for it."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
