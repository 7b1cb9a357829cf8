"""Jobs of accepted calls: written in Celery's format, and sent to the queue of a worker."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis
from celery import Celery, signals

from mcp_app import conf
from mcp_app.execution.background.celery import worded
from mcp_app.execution.background.job_message import JobMessage
from mcp_app.execution.background.service import Background
from mcp_app.execution.stored import records
from mcp_app.models import Call
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams
from tests.integration.execution.broker import application_with, new, queued
from tests.servers.live import eventually


@pytest.fixture
def stores(clean_redis: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        yield client


def jobs(stores: redis.Redis, queue: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the key of a queue's only list, and its jobs, newest first."""
    found: Any = stores.keys(f"{queue}*")
    (key,) = found
    waiting: Any = stores.lrange(key, 0, -1)
    return key.decode(), [json.loads(job) for job in waiting]


def without(job: dict[str, Any], *ids: str) -> str:
    """Return the text of a job without these ids."""
    text = json.dumps({**job, "body": b64decode(job["body"]).decode()}, sort_keys=True)
    for each in (*ids, job["properties"]["delivery_tag"]):
        assert each in text
        text = text.replace(each, "-")
    return text


@pytest.mark.django_db
def test_job_equals_celerys_except_for_the_id(broker: Celery, clean_redis: str, stores: redis.Redis) -> None:
    first, second = queued(queue="slow", priority=4), queued(queue="slow", priority=4)
    key, by_celery = jobs(stores, "slow")
    found = worded(second, clean_redis)
    assert found is not None
    ours = json.loads(found[1])
    assert found[0] == key
    assert without(ours, str(second.id)) == without(by_celery[0], str(second.id))
    assert without(ours, str(second.id)) == without(by_celery[1], str(first.id))
    assert ours["properties"]["delivery_tag"] != by_celery[0]["properties"]["delivery_tag"]


@pytest.mark.django_db
def test_first_job_of_each_queue_and_priority_is_sent_by_celery(broker: Celery, clean_redis: str) -> None:
    assert worded(queued(), clean_redis) is not None
    others = [records.accept(new(**changed))[0] for changed in ({"queue": "slow"}, {"priority": 1})]
    assert [worded(call, clean_redis) for call in others] == [None, None]


@pytest.mark.django_db
def test_jobs_with_publish_signal_receivers_are_sent_by_celery(broker: Celery, clean_redis: str) -> None:
    call = queued()

    def listen(**_: Any) -> None: ...

    for signal in (signals.before_task_publish, signals.after_task_publish):
        signal.connect(listen)
        assert worded(call, clean_redis) is None
        signal.disconnect(listen)
    assert worded(call, clean_redis) is not None


@pytest.mark.django_db
def test_jobs_for_another_broker_are_sent_by_celery(broker: Celery, clean_redis: str) -> None:
    assert worded(queued(), clean_redis.rpartition("/")[0] + "/5") is None


@pytest.mark.django_db
@pytest.mark.parametrize("transport", [""])
def test_jobs_for_an_unknown_transport_are_sent_by_celery(broker: Celery, clean_redis: str) -> None:
    assert worded(queued(), clean_redis) is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    "changed",
    [{"task_compression": "gzip"}, {"task_send_sent_event": True}, {"task_protocol": 1}],
    ids=str,
)
def test_jobs_with_other_message_settings_are_sent_by_celery(
    broker: Celery, clean_redis: str, changed: dict[str, Any]
) -> None:
    broker.conf.update(changed)
    assert worded(queued(), clean_redis) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"headers": {"sentry-trace": "1"}},
        {"headers": {"expires": "2030-01-01"}},
        {"headers": {"id": "another"}},
        {"properties": {"user_id": "me"}},
        {"content-type": "application/data"},
        {"body": "W1siYiJdLCB7fSwge31d"},
    ],
    ids=str,
)
def test_message_with_more_than_the_call_id_is_not_a_template(changed: dict[str, Any]) -> None:
    usual: dict[str, Any] = {
        "body": "W1siYSJdLCB7fSwge31d",  # [["a"], {}, {}]
        "content-type": "application/json",
        "headers": {"id": "a", "eta": None, "expires": None},
        "properties": {"delivery_tag": "t", "body_encoding": "base64"},
    }
    assert JobMessage.like("celery", usual, "a") is not None
    other = {
        name: {**value, **changed.get(name, {})} if isinstance(value, dict) else changed.get(name, value)
        for name, value in usual.items()
    }
    assert JobMessage.like("celery", other, "a") is None


async def _accepted(url: str, streams: Streams, numbers: int) -> list[str]:
    """Accept calls one after the other as a web process does; return their ids."""
    background = Background(streams, replace(conf.get(), redis_url=url))
    return [str((await background.accept(new()))[0].id) for _ in range(numbers)]


@pytest.mark.django_db(transaction=True)
def test_web_process_enqueues_one_job_per_accepted_call(
    broker: Celery, clean_redis: str, stores: redis.Redis
) -> None:
    async def accept() -> list[str]:
        streams = Streams.connect(clean_redis)
        await streams.start()
        try:
            return await _accepted(clean_redis, streams, 3)
        finally:
            await streams.close()

    calls = asyncio.run(accept())
    _, waiting = jobs(stores, "celery")
    assert [job["headers"]["id"] for job in reversed(waiting)] == calls


@pytest.mark.django_db(transaction=True)
def test_call_whose_job_was_not_sent_is_left_to_the_sweep(
    broker: Celery, clean_redis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued()

    async def accept() -> list[str]:
        streams = Streams.in_memory()  # In-memory streams have no lists to push to.
        with pytest.raises(StreamsUnavailable):
            await streams.push("celery", "")
        return await _accepted(clean_redis, streams, 1)

    (call,) = asyncio.run(accept())
    eventually(lambda: Call.objects.get(pk=call).enqueued_at is None, what="that the sweep may take it")


@pytest.mark.django_db
def test_unavailable_broker_leaves_no_template(clean_redis: str) -> None:
    with application_with("redis://127.0.0.1:1/0"):
        call = queued()
        assert worded(call, "redis://127.0.0.1:1/0") is None
        assert Call.objects.get(pk=call.id).enqueued_at is None
