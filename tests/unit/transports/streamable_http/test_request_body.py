"""Request bodies: complete, too large, too late, or absent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from mcp_app.protocol.errors import PayloadTooLarge, Refused
from mcp_app.transports.streamable_http import request_body
from mcp_app.transports.streamable_http.request_body import BodyReader, Disconnected

LIMIT = 10


class Sender:
    """A client that sends chunks, then waits or disconnects; ``asked`` counts the calls of receive."""

    def __init__(self, chunks: Iterable[bytes | None], *, ends: bool = True) -> None:
        chunks = list(chunks)
        self.messages: list[dict[str, Any]] = [
            {"type": "http.disconnect"}
            if chunk is None
            else {"type": "http.request", "body": chunk, "more_body": not ends or number < len(chunks)}
            for number, chunk in enumerate(chunks, 1)
        ]
        self.asked = 0

    async def __call__(self) -> dict[str, Any]:
        self.asked += 1
        await asyncio.sleep(0)
        if self.messages:
            return self.messages.pop(0)
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
def reader() -> BodyReader:
    return BodyReader(LIMIT, 3600.0)


@pytest.mark.parametrize(
    "chunks",
    [[b""], [b"x"], [b"x" * LIMIT], [b"x" * 4, b"x" * 6], [b"", b"x", b""], [b"x"] * LIMIT],
    ids=str,
)
async def test_body_within_limit_is_read_completely(chunks: list[bytes], reader: BodyReader) -> None:
    assert await reader.read(Sender(chunks), None) == b"".join(chunks)
    assert reader._reading == {}


@pytest.mark.requirement("T-POST-11")
@pytest.mark.parametrize(
    "chunks",
    [[b"x" * (LIMIT + 1)], [b"x" * LIMIT, b"x"], [b"x"] * (LIMIT + 1), [b"x" * 1000] * 1000],
    ids=["one", "two", "many", "endless"],
)
async def test_body_above_limit_is_rejected_without_reading_on(
    chunks: list[bytes], reader: BodyReader
) -> None:
    sender = Sender([*chunks, *[b"x"] * 100])
    with pytest.raises(PayloadTooLarge) as refused:
        await reader.read(sender, None)
    assert refused.value.http_status == 413
    assert sender.asked <= LIMIT + 1
    assert reader._reading == {}


@pytest.mark.requirement("T-POST-11")
@pytest.mark.parametrize(
    ("declared", "status"),
    [
        (b"10", None),
        (b"0", None),
        (b"0010", None),
        (b"11", 413),
        (b"9" * 19, 413),
        (b"9" * 20, 413),
        (b"9" * 9000, 413),
        (b"-1", 400),
        (b"+1", 400),
        (b"1.0", 400),
        (b"ten", 400),
        (b"", 400),
        ("٣".encode(), 400),
    ],
)
async def test_declared_length_is_checked_before_reading(
    declared: bytes, status: int | None, reader: BodyReader
) -> None:
    sender = Sender([b"x"])
    if status is None:
        assert await reader.read(sender, declared) == b"x"
        return
    with pytest.raises(Refused) as refused:
        await reader.read(sender, declared)
    assert (refused.value.http_status, sender.asked) == (status, 0)


@pytest.mark.parametrize("chunks", [[None], [b"x", None], [b"", b"", None]])
async def test_client_disconnect_raises_disconnected(chunks: list[bytes | None], reader: BodyReader) -> None:
    with pytest.raises(Disconnected):
        await reader.read(Sender(chunks, ends=False), None)
    assert reader._reading == {}


@pytest.mark.parametrize("chunks", [[], [b"x"], [b"x", b"y"]])
async def test_late_body_is_rejected_and_task_continues(
    chunks: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "SWEEP_SECONDS", 0.0)
    reader = BodyReader(LIMIT, 0.0)
    with pytest.raises(Refused) as refused:
        await reader.read(Sender(chunks, ends=False), None)
    assert refused.value.http_status == 408
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)
    assert (reader._reading, reader._late) == ({}, set())


async def test_only_late_reader_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "SWEEP_SECONDS", 0.0)
    reader = BodyReader(LIMIT, 3600.0)
    waiting = [asyncio.create_task(reader.read(Sender([], ends=False), None)) for _ in range(3)]
    await asyncio.sleep(0)
    reader._reading[waiting[1]] = 0.0
    with pytest.raises(Refused):
        await waiting[1]
    assert not waiting[0].done()
    assert not waiting[2].done()
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert waiting[0].cancelled()
    assert reader._reading == {}


async def test_outside_cancel_differs_from_late_body(reader: BodyReader) -> None:
    reading = asyncio.create_task(reader.read(Sender([], ends=False), None))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_sweep_stops_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "SWEEP_SECONDS", 0.0)
    reader = BodyReader(LIMIT, 3600.0)
    await reader.read(Sender([b"x"]), None)
    async with asyncio.timeout(5):
        while reader._sweep is not None:
            await asyncio.sleep(0)
    await reader.read(Sender([b"y"]), None)
    assert reader._sweep is not None
