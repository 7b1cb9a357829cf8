"""Celery's broker when Redis returns errors, invalid replies or none (R11, R13, R14)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
import redis
from celery import Celery, _state
from celery.schedules import schedule
from kombu import Connection, Consumer, Queue
from kombu.message import Message

from mcp_app.execution.background.broker import Channel
from mcpsite.processes.beat import Scheduler
from tests.integration.execution.broker import application_with
from tests.servers.redis_answers import ANSWERS, BREAKS, MISTAKEN, RedisAnswers

QUEUE = "jobs"
COMMANDS = ("HELLO", "CLIENT", "PING", "BRPOP", "ZADD", "HSET", "EXEC", "LLEN")


@pytest.fixture
def answers(clean_redis: str) -> Iterator[RedisAnswers]:
    """Return a proxy in front of the Redis of the tests that can reply in its place."""
    proxy = RedisAnswers(redis.Redis.from_url(clean_redis).get_connection_kwargs()["port"])
    yield proxy
    proxy.close()


@pytest.fixture
def app(clean_redis: str, answers: RedisAnswers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    # Shared tasks of other tests are not this application's: two of them may have the same name.
    monkeypatch.setattr(_state, "_on_app_finalizers", set())
    port = redis.Redis.from_url(clean_redis).get_connection_kwargs()["port"]
    with application_with(clean_redis.replace(f":{port}/", f":{answers.port}/")) as made:
        yield made


@pytest.fixture
def connection(app: Celery) -> Iterator[Connection]:
    """Return a connection whose queue holds two jobs."""
    for number in range(2):
        app.send_task("task", args=[number], queue=QUEUE)
    with app.connection_for_read() as made:
        yield made


def taken(connection: Connection) -> tuple[Channel, Message, Message]:
    """Return a channel with both jobs; the first is finished and not yet acknowledged in Redis."""
    channel = connection.default_channel
    assert isinstance(channel, Channel)
    finished, running = (channel.basic_get(QUEUE) for _ in range(2))
    assert finished is not None
    assert running is not None
    finished.ack()
    return channel, finished, running


@pytest.mark.parametrize("answer", ANSWERS)
def test_channel_closes_despite_any_redis_error(
    answer: str, answers: RedisAnswers, connection: Connection, clean_redis: str
) -> None:
    """Celery closes a channel twice; an exception had ended the worker with all its running calls."""
    channel, finished, running = taken(connection)
    answers.refuse(ANSWERS[answer])
    channel.close()
    channel.close()
    assert channel.closed
    assert channel.connection is None
    connection.close()
    finished.channel.basic_ack(finished.delivery_tag)
    with pytest.raises(connection.connection_errors):
        channel.basic_reject(running.delivery_tag, requeue=True)
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        stored = b"".join(client.hvals("unacked") + client.lrange(QUEUE, 0, -1))
    assert running.headers["id"].encode() in stored


def test_closed_channel_requeues_running_and_acknowledges_finished_jobs(
    connection: Connection, clean_redis: str
) -> None:
    channel, _, running = taken(connection)
    channel.close()
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        assert client.hlen("unacked") == 0
        (stored,) = client.lrange(QUEUE, 0, -1)
    assert running.headers["id"].encode() in stored


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "answer"),
    [*product(["any"], ANSWERS), *product(COMMANDS, ["READONLY", *BREAKS, *MISTAKEN])],
)
def test_consumer_raises_only_connection_errors(
    command: str, answer: str, answers: RedisAnswers, connection: Connection
) -> None:
    """Any other exception of a consumer ends Celery's main process."""
    received: list[Message] = []
    connection.transport_options |= {"max_retries": 0}
    connection.transport.brpop_timeout = 0.1
    answers.refuse(ANSWERS[answer], *(() if command == "any" else (command,)))
    try:
        with (
            connection.channel() as channel,
            Consumer(channel, [Queue(QUEUE)], on_message=received.append),
        ):
            connection.drain_events(timeout=0.1)
            received[0].ack()
            connection.drain_events(timeout=0.1)
    except connection.connection_errors:
        pass
    assert answers.refused.total() > 0
    answers.allow()
    connection.collect()
    with connection.Consumer([Queue("later")], on_message=received.append):
        pass


def test_unreadable_job_is_a_connection_error(connection: Connection, clean_redis: str) -> None:
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        client.rpush(QUEUE, "{")
    with (
        connection.Consumer([Queue(QUEUE)], on_message=lambda _: None),
        pytest.raises(connection.connection_errors),
    ):
        connection.drain_events(timeout=1)


@pytest.mark.parametrize("answer", ANSWERS)
def test_beat_survives_any_redis_error(
    answer: str, answers: RedisAnswers, app: Celery, tmp_path: Path, clean_redis: str
) -> None:
    """A task that could not be sent is sent at the end of its next period."""
    app.conf.beat_schedule = {"each": {"task": "task", "schedule": schedule(0.0, app=app)}}
    app.conf.task_publish_retry_policy = {"max_retries": 0}
    scheduler = Scheduler(app, schedule_filename=str(tmp_path / "schedule"))
    answers.refuse(ANSWERS[answer], "LPUSH")
    scheduler.tick()
    assert answers.refused.total() > 0
    answers.allow()
    scheduler.tick()
    scheduler.close()
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        assert client.llen("celery") >= 1
