"""Notifications about tasks to the subscriptions of one process.

The process that changes a task broadcasts only the task's id. The notification has the status at the time of
reading, so not every intermediate status of a task is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from mcp_app.execution.background.service import Background
from mcp_app.protocol.errors import Unavailable
from mcp_app.protocol.features.subscriptions import Notice
from mcp_app.protocol.features.tasks import NOTIFICATION

log = logging.getLogger("mcp.tasks")


class TaskUpdates:
    """The sender of notifications about changed tasks.

    ``wanted`` returns True for a task with subscribers, and ``listened`` returns all such tasks. ``tell``
    notifies the subscribers of a task.
    """

    def __init__(
        self,
        background: Background,
        wanted: Callable[[str], bool],
        listened: Callable[[], Iterable[str]],
        tell: Callable[[str, Notice], None],
    ) -> None:
        self._background = background
        self._wanted, self._listened = wanted, listened
        self._tell = tell
        self._due: dict[str, None] = {}
        self._looking: asyncio.Task[None] | None = None

    def send_status(self, task_ids: Iterable[str]) -> None:
        """Send the current status of these tasks to their subscribers."""
        self._due.update(dict.fromkeys(task_ids))
        if self._due and self._looking is None:
            self._looking = asyncio.create_task(self._send_due())

    def on_change(self, payload: dict[str, Any]) -> None:
        """Process a broadcast about a changed task, which any process may send."""
        if "resync" in payload:
            self.send_status(self._listened())  # Broadcasts may have been missed, so all tasks are read.
        elif self._wanted(payload["id"]):
            self.send_status([payload["id"]])

    async def _send_due(self) -> None:
        """Read the due tasks one after another, so that the newest status of a task is sent last."""
        try:
            while self._due:
                task_id, _ = self._due.popitem()
                try:
                    task = await self._background.read_task(task_id)
                except Unavailable as error:
                    log.warning("A change of task %s was not announced: %s", task_id, error.message)
                    continue
                if task is not None:
                    self._tell(task_id, Notice(NOTIFICATION, task.detailed()))
        finally:
            self._looking = None
