"""The message log of one process: batches, bounds, what is skipped and counted, what is redacted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest

from mcp_app.conf import Settings
from mcp_app.message_log import log as module
from mcp_app.message_log.log import BATCH_BYTES, FLUSH_SLICE, MessageLog
from mcp_app.observability.redaction import MARK, Redactor
from mcp_app.streams.base import StreamsError, StreamsUnavailable
from mcp_app.streams.gateway import Streams

HOSTILE = "\x01"  # six bytes once it is escaped


class MoodyQueue:
    """A message queue that takes, refuses, or is slow, as a test says."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.faults: list[StreamsError | None] = []
        self.gate: asyncio.Event | None = None
        self.pushing = asyncio.Event()

    async def push(self, batch: bytes) -> None:
        self.pushing.set()
        if self.gate is not None:
            await self.gate.wait()
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        await self._inner.push(batch)


@pytest.fixture
def log(streams: Streams, settings: Settings) -> MessageLog:
    return MessageLog(streams, settings)


def exchange(log: MessageLog, request_id: Any = 1, payload: bytes = b"{}", **changes: Any) -> None:
    members: dict[str, Any] = {"answer": b"{}", "seconds": 0.25, "outcome": "ok", "method": "tools/call"}
    members |= {"target": "echo"} | changes
    facts = (members["method"], request_id, members["target"])
    log.exchange("s", "ada", payload, members["answer"], members["seconds"], members["outcome"], facts)


async def batches(streams: Streams) -> list[dict[str, Any]]:
    return [orjson.loads(encoded) for _, encoded in await streams.messages.read("0", 10_000)]


async def lines(streams: Streams) -> list[list[Any]]:
    return [line for batch in await batches(streams) for line in batch["lines"]]


async def test_an_exchange_becomes_one_line(log: MessageLog, streams: Streams) -> None:
    exchange(log, "id-1", b'{"p":1}', answer=b'{"a":1}', outcome="tool_error")
    await log.flush()
    (line,) = await lines(streams)
    assert line[:2] + line[3:] == [
        "s",
        "ada",
        "in",
        "request",
        "tools/call",
        "id-1",
        "echo",
        '{"p":1}',
        '{"a":1}',
        "tool_error",
        250.0,
    ]


async def test_a_single_message_has_no_answer_and_no_duration(log: MessageLog, streams: Streams) -> None:
    log.single(None, "ada", "out", "request", b'{"q":1}', "roots/list", "roots-1")
    await log.flush()
    (line,) = await lines(streams)
    assert line[3:] == ["out", "request", "roots/list", "roots-1", "", '{"q":1}', "", "", None]


async def test_nothing_pending_is_nothing_pushed(log: MessageLog, streams: Streams) -> None:
    await log.flush()
    assert await streams.messages.depth() == 0


async def test_lines_and_facts_come_in_order_in_batches_of_a_bounded_number(
    log: MessageLog, streams: Streams
) -> None:
    for number in range(FLUSH_SLICE * 2 + 1):
        exchange(log, number)
        log.fact("session.seen", sessions=[str(number)])
    await log.flush()
    found = await batches(streams)
    assert [len(batch["lines"]) for batch in found] == [FLUSH_SLICE, FLUSH_SLICE, 1]
    assert [len(batch["facts"]) for batch in found] == [FLUSH_SLICE, FLUSH_SLICE, 1]
    assert [line[6] for batch in found for line in batch["lines"]] == [
        str(number) for number in range(FLUSH_SLICE * 2 + 1)
    ]
    assert {batch["process"] for batch in found} == {log.process}


@pytest.mark.parametrize(
    "texts",
    [
        {"payload": HOSTILE.encode() * 16_384},
        {"answer": HOSTILE.encode() * 16_384},
        {"payload": "\N{GRINNING FACE}".encode() * 4_000},
        {"method": HOSTILE * 120, "target": HOSTILE * 200, "request_id": HOSTILE * 120},
        {"payload": b"x" * 4_000_000},
    ],
    ids=["payload", "answer", "emoji", "names", "large"],
)
async def test_no_batch_outgrows_the_queue_whatever_is_sent(
    texts: dict[str, Any], log: MessageLog, streams: Streams
) -> None:
    number = 12 if len(texts.get("payload", b"")) > 1_000_000 else 600
    for _ in range(number):
        exchange(log, **texts)
        log.fact("session.opened", client_name=HOSTILE * 200, fields={"client": HOSTILE * 1000})
    await log.flush()
    encoded = [batch for _, batch in await streams.messages.read("0", 10_000)]
    assert max(map(len, encoded)) <= BATCH_BYTES
    assert len(await lines(streams)) == number
    assert sum(len(batch["facts"]) for batch in await batches(streams)) == number


async def test_the_configured_length_is_held_within_what_a_batch_can_carry(
    streams: Streams, settings: Settings
) -> None:
    log = MessageLog(streams, replace(settings, message_log_payload_bytes=100 * BATCH_BYTES))
    body = HOSTILE.encode() * BATCH_BYTES
    exchange(log, payload=body, answer=body)
    await log.flush()
    assert len(await lines(streams)) == 1


# Bounds


async def test_more_lines_than_may_wait_are_counted_beside_the_next_one(
    log: MessageLog, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 3)
    for number in range(5):
        exchange(log, number)
    log.single("s", "ada", "in", "notification", b"{}", "m")
    await log.flush()
    exchange(log, 9)
    await log.flush()
    assert [(batch["skipped"], len(batch["lines"])) for batch in await batches(streams)] == [(3, 3), (0, 1)]


async def test_more_bytes_than_may_wait_are_skipped(
    log: MessageLog, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PENDING_BYTES", 1000)
    for _ in range(5):
        exchange(log, payload=b"x" * 400, answer=b"")
    await log.flush()
    for _ in range(2):
        exchange(log, payload=b"x" * 400, answer=b"")
    await log.flush()
    assert [(batch["skipped"], len(batch["lines"])) for batch in await batches(streams)] == [(3, 2), (0, 2)]


async def test_what_is_skipped_while_a_batch_is_under_way_is_counted_by_the_next(
    log: MessageLog, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 1)
    queue = MoodyQueue(streams.messages)
    inner, streams.messages = streams.messages, queue  # type: ignore[assignment]
    queue.gate = asyncio.Event()
    exchange(log, 1)
    flushing = asyncio.create_task(log.flush())
    await queue.pushing.wait()
    exchange(log, 2)
    queue.gate.set()
    await flushing
    exchange(log, 3)
    await log.flush()
    streams.messages = inner
    found = await batches(streams)
    assert [(batch["skipped"], batch["lines"][0][6]) for batch in found] == [(0, "1"), (1, "3")]


async def test_facts_that_wait_are_bounded_too(log: MessageLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 3)
    for number in range(5):
        log.fact("key.used", keys={str(number): 1})
    assert len(log._facts) == 3


async def test_a_change_of_a_session_is_part_of_its_opening_while_that_waits(
    log: MessageLog, streams: Streams
) -> None:
    queue = MoodyQueue(streams.messages)
    streams.messages = queue  # type: ignore[assignment]
    log.opened("s", principal="ada", fields={"initialized": "0"})
    log.changed("s", {"initialized": "1"})
    log.changed("another", {"initialized": "1"})
    queue.gate = asyncio.Event()
    flushing = asyncio.create_task(log.flush())
    await queue.pushing.wait()
    log.changed("s", {"log_level": "debug"})  # What is on its way is not changed any more.
    queue.gate.set()
    await flushing
    await log.flush()
    streams.messages = queue._inner
    facts = [fact for batch in await batches(streams) for fact in batch["facts"]]
    assert [(fact["fact"], fact["session"], fact["fields"]) for fact in facts] == [
        ("session.opened", "s", {"initialized": "1"}),
        ("session.changed", "another", {"initialized": "1"}),
        ("session.changed", "s", {"log_level": "debug"}),
    ]


async def test_a_count_of_skipped_lines_waits_for_a_line_to_stand_beside(
    log: MessageLog, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    log._skipped.add_unknown(0, 2)
    log.fact("session.seen", sessions=[])
    await log.flush()
    exchange(log)
    await log.flush()
    assert [batch["skipped"] for batch in await batches(streams)] == [0, 2]


async def test_each_batch_says_how_many_lines_came_before_it(log: MessageLog, streams: Streams) -> None:
    for size in (2, 3, 1):
        for _ in range(size):
            exchange(log)
        await log.flush()
    assert [batch["before"] for batch in await batches(streams)] == [0, 2, 5]


# While somebody watches


async def test_lines_are_handed_on_sooner_while_somebody_watches_and_only_then(
    log: MessageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log._pause() == module.FLUSH_SECONDS
    log.on_watching({"resync": True})
    assert log._pause() == module.FLUSH_SECONDS
    log.on_watching({"watching": True})
    assert log._pause() == module.WATCHED_FLUSH_SECONDS < module.FLUSH_SECONDS
    monkeypatch.setattr(module, "WATCHED_SECONDS", -1.0)
    log.on_watching({"watching": True})
    assert log._pause() == module.FLUSH_SECONDS


# When Redis is away


@pytest.mark.parametrize("fault", [StreamsUnavailable, StreamsError])
async def test_what_redis_cannot_take_is_handed_on_later_in_the_same_order(
    fault: type[StreamsError], log: MessageLog, streams: Streams
) -> None:
    queue = MoodyQueue(streams.messages)
    inner, streams.messages = streams.messages, queue  # type: ignore[assignment]
    queue.faults = [fault("away"), fault("away")]
    for number in range(3):
        exchange(log, number)
        log.fact("session.seen", sessions=[str(number)])
        await log.flush()
    streams.messages = inner
    assert [line[6] for line in await lines(streams)] == ["0", "1", "2"]
    facts = [fact for batch in await batches(streams) for fact in batch["facts"]]
    assert [fact["sessions"] for fact in facts] == [["0"], ["1"], ["2"]]
    assert log._pending_bytes == 0


async def test_closing_hands_on_each_line_once_also_when_a_batch_is_under_way(
    log: MessageLog, streams: Streams
) -> None:
    queue = MoodyQueue(streams.messages)
    inner, streams.messages = streams.messages, queue  # type: ignore[assignment]
    queue.gate = asyncio.Event()
    log.start()
    exchange(log, 1)
    await queue.pushing.wait()
    exchange(log, 2)
    closing = asyncio.create_task(log.close())
    await asyncio.sleep(0)
    queue.gate.set()
    await closing
    streams.messages = inner
    assert [line[6] for line in await lines(streams)] == ["1", "2"]


async def test_a_started_log_hands_on_by_itself(log: MessageLog, streams: Streams) -> None:
    noted: list[int] = []
    log.before_flush.append(lambda: noted.append(1))
    log.start()
    exchange(log)
    async with asyncio.timeout(5):
        while not await streams.messages.depth():
            await asyncio.sleep(0.01)
    await log.close()
    assert noted


# What is kept


@pytest.mark.requirement("SEC-09")
async def test_secrets_are_taken_out_of_payload_answer_and_target(log: MessageLog, streams: Streams) -> None:
    exchange(log, 1, b'{"password":"hunter2"}', answer=b'{"token":"hunter2"}', target="https://a:hunter2@b/")
    exchange(log, 2, b'{"harmless":"kept"}')
    await log.flush()
    first, second = await lines(streams)
    assert first[7:10] == [f"https://a:{MARK}@b/", f'{{"password":"{MARK}"}}', f'{{"token":"{MARK}"}}']
    assert second[8] == '{"harmless":"kept"}'
    assert "hunter2" not in str(await batches(streams))


@pytest.mark.requirement("SEC-09")
@pytest.mark.parametrize(
    "secret",
    [
        '{"password":"hunter2hunter2"}',
        '{"a":"Bearer hunter2hunter2"}',
        '{"a":"mcpat_hunter2hunter2hunter2"}',
        '{"a":"https://ada:hunter2hunter2@b/"}',
        '{"a":"https://b/?token=hunter2hunter2"}',
    ],
)
async def test_nothing_of_a_secret_is_kept_wherever_a_large_message_is_cut(
    secret: str, streams: Streams, settings: Settings
) -> None:
    answer = f'{{"first":{secret},"rest":"{"x" * 40}"}}'.encode()
    for limit in range(1, len(answer) + 1):
        log = MessageLog(streams, replace(settings, message_log_payload_bytes=limit))
        exchange(log, payload=answer, answer=answer)
        await log.flush()
    kept = [line[place] for line in await lines(streams) for place in (8, 9)]
    assert len(kept) == 2 * len(answer)
    assert not [text for text in kept if "hunt" in text]


async def test_a_large_message_is_searched_only_as_far_as_it_is_kept(
    streams: Streams, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MessageLog(streams, replace(settings, message_log_payload_bytes=100))
    searched: list[bytes] = []
    is_suspect = Redactor.is_suspect
    monkeypatch.setattr(
        Redactor, "is_suspect", lambda self, text: (searched.append(text), is_suspect(self, text))[1]
    )
    exchange(log, answer=b'{"rows":"' + b"x" * 100_000 + b'"}')
    await log.flush()
    assert max(map(len, searched)) < 300


async def test_a_list_is_cut_and_not_searched(streams: Streams, settings: Settings) -> None:
    log = MessageLog(streams, replace(settings, message_log_payload_bytes=20))
    exchange(log, answer=b'{"tools":["a token of our own"]}', method="tools/list")
    await log.flush()
    assert (await lines(streams))[0][9] == '{"tools":["a token o'


async def test_a_method_of_a_clients_own_invention_is_searched_like_any_other(
    log: MessageLog, streams: Streams
) -> None:
    exchange(log, answer=b'{"token":"hunter2"}', method="evil/list")
    await log.flush()
    assert (await lines(streams))[0][9] == f'{{"token":"{MARK}"}}'


async def test_long_names_are_cut(log: MessageLog, streams: Streams) -> None:
    exchange(log, "i" * 999, method="m" * 999, target="t" * 999)
    await log.flush()
    assert [len(text) for text in (await lines(streams))[0][5:8]] == [120, 120, 200]


async def test_without_a_message_log_only_facts_are_kept(streams: Streams, settings: Settings) -> None:
    log = MessageLog(streams, replace(settings, message_log=False))
    log.single("s", "ada", "in", "notification", b"{}", "m")
    log.fact("session.ended", session="s", reason="r")
    await log.flush()
    (found,) = await batches(streams)
    assert (found["lines"], [fact["fact"] for fact in found["facts"]]) == ([], ["session.ended"])


async def test_an_argument_that_a_tool_marks_as_secret_is_not_kept(log: MessageLog, streams: Streams) -> None:
    log.keep_secret(["pin"])
    exchange(log, payload=b'{"params":{"arguments":{"pin":"4711"}}}')
    await log.flush()
    (line,) = await lines(streams)
    assert "4711" not in str(line)
    assert MARK in str(line)
