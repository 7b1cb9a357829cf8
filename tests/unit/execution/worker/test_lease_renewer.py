"""The renewer of an attempt: renews the lease, delivers cancels, abandons lost calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import NamedTuple

import pytest
from asgiref.sync import sync_to_async

from mcp_app.database import clock
from mcp_app.execution.background.id_batch import Published
from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.worker import lease_renewer as module
from mcp_app.execution.worker.attempt_reply import AttemptReply
from mcp_app.execution.worker.lease_renewer import LeaseRenewer
from mcp_app.execution.worker.waiting_children import WaitingChildren, WaitingSlot
from mcp_app.models import Call as Row
from mcp_app.protocol.principal_key import Person
from mcp_app.streams.gateway import Streams
from tests.bounds import SLACK
from tests.unit.execution.attempts import call_of, claimed

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


class Kept(NamedTuple):
    record: CallRecord
    call: RunningCall
    renewer: LeaseRenewer
    place: WaitingSlot
    children: WaitingChildren


@pytest.fixture
async def kept(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kept]:
    """Return an attempt with a renewer that runs every few hundredths of a second."""
    for name in ("TICK_SECONDS", "POLL_SECONDS", "RENEW_SECONDS"):
        monkeypatch.setattr(module, name, 0.02)
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.2)
    record = await sync_to_async(claimed)()
    children = WaitingChildren()
    place = WaitingSlot(children, 0, 2)
    made = LeaseRenewer(record, asyncio.get_running_loop().call_soon_threadsafe, may_exit=False, place=place)
    call = made.call = call_of(record, streams, AttemptReply(streams, record, Published()))
    attempt: Future[str] = Future()
    watching = asyncio.create_task(asyncio.to_thread(made.watch, attempt))
    yield Kept(record, call, made, place, children)
    attempt.set_result("done")
    assert await watching == "done"


async def until(condition: object, seconds: float = 5.0) -> bool:
    """Wait until an async condition holds, and return True; TimeoutError if it does not."""
    async with asyncio.timeout(seconds + SLACK):
        while not await condition():  # type: ignore[operator]
            await asyncio.sleep(0.01)
    return True


async def test_expiring_lease_is_renewed_with_newest_progress(kept: Kept) -> None:
    await Row.objects.filter(pk=kept.record.id).aupdate(lease_until=clock.lease(1))
    kept.call.progress(3, 10, "three")

    async def renewed() -> bool:
        later = Row.objects.filter(pk=kept.record.id, lease_until__gt=clock.lease(5))
        return await later.filter(progress=3).aexists()

    assert await until(renewed)


async def test_cancel_stored_in_row_reaches_call_without_broadcast(kept: Kept) -> None:
    await sync_to_async(records.request_cancel_of)(kept.record.id, "enough")

    async def cancelled() -> bool:
        return kept.call.stopped_by == "cancel"

    assert await until(cancelled)


async def test_row_state_is_input_required_while_call_waits_for_client(kept: Kept) -> None:
    async def state() -> str:
        return str((await Row.objects.aget(pk=kept.record.id)).state)

    async def waits() -> bool:
        return await state() == "input_required"

    async def runs() -> bool:
        return await state() == "running"

    with kept.place:
        assert await until(waits)
    assert await until(runs)


async def test_question_is_withdrawn_when_another_principal_takes_its_slot(kept: Kept) -> None:
    withdrawn = threading.Event()
    kept.place.on_leave = withdrawn.set
    second, another = WaitingSlot(kept.children, 1, 2), WaitingSlot(kept.children, 2, 2)
    for place in (kept.place, second):
        place.person = Person("user:1")
    another.person = Person("user:2")
    with kept.place, second:
        assert not withdrawn.is_set()
        with another:
            assert await asyncio.to_thread(withdrawn.wait, 5 + SLACK)


async def test_superseded_attempt_is_stopped(kept: Kept) -> None:
    await Row.objects.filter(pk=kept.record.id).aupdate(attempt=2)

    async def stopped() -> bool:
        return kept.call.stopped

    assert await until(stopped)


async def test_finished_call_is_not_killed_while_answer_awaits_database(
    kept: Kept, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.0)
    kept.call.outcome = "ok"
    kept.renewer._deadline = 0.0
    leases = set()

    async def renewed_often() -> bool:
        leases.add((await Row.objects.aget(pk=kept.record.id)).lease_until)
        return len(leases) > 4  # An unfinished call is ended by the second look.

    assert await until(renewed_often)
    assert "did not stop" not in caplog.text


async def test_task_running_after_its_answer_is_reported(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()
    kept.call.task = asyncio.create_task(release.wait())
    kept.call.outcome = "cancelled"
    kept.renewer._deadline = 0.0

    async def named() -> bool:
        return "did not stop" in caplog.text

    assert await until(named)
    release.set()


async def test_call_ignoring_shutdown_is_logged_if_process_may_not_exit(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    kept.call.shut_down()

    async def said() -> bool:
        return "did not stop and continues in its thread" in caplog.text

    assert await until(said)


@pytest.mark.parametrize("error", [TimeoutError("own"), ValueError("own")])
def test_watch_raises_exception_of_attempt(error: Exception) -> None:
    attempt: Future[str] = Future()
    attempt.set_exception(error)
    with pytest.raises(type(error), match="own"):
        LeaseRenewer(claimed(), lambda _: None, may_exit=False).watch(attempt)


@pytest.mark.requirement("CEL-08")
async def test_task_progress_is_stored_and_announced_only_when_new(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TICK_SECONDS", "POLL_SECONDS"):
        monkeypatch.setattr(module, name, 0.02)
    told: list[float] = []
    record = await sync_to_async(claimed)(task_seconds=60)
    loop = asyncio.get_running_loop()
    renewer = LeaseRenewer(
        record, loop.call_soon_threadsafe, may_exit=False, on_news=lambda: told.append(loop.time())
    )
    call = renewer.call = call_of(record, streams, AttemptReply(streams, record, Published()))
    attempt: Future[str] = Future()
    watching = asyncio.create_task(asyncio.to_thread(renewer.watch, attempt))
    for number in (1, 2):
        call.progress(number, 10, f"step {number}")

        async def is_stored(message: str = f"step {number}") -> bool:
            row = await Row.objects.aget(pk=record.id)
            return row.message == message and row.progress_at is not None

        assert await until(is_stored)
    await asyncio.sleep(0.2)
    attempt.set_result("done")
    await watching
    assert len(told) == 2
