"""Marking answers as published: soon, in batches, and without raising."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async

from mcp_app.execution.background import id_batch as module
from mcp_app.execution.background.id_batch import Published
from mcp_app.execution.stored import records
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from tests.unit.execution.attempts import claimed

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def finished(request_id: int) -> records.CallRecord:
    call = claimed(request_id=request_id)
    assert records.finish(call.id, call.attempt, State.COMPLETED, "ok", b"{}")
    return call


async def test_published_answers_are_marked_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PUBLISHED_SECONDS", 0.01)
    noted = Published()
    for number in range(3):
        noted.add((await sync_to_async(finished)(number)).id)
    async with asyncio.timeout(5):
        while await Call.objects.filter(published=True).acount() < 3:
            await asyncio.sleep(0.01)
    assert {call.published async for call in Call.objects.all()} == {True}


async def test_flush_marks_all_pending_answers() -> None:
    noted = Published()
    noted.add((await sync_to_async(finished)(1)).id)
    await noted.flush()
    assert (await Call.objects.aget()).published
    await noted.flush()
    assert len(asyncio.all_tasks()) == 1
