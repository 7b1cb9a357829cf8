"""Celery's transport over Redis, extended to survive errors that Redis returns (R11, R13, R14).

Kombu treats an error that Redis returns (memory full, read-only replica, still loading …) as a bug. Celery
then exits, and its running jobs die with it. This transport logs such an error and treats it as an outage
of the broker, during which Celery waits.

Kombu creates a client for each command, which takes longer than the command itself. This transport reuses
one client. Kombu also needs one round trip to Redis to record a started job and one to acknowledge a
finished job. This transport acknowledges finished jobs together with the next delivery, or when the queue
is empty.

A worker can claim several calls with one job. It then removes the jobs of the other calls from their queue.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty
from typing import Any, Final

from kombu.transport import redis, virtual

from mcp_app.auth.public_paths import former_names

# Redis errors as Kombu imports them, because Kombu creates the clients.
_exceptions: Final[Any] = redis.redis.exceptions  # type: ignore[attr-defined]
RedisError: Final[type[Exception]] = _exceptions.RedisError
ResponseError: Final[type[Exception]] = _exceptions.ResponseError

log = logging.getLogger("mcp.background")

# A Lua script that removes jobs by id. It searches only the ARGV[1] jobs that would be delivered next.
_REMOVE = """
local wanted, left, removed, at = {}, #ARGV - 1, 0, -1
for each = 2, #ARGV do wanted[ARGV[each]] = true end
for look = 1, ARGV[1] do
    local message = left > 0 and redis.call('LINDEX', KEYS[1], at)
    if not message then break end
    local readable, job = pcall(cjson.decode, message)
    if readable and wanted[job.headers.id] then
        redis.call('LREM', KEYS[1], -1, message)
        left, removed = left - 1, removed + 1
    else
        at = at - 1
    end
end
return removed
"""
# How many other jobs the search may pass before it finds the jobs to remove.
OTHERS = 50


class QoS(redis.QoS):
    """The record of messages that were delivered and not yet acknowledged.

    If a process dies before it acknowledges a finished job, the job is delivered again. That does no harm,
    because a worker ignores jobs of finished calls (R6).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self._finished: list[str] = []

    def append(self, message: Any, delivery_tag: str) -> None:
        """Record a delivery, and acknowledge finished jobs in the same round trip."""
        delivery = message.delivery_info
        stored = json.dumps([message._raw, delivery["exchange"], delivery["routing_key"]])
        with self.pipe_or_acquire() as pipe:
            pipe.zadd(self.unacked_index_key, {delivery_tag: time.time()})
            pipe.hset(self.unacked_key, delivery_tag, stored)
            self._flush_finished(pipe)
        virtual.QoS.append(self, message, delivery_tag)  # type: ignore[no-untyped-call]

    def ack(self, delivery_tag: str) -> None:
        """Mark a job as finished. It is acknowledged with the next delivery or by ``acknowledge``."""
        self._finished.append(delivery_tag)
        virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]

    def acknowledge(self) -> None:
        """Acknowledge finished jobs in Redis.

        If Redis accepts no writes, they stay marked for the next time.
        """
        if self._finished:
            with suppress(ResponseError), self.pipe_or_acquire() as pipe:
                self._flush_finished(pipe)

    def _flush_finished(self, pipe: Any) -> None:
        over = list(self._finished)
        if over:
            pipe.zrem(self.unacked_index_key, *over)
            pipe.hdel(self.unacked_key, *over)
        pipe.execute()
        del self._finished[: len(over)]


class Channel(redis.Channel):
    """A channel that acknowledges jobs in batches and uses one client for its ordinary commands."""

    QoS = QoS
    _kept: Any = None
    # The list that received the last message, and that message. ``_put`` sets both.
    last_put: tuple[str, dict[str, Any]] | None = None

    def close(self) -> None:
        """Acknowledge finished jobs and close the channel, even if Redis does not respond.

        Redis delivers unacknowledged jobs again after the visibility timeout. Kombu closes a channel
        several times, and its own ``close`` would leave the channel half open after an error.
        """
        if self.closed:
            return
        self._attempt(self._acknowledge)
        self._attempt(super().close)
        if not self.closed:
            self.auto_delete_queues.clear()
            self._attempt(super().close)
        if self.connection is not None:
            self.connection.close_channel(self)

    def _attempt(self, step: Callable[[], object]) -> None:
        try:
            step()
        except self.connection_errors as error:
            log.info("A broker channel was closed while Redis was unavailable: %r", error)

    def remove(self, queue: str, priority: int, ids: Sequence[str]) -> int:
        """Remove the jobs with these ids from the front of a queue, and return the number removed."""
        with self.conn_or_acquire() as client:
            return int(client.eval(_REMOVE, 1, self._key(queue, priority), len(ids) + OTHERS, *ids))

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        super()._put(queue, message, **options)  # type: ignore[no-untyped-call]
        # The template cannot be used for a queue that expires: Celery extends its life with each message.
        priority = self._get_message_priority(message, reverse=False)  # type: ignore[no-untyped-call]
        self.last_put = None if queue in self._expires else (self._key(queue, priority), message)

    def _key(self, queue: str, priority: int) -> str:
        return str(self.global_keyprefix + self._q_for_pri(queue, priority))  # type: ignore[no-untyped-call]

    def _brpop_read(self, **options: Any) -> Any:
        with self._reading():
            try:
                return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
            except Empty:
                # The queue was empty for a second.
                self._acknowledge()
                raise

    def _receive(self) -> Any:
        with self._reading():
            return super()._receive()  # type: ignore[no-untyped-call]

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        """Yield the client for ordinary commands."""
        with self._reading():
            yield client or self._create_client()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Treat an unusable response as a lost connection, because it may belong to another command."""
        try:
            yield
        except (Empty, *BrokerTransport.connection_errors):
            raise
        except Exception as error:
            log.exception("Invalid response from the broker")
            if self._pool is not None:
                self._pool.disconnect()
            raise ConnectionError(f"Invalid response from the broker: {error!r}") from error

    def _acknowledge(self) -> None:
        if isinstance(self.qos, QoS):  # False if a project has switched acknowledgements off.
            self.qos.acknowledge()

    def _get_pool(self, asynchronous: bool = False) -> Any:
        if self.connection is None:
            # Kombu would raise an AttributeError here, and Celery would exit.
            raise ConnectionError("The channel is closed.")
        return super()._get_pool(asynchronous=asynchronous)  # type: ignore[no-untyped-call]

    def _create_client(self, asynchronous: bool = False) -> Any:
        """Return a client of the channel's current pool.

        The pool changes when the connection has been lost.
        """
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[no-untyped-call]
        if self._kept is None or self._kept.connection_pool is not self.pool:
            self._kept = super()._create_client()  # type: ignore[no-untyped-call]
        return self._kept


class BrokerTransport(redis.Transport):
    """Celery's transport over Redis that waits while Redis is full. For ``CELERY_BROKER_TRANSPORT``."""

    Channel = Channel
    connection_errors = (*redis.Transport.connection_errors, RedisError)


__getattr__ = former_names(__name__)
