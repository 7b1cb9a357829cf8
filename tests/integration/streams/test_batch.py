"""The batched connection: order, errors, cancelled callers, one write for many commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mcp_app.streams import StreamsError, StreamsUnavailable
from mcp_app.streams.connections.batch import Batch
from mcp_app.streams.connections.client import RedisAddress


@pytest.fixture
async def batch(clean_redis: str) -> AsyncIterator[Batch]:
    batch = Batch(RedisAddress.parse(clean_redis))
    await batch.start()
    yield batch
    await batch.close()


async def test_replies_match_their_commands_under_concurrency(batch: Batch) -> None:
    async def ask(number: int) -> None:
        for step in range(50):
            value = b"%d.%d" % (number, step)
            assert await batch.command("ECHO", value) == value
            assert await batch.many([("ECHO", value), ("INCR", f"n{number}")]) == [value, step + 1]

    async with asyncio.timeout(10):
        await asyncio.gather(*(ask(number) for number in range(20)))


async def test_commands_take_effect_in_order(batch: Batch) -> None:
    futures = [batch.command("RPUSH", "list", number) for number in range(500)]
    assert await asyncio.gather(*futures) == list(range(1, 501))
    assert await batch.command("LRANGE", "list", 0, -1) == [b"%d" % number for number in range(500)]


async def test_commands_of_one_loop_iteration_are_one_write(clean_redis: str) -> None:
    endpoint = RedisAddress.parse(clean_redis)
    chunks: list[bytes] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream = await asyncio.open_connection(endpoint.host, endpoint.port)

        async def back() -> None:
            while data := await upstream_reader.read(65536):
                writer.write(data)

        answering = asyncio.create_task(back())
        while data := await reader.read(65536):
            chunks.append(data)
            upstream.write(data)
        upstream.write_eof()
        await answering
        for each in (upstream, writer):
            each.close()
            await each.wait_closed()
        relayed.set()

    relayed = asyncio.Event()
    proxy = await asyncio.start_server(relay, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    batch = Batch(RedisAddress.parse(f"redis://:{endpoint.password}@127.0.0.1:{port}/0"))
    await batch.start()
    chunks.clear()
    await asyncio.gather(*(batch.command("INCR", "n") for _ in range(100)))
    assert len(chunks) == 1
    first = batch.command("INCR", "n")
    await asyncio.sleep(0)
    await asyncio.gather(first, *(batch.command("INCR", "n") for _ in range(100)))
    assert len(chunks) == 3
    await batch.close()
    await relayed.wait()
    proxy.close()
    await proxy.wait_closed()


async def test_cancelled_caller_does_not_shift_other_replies(batch: Batch) -> None:
    futures = [batch.command("ECHO", b"%d" % number) for number in range(10)]
    futures[0].cancel()
    futures[4].cancel()
    rest = [future for future in futures if not future.cancelled()]
    assert await asyncio.gather(*rest) == [b"%d" % number for number in range(10) if number not in (0, 4)]


async def test_command_error_affects_only_its_own_command(batch: Batch) -> None:
    await batch.command("SET", "text", "x")
    wrong, right = batch.command("HGETALL", "text"), batch.command("GET", "text")
    with pytest.raises(StreamsError, match="WRONGTYPE") as caught:
        await wrong
    assert not isinstance(caught.value, StreamsUnavailable)
    assert await right == b"x"
    with pytest.raises(StreamsError, match="unknown command"):
        await batch.many([("GET", "text"), ("NOSUCHCOMMAND",), ("GET", "text")])
    assert await batch.command("GET", "text") == b"x"


async def test_no_commands_return_no_replies(batch: Batch) -> None:
    assert await batch.many([]) == []


async def test_closing_refuses_pending_and_new_commands(batch: Batch) -> None:
    waiting = batch.command("BLPOP", "never", 0)
    await asyncio.sleep(0)
    await batch.close()
    for future in (waiting, batch.command("PING")):
        with pytest.raises(StreamsUnavailable):
            await future


async def test_unanswered_command_times_out_and_reconnects(clean_redis: str) -> None:
    batch = Batch(RedisAddress.parse(clean_redis), timeout=0.1)
    await batch.start()
    with pytest.raises(StreamsUnavailable):
        await batch.command("BLPOP", "never", 0)
    async with asyncio.timeout(5):
        while not batch.is_up:
            await asyncio.sleep(0.01)
    assert await batch.command("ECHO", "again") == b"again"
    await batch.close()
