"""Shapes of a task, validated by the published schema of the extension."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from mcp_app.protocol.features.tasks import Status, Task, stamp
from tests.samples.published_schema import problems

MADE = datetime(2026, 7, 28, 12, 0, 0, 123456, tzinfo=UTC)
ASKED = {"a": {"method": "roots/list", "params": {}}}


def task(status: Status, rest: dict[str, Any] | None = None, message: str = "") -> Task:
    return Task(
        id="786512e2-9e0d-44bd-8f29-789f320fe840",
        status=status,
        created_at=MADE,
        updated_at=MADE + timedelta(seconds=1.5),
        until=MADE + timedelta(minutes=1),
        poll_ms=500,
        message=message,
        rest=rest or {},
    )


@pytest.mark.requirement("TASKX-04", "TASKX-21")
@pytest.mark.parametrize("message", ["", "Waiting for approval"])
def test_created_task_is_flat_and_matches_schema(message: str) -> None:
    made = task(Status.WORKING, message=message).created()
    assert made == {
        "resultType": "task",
        "taskId": "786512e2-9e0d-44bd-8f29-789f320fe840",
        "status": "working",
        **({"statusMessage": message} if message else {}),
        "createdAt": "2026-07-28T12:00:00.123Z",
        "lastUpdatedAt": "2026-07-28T12:00:01.623Z",
        "ttlMs": 60_000,
        "pollIntervalMs": 500,
    }
    assert problems("ext-tasks", "CreateTaskResult", made) == []


@pytest.mark.requirement("TASKX-06")
@pytest.mark.parametrize(
    ("status", "rest"),
    [
        (Status.WORKING, {}),
        (Status.CANCELLED, {}),
        (Status.INPUT_REQUIRED, {"inputRequests": ASKED}),
        (Status.COMPLETED, {"result": {"content": []}}),
        (Status.FAILED, {"error": {"code": -32603, "message": "no"}}),
    ],
)
def test_each_status_has_only_its_own_member(status: Status, rest: dict[str, Any]) -> None:
    told = task(status, rest).detailed()
    assert told.keys() - {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"} == set(
        rest
    )
    assert problems("ext-tasks", "GetTaskResult", {"resultType": "complete", **told}) == []


def test_timestamp_is_in_utc() -> None:
    assert stamp(MADE.astimezone(timezone(timedelta(hours=5)))) == "2026-07-28T12:00:00.123Z"
