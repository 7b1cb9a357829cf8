"""Requests to a client: answered once through any process, withdrawn when no caller waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from mcp_app.conf import Settings
from mcp_app.message_log.log import MessageLog
from mcp_app.protocol.messages.jsonrpc import Response
from mcp_app.sessions.client_requests import ClientFailed, ClientRequests, NoAnswer
from mcp_app.sessions.session import LiveSession, stored_fields
from mcp_app.streams.base import StreamsFull, StreamsUnavailable
from mcp_app.streams.gateway import Streams


def session(session_id: str = "a-session-of-these-tests") -> LiveSession:
    return LiveSession(
        session_id,
        stored_fields(
            version="2025-11-25",
            principal_key="ada",
            client_info={"name": "tests", "version": "1"},
            capabilities={"roots": {}},
            announced=0,
        )
        | {"initialized": "1"},
    )


class Asked:
    """A pending request and the messages sent to its client."""

    def __init__(self, requests: ClientRequests, method: str = "roots/list") -> None:
        self.sent: list[dict[str, Any]] = []
        self.open: set[str] = set()
        self.task = asyncio.create_task(requests.ask(session(), method, {}, self.send, self.open))

    def send(self, encoded: bytes, lost: Callable[[str], None] | None = None) -> None:
        self.sent.append(orjson.loads(encoded))
        if lost is not None:
            self.lose = lost

    async def id(self) -> str:
        async with asyncio.timeout(5):
            while not self.sent:
                await asyncio.sleep(0)
        found: str = self.sent[0]["id"]
        return found


Make = Callable[..., ClientRequests]


@pytest.fixture
def process(streams: Streams, settings: Settings) -> Make:
    """Return one more process on the same streams."""
    return lambda seconds=3600.0: ClientRequests(streams, MessageLog(streams, settings), seconds)


@pytest.mark.requirement("T-POST-10")
async def test_answer_may_arrive_at_another_process(process: Make) -> None:
    asked = Asked(process())
    request_id = await asked.id()
    assert asked.open == {request_id}
    assert await process().answer(session(), Response(request_id, {"roots": [1]}, None))
    assert await asked.task == {"roots": [1]}
    assert (asked.open, len(asked.sent)) == (set(), 1)


async def test_client_error_is_raised_with_its_message(process: Make) -> None:
    requests = process()
    asked = Asked(requests)
    await requests.answer(session(), Response(await asked.id(), None, {"code": -1, "message": "no"}))
    with pytest.raises(ClientFailed, match="no") as failed:
        await asked.task
    assert failed.value.code == -1


@pytest.mark.requirement("T-POST-09")
async def test_only_first_answer_counts(process: Make) -> None:
    requests = process()
    asked = Asked(requests)
    request_id = await asked.id()
    answers = [await requests.answer(session(), Response(request_id, {"n": n}, None)) for n in range(3)]
    assert answers == [True, False, False]
    assert await asked.task == {"n": 0}
    assert not await requests.answer(session(), Response(request_id, {}, None))


@pytest.mark.parametrize("request_id", ["unknown", 7, "", "ü", "a b", "x" * 10_000, "{x}:y"])
async def test_answer_to_unknown_request_is_rejected(request_id: str | int, process: Make) -> None:
    assert not await process().answer(session(), Response(request_id, {}, None))


@pytest.mark.requirement("SES-09")
async def test_answer_from_another_session_is_rejected(process: Make) -> None:
    requests = process()
    asked = Asked(requests)
    request_id = await asked.id()
    assert not await requests.answer(session("another-session-of-tests"), Response(request_id, {}, None))
    assert await requests.answer(session(), Response(request_id, {"mine": 1}, None))
    assert await asked.task == {"mine": 1}


async def test_abandoned_request_is_withdrawn_and_raises_reason(process: Make) -> None:
    requests = process()
    asked, at_another = Asked(requests), Asked(process())
    request_id, other_id = await asked.id(), await at_another.id()
    for _ in range(2):
        requests.give_up("others need the place")
    with pytest.raises(NoAnswer, match="others need the place"):
        await asked.task
    assert asked.sent[-1]["method"] == "notifications/cancelled"
    assert not await requests.answer(session(), Response(request_id, {}, None))
    assert await requests.answer(session(), Response(other_id, {"n": 1}, None))
    assert await at_another.task == {"n": 1}


async def test_request_ids_are_unique(process: Make) -> None:
    requests = process()
    asked = [Asked(requests) for _ in range(50)]
    assert len({await each.id() for each in asked}) == 50
    for each in asked:
        each.task.cancel()
    await asyncio.wait([each.task for each in asked])


async def _answered_too_late(requests: ClientRequests, asked: Asked) -> None:
    with pytest.raises(NoAnswer, match="did not answer roots/list within 0 seconds"):
        await asked.task


async def _cancelled(requests: ClientRequests, asked: Asked) -> None:
    asked.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked.task


@pytest.mark.requirement("CAN-08", "LIFE-09")
@pytest.mark.parametrize(("seconds", "end"), [(0.0, _answered_too_late), (3600.0, _cancelled)])
async def test_timed_out_or_cancelled_request_is_withdrawn(
    seconds: float, end: Callable[[ClientRequests, Asked], Awaitable[None]], process: Make
) -> None:
    requests = process(seconds)
    asked = Asked(requests)
    request_id = await asked.id()
    await end(requests, asked)
    assert [message["method"] for message in asked.sent] == ["roots/list", "notifications/cancelled"]
    assert asked.sent[1]["params"]["requestId"] == request_id
    assert asked.open == set()
    assert not await requests.answer(session(), Response(request_id, {}, None))


async def test_cancel_propagates_during_redis_outage(process: Make, streams: Streams) -> None:
    asked = Asked(process())
    await asked.id()

    async def away(session_id: str, request_id: str) -> None:
        raise StreamsUnavailable("away")

    streams.requests.drop = away  # type: ignore[method-assign]
    await _cancelled(process(), asked)
    assert asked.sent[-1]["method"] == "notifications/cancelled"


async def test_unsendable_request_raises_reason_immediately(process: Make, streams: Streams) -> None:
    asked = Asked(process())
    request_id = await asked.id()
    asked.lose("Nobody takes it.")
    asked.lose("Once is enough.")
    with pytest.raises(NoAnswer, match="Nobody takes it"):
        await asked.task
    assert asked.sent[-1]["method"] == "notifications/cancelled"  # It may have been delivered nevertheless.
    assert not await process().answer(session(), Response(request_id, {}, None))


@pytest.mark.parametrize("fault", [StreamsUnavailable, StreamsFull])
async def test_request_during_redis_outage_raises_no_answer(
    process: Make, streams: Streams, fault: type[StreamsUnavailable]
) -> None:
    async def away(session_id: str, request_id: str, ttl: int) -> None:
        raise fault("away")

    streams.requests.open = away  # type: ignore[method-assign]
    asked = Asked(process())
    with pytest.raises(NoAnswer, match="cannot be asked now: the server's Redis takes nothing"):
        await asked.task
    assert asked.sent == []


async def test_answer_is_deleted_after_delivery(process: Make, streams: Streams) -> None:
    asked = Asked(process())
    request_id = await asked.id()
    assert await process().answer(session(), Response(request_id, {"roots": []}, None))
    assert await asked.task == {"roots": []}
    assert await streams.requests.wait(session().id, request_id, 0) is None


async def test_session_end_ends_wait(process: Make, streams: Streams) -> None:
    asked = Asked(process())
    await asked.id()
    await streams.sessions.end(session().id, 60)
    with pytest.raises(NoAnswer):
        await asked.task
    with pytest.raises(NoAnswer, match="session has ended"):
        await Asked(process()).task


async def test_request_is_in_message_log(streams: Streams, settings: Settings) -> None:
    log = MessageLog(streams, settings)
    asked = Asked(ClientRequests(streams, log, 3600.0), "elicitation/create")
    request_id = await asked.id()
    await log.flush()
    ((_, encoded),) = await streams.messages.read("0", 10)
    assert orjson.loads(encoded)["lines"][0][3:7] == ["out", "request", "elicitation/create", request_id]
    await _cancelled(process, asked)  # type: ignore[arg-type]
