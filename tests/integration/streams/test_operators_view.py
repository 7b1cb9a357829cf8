"""Redis queries of operators without an event loop: pending jobs, live workers, events of a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from kombu import Connection, Producer, Queue

from mcp_app.streams import Position, Streams, StreamsUnavailable
from mcp_app.streams.blocking.job_queues import JobQueues
from mcp_app.streams.blocking.presence import LIFE_SECONDS, LiveWorker, Presence
from mcp_app.streams.blocking.stream_view import MOST, StreamView
from mcp_app.streams.connections.keys import is_known

NOWHERE = "redis://127.0.0.1:1/0"


def _send(url: str, queue: str, *priorities: int) -> None:
    with Connection(url) as connection, connection.channel() as channel:
        producer = Producer(channel)
        declared = Queue(queue, durable=True)
        for priority in priorities:
            producer.publish({}, routing_key=queue, declare=[declared], priority=priority)


def test_jobs_of_every_priority_are_counted_by_queue(clean_redis: str) -> None:
    _send(clean_redis, "celery", *range(10))
    _send(clean_redis, "slow", 9, 9)
    depths = JobQueues(clean_redis).depths(["celery", "slow", "empty", "slow"])
    assert depths == {"celery": 10, "slow": 2, "empty": 0}


def test_workers_are_listed_with_their_queues_until_they_expire(clean_redis: str) -> None:
    presence = Presence(clean_redis)
    assert presence.workers() == []
    presence.renew("b@host", ["slow", "celery"])
    presence.renew("a@host")
    presence.renew("a@host")
    assert presence.workers() == [LiveWorker("a@host", ()), LiveWorker("b@host", ("slow", "celery"))]
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        for key in client.scan_iter():
            assert is_known(key.decode())
            assert 0 < client.ttl(key) <= LIFE_SECONDS
        client.zadd("mcp:workers", {"b@host slow,celery": time.time() - LIFE_SECONDS - 1})
    assert [worker.name for worker in presence.workers()] == ["a@host"]


async def test_stream_view_reads_newest_events_and_events_after_a_position(
    streams: Streams, clean_redis: str
) -> None:
    view = StreamView(clean_redis)
    assert view.newest("s", "call-1") == []
    for number in range(1, MOST + 11):
        await streams.log.append("s", "call-1", b"%d" % number)
    newest = view.newest("s", "call-1")
    assert [event.data for event in (newest[0], newest[-1])] == [b"11", b"%d" % (MOST + 10)]
    await streams.log.finish("s", "call-1", b"done")
    last = newest[-1]
    following = view.after("s", "call-1", Position(last.epoch, last.offset))
    assert [(event.kind, event.data) for event in following] == [("final", b"done")]


async def test_stream_view_waits_for_existing_and_new_events(streams: Streams, clean_redis: str) -> None:
    view = StreamView(clean_redis)
    assert not await asyncio.to_thread(view.wait, "s", "call-1", None, 0.05)
    waiting = asyncio.create_task(asyncio.to_thread(view.wait, "s", "call-1", None, 30))
    await streams.log.append("s", "call-1", b"one")
    position = await streams.log.head("s", "call-1")
    assert await asyncio.to_thread(view.wait, "s", "call-1", None, 0.05)
    assert not await asyncio.to_thread(view.wait, "s", "call-1", position, 0.05)
    # The wait polls at least twice a second.
    await asyncio.wait_for(waiting, 10)


async def test_stream_view_reads_a_new_epoch_from_its_newest_events(
    streams: Streams, clean_redis: str
) -> None:
    await streams.log.append("s", "call-1", b"new")
    assert [event.data for event in StreamView(clean_redis).after("s", "call-1", Position(1, 7))] == [b"new"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: JobQueues(NOWHERE).depths(["celery"]),
        lambda: Presence(NOWHERE).workers(),
        lambda: Presence(NOWHERE).renew("w"),
        lambda: StreamView(NOWHERE).newest("s", "call-1"),
        lambda: StreamView(NOWHERE).wait("s", "call-1", None, 1),
    ],
)
def test_unavailable_redis_raises_streams_unavailable(ask: Callable[[], Any]) -> None:
    with pytest.raises(StreamsUnavailable):
        ask()
