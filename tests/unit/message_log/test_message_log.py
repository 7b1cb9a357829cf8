"""The message log of one process: batching, limits, skip counts, redaction."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest

from mcp_app.conf import Settings
from mcp_app.message_log import log as module
from mcp_app.message_log.log import BATCH_BYTES, FLUSH_SLICE, MessageLog
from mcp_app.observability import incidents
from mcp_app.observability.incidents import Incident, StoredException
from mcp_app.observability.redaction import MARK, Redactor
from mcp_app.streams.base import StreamsError, StreamsUnavailable
from mcp_app.streams.gateway import Streams

HOSTILE = "\x01"  # six bytes when escaped


class MoodyQueue:
    """A message queue that accepts, rejects, or delays on request."""

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

    async def read(self, after: str, limit: int) -> Any:
        return await self._inner.read(after, limit)


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


async def test_exchange_becomes_one_line(log: MessageLog, streams: Streams) -> None:
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


async def test_single_message_has_no_answer_and_no_duration(log: MessageLog, streams: Streams) -> None:
    log.single(None, "ada", "out", "request", b'{"q":1}', "roots/list", "roots-1")
    await log.flush()
    (line,) = await lines(streams)
    assert line[3:] == ["out", "request", "roots/list", "roots-1", "", '{"q":1}', "", "", None]


async def test_flush_without_pending_lines_pushes_nothing(log: MessageLog, streams: Streams) -> None:
    await log.flush()
    assert await streams.messages.depth() == 0


async def test_lines_and_facts_are_batched_in_order(log: MessageLog, streams: Streams) -> None:
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
async def test_batch_size_is_bounded_for_any_content(
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


async def test_payload_limit_is_capped_by_batch_capacity(streams: Streams, settings: Settings) -> None:
    log = MessageLog(streams, replace(settings, message_log_payload_bytes=100 * BATCH_BYTES))
    body = HOSTILE.encode() * BATCH_BYTES
    exchange(log, payload=body, answer=body)
    await log.flush()
    assert len(await lines(streams)) == 1


# Bounds


async def test_lines_above_pending_limit_are_counted_as_skipped(
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


async def test_lines_above_pending_byte_limit_are_skipped(
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


async def test_lines_skipped_during_flush_are_counted_by_next_batch(
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


async def test_pending_facts_are_bounded(log: MessageLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 3)
    for number in range(5):
        log.fact("key.used", keys={str(number): 1})
    assert len(log._facts) == 3


async def test_session_change_is_merged_into_pending_opened_fact(log: MessageLog, streams: Streams) -> None:
    queue = MoodyQueue(streams.messages)
    streams.messages = queue  # type: ignore[assignment]
    log.opened("s", principal="ada", fields={"initialized": "0"})
    log.changed("s", {"initialized": "1"})
    log.changed("another", {"initialized": "1"})
    queue.gate = asyncio.Event()
    flushing = asyncio.create_task(log.flush())
    await queue.pushing.wait()
    log.changed("s", {"log_level": "debug"})  # A fact that is being pushed is no longer changed.
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


async def test_skip_count_is_sent_with_next_line(
    log: MessageLog, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    log._skipped.add_unknown(0, 2)
    log.fact("session.seen", sessions=[])
    await log.flush()
    exchange(log)
    await log.flush()
    assert [batch["skipped"] for batch in await batches(streams)] == [0, 2]


async def test_batch_carries_count_of_preceding_lines(log: MessageLog, streams: Streams) -> None:
    for size in (2, 3, 1):
        for _ in range(size):
            exchange(log)
        await log.flush()
    assert [batch["before"] for batch in await batches(streams)] == [0, 2, 5]


# While the console is watching


async def test_flush_interval_is_shorter_while_watched(
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


# While Redis is unavailable


@pytest.mark.parametrize("fault", [StreamsUnavailable, StreamsError])
async def test_rejected_batches_are_retried_in_order(
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


async def test_close_during_flush_pushes_each_line_once(log: MessageLog, streams: Streams) -> None:
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


async def test_started_log_flushes_periodically(log: MessageLog, streams: Streams) -> None:
    noted: list[int] = []
    log.before_flush.append(lambda: noted.append(1))
    log.start()
    exchange(log)
    async with asyncio.timeout(5):
        while not await streams.messages.depth():
            await asyncio.sleep(0.01)
    await log.close()
    assert noted


# Stored content


@pytest.mark.requirement("SEC-09")
async def test_secrets_are_redacted_in_payload_answer_and_target(log: MessageLog, streams: Streams) -> None:
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
async def test_truncated_message_reveals_no_part_of_secret(
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


async def test_redaction_scans_only_stored_part_of_large_message(
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


async def test_list_answer_is_truncated_without_redaction(streams: Streams, settings: Settings) -> None:
    log = MessageLog(streams, replace(settings, message_log_payload_bytes=20))
    exchange(log, answer=b'{"tools":["a token of our own"]}', method="tools/list")
    await log.flush()
    assert (await lines(streams))[0][9] == '{"tools":["a token o'


async def test_unknown_list_method_is_redacted(log: MessageLog, streams: Streams) -> None:
    exchange(log, answer=b'{"token":"hunter2"}', method="evil/list")
    await log.flush()
    assert (await lines(streams))[0][9] == f'{{"token":"{MARK}"}}'


async def test_long_names_are_truncated(log: MessageLog, streams: Streams) -> None:
    exchange(log, "i" * 999, method="m" * 999, target="t" * 999)
    await log.flush()
    assert [len(text) for text in (await lines(streams))[0][5:8]] == [120, 120, 200]


async def test_disabled_message_log_keeps_only_facts(streams: Streams, settings: Settings) -> None:
    log = MessageLog(streams, replace(settings, message_log=False))
    log.single("s", "ada", "in", "notification", b"{}", "m")
    log.fact("session.ended", session="s", reason="r")
    await log.flush()
    (found,) = await batches(streams)
    assert (found["lines"], [fact["fact"] for fact in found["facts"]]) == ([], ["session.ended"])


async def test_secret_tool_argument_is_redacted(log: MessageLog, streams: Streams) -> None:
    log.keep_secret(["pin"])
    exchange(log, payload=b'{"params":{"arguments":{"pin":"4711"}}}')
    await log.flush()
    (line,) = await lines(streams)
    assert "4711" not in str(line)
    assert MARK in str(line)


def crashed(number: str) -> bytes:
    return b'{"result":{"isError":true,"content":[{"type":"text","text":"(incident %s)"}]}}' % number.encode()


async def test_exception_is_stored_beside_the_line_that_names_its_incident(
    log: MessageLog, streams: Streams
) -> None:
    log.keep_secret(["pin"])
    queue = streams.messages = MoodyQueue(streams.messages)
    queue.faults.append(StreamsUnavailable("away"))
    try:
        raise ValueError("the pin is 4711-4711")
    except ValueError as error:
        incidents.record(Incident.of("1f2e3d4c", error))
    exchange(log, 1)
    exchange(log, 2, b'{"pin":"4711-4711"}', answer=crashed("1f2e3d4c"), outcome="tool_error")
    exchange(log, 3, answer=crashed("1f2e3d4c"), outcome="tool_error")
    await log.flush()
    assert await batches(streams) == []
    await log.flush()
    (batch,) = await batches(streams)
    ((index, number, exception),) = batch["incidents"]
    assert (index, number) == (1, "1f2e3d4c")
    found = StoredException.read(exception)
    assert found is not None
    assert (found.exception, found.message) == ("ValueError", f"the pin is {MARK}")
    exchange(log, 4, answer=crashed("1f2e3d4c"), outcome="tool_error")
    await log.flush()
    assert "incidents" not in (await batches(streams))[-1]
