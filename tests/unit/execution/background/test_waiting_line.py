"""Queue positions for clients that requested progress, at bounded frequency."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import orjson
import pytest
from django.db.models import F
from django.test import override_settings

from mcp_app import conf
from mcp_app.execution.background import waiting_line
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.models import Call
from mcp_app.streams.gateway import Streams
from tests.unit.execution.attempts import new_call

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _redis(clean_redis: str, settings: Any) -> Iterator[None]:
    with override_settings(MCP={**settings.MCP, "REDIS_URL": clean_redis}):
        yield


def accepted(**changed: Any) -> CallRecord:
    return records.accept(new_call(session_id=uuid4().hex, **changed))[0]


def time_passes(seconds: float) -> None:
    """Move all stored times into the past."""
    ago = timedelta(seconds=seconds)
    Call.objects.update(accepted_at=F("accepted_at") - ago, reminded_at=F("reminded_at") - ago)


def said(call: CallRecord) -> list[dict[str, Any]]:
    """Return the messages on the stream of a call."""

    async def read() -> list[dict[str, Any]]:
        streams = Streams.connect(conf.get().redis_url)
        await streams.start()
        try:
            head = await streams.log.head(call.session_id, call.stream)
            if head is None or head.offset == 0:
                return []
            page = await streams.log.read(call.session_id, call.stream, head.epoch, 0)
            return [orjson.loads(event.data)["params"] for event in page.events]
        finally:
            await streams.close()

    return asyncio.run(read())


def words(call: CallRecord) -> list[str]:
    return [params["message"] for params in said(call)]


def test_waiting_client_receives_fair_queue_position_repeatedly() -> None:
    first, second, other = accepted(), accepted(), accepted(principal="key:7")
    waiting_line.sweep()
    assert words(second) == []
    time_passes(6)
    waiting_line.sweep()
    waiting_line.sweep()  # Another process sweeps shortly afterwards.
    assert [words(call) for call in (first, other, second)] == [
        ["1 of 3 waiting"],
        ["2 of 3 waiting"],
        ["3 of 3 waiting"],
    ]
    assert records.claim(first.id, "w")
    time_passes(11)
    waiting_line.sweep()
    assert words(second) == ["3 of 3 waiting", "2 of 2 waiting"]
    numbers = [params["progress"] for params in said(second)]
    assert numbers == sorted(set(numbers))
    assert {params["progressToken"] for params in said(second)} == {"p"}


def test_position_is_not_sent_without_token_to_tasks_or_retries() -> None:
    calls = [accepted(meta={}), accepted(task_seconds=600), accepted()]
    Call.objects.filter(pk=calls[2].id).update(attempt=1)
    time_passes(60)
    waiting_line.sweep()
    assert [words(call) for call in calls] == [[], [], []]


def test_attempt_knows_position_was_sent() -> None:
    told, silent = accepted(), accepted(meta={})
    time_passes(6)
    waiting_line.sweep()
    claimed = [records.claim(call.id, "w") for call in (told, silent)]
    assert [call and call.reminded for call in claimed] == [True, False]


def test_limited_tool_has_its_own_line_and_far_positions_are_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_line, "NOTIFIED", 2)
    plain = [accepted() for _ in range(3)]
    limited = accepted(lane="work")
    time_passes(6)
    waiting_line.sweep()
    assert [words(call) for call in (*plain, limited)] == [
        ["1 of 3 waiting"],
        ["2 of 3 waiting"],
        [],
        ["1 of 1 waiting"],
    ]
