"""Celery's transport over Redis, tolerant of errors that Redis returns (R11, R13, R14).

Kombu treats an error returned by Redis (full, replica, loading …) as a bug: Celery exits, along with its
running jobs. This transport treats each such error as a broker outage, which Celery waits out, and logs it.

Kombu creates a client for each command, which takes longer than the command. This transport reuses one. Kombu
also makes one round trip to Redis for each started job and one for each finished job. Here finished jobs are
acknowledged with the next delivery, or when the queue is empty.

A worker that claims several calls for one job removes the jobs of the other calls from their queue.
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

# From Kombu's own Redis library, because Kombu creates the clients.
_exceptions: Final[Any] = redis.redis.exceptions  # type: ignore[attr-defined]
RedisError: Final[type[Exception]] = _exceptions.RedisError
ResponseError: Final[type[Exception]] = _exceptions.ResponseError

log = logging.getLogger("mcp.background")

# Removes jobs by id, among the first ARGV[1] jobs that would be delivered next.
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
# Number of other jobs that may stand before the requested ones.
OTHERS = 50


class QoS(redis.QoS):
    """The record of delivered, unacknowledged messages.

    If a process dies before it acknowledges a finished job, the job is delivered again. That is harmless: a
    worker ignores jobs of finished calls (R6).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self._over: list[str] = []

    def append(self, message: Any, delivery_tag: str) -> None:
        """Record a delivery, and acknowledge the finished jobs in the same round trip."""
        delivery = message.delivery_info
        stored = json.dumps([message._raw, delivery["exchange"], delivery["routing_key"]])
        with self.pipe_or_acquire() as pipe:
            pipe.zadd(self.unacked_index_key, {delivery_tag: time.time()})
            pipe.hset(self.unacked_key, delivery_tag, stored)
            self._tell(pipe)
        virtual.QoS.append(self, message, delivery_tag)  # type: ignore[no-untyped-call]

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a finished job with the next delivery or ``acknowledge``."""
        self._over.append(delivery_tag)
        virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]

    def acknowledge(self) -> None:
        """Acknowledge finished jobs in Redis, or later if Redis accepts no writes."""
        if self._over:
            with suppress(ResponseError), self.pipe_or_acquire() as pipe:
                self._tell(pipe)

    def _tell(self, pipe: Any) -> None:
        over = list(self._over)
        if over:
            pipe.zrem(self.unacked_index_key, *over)
            pipe.hdel(self.unacked_key, *over)
        pipe.execute()
        del self._over[: len(over)]


class Channel(redis.Channel):
    """A channel with batched acknowledgements and one client for its ordinary commands."""

    QoS = QoS
    _kept: Any = None
    # The list that received the last message, and the message. Set by ``_put``.
    last_put: tuple[str, dict[str, Any]] | None = None

    def close(self) -> None:
        """Acknowledge finished jobs and close the channel, as far as Redis responds.

        Jobs that Redis cannot take back now are delivered again after the visibility timeout. Kombu closes a
        channel several times and would leave it half open after an error.
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
        # Each message extends the life of a queue that expires.
        priority = self._get_message_priority(message, reverse=False)  # type: ignore[no-untyped-call]
        self.last_put = None if queue in self._expires else (self._key(queue, priority), message)

    def _key(self, queue: str, priority: int) -> str:
        return str(self.global_keyprefix + self._q_for_pri(queue, priority))  # type: ignore[no-untyped-call]

    def _brpop_read(self, **options: Any) -> Any:
        with self._reading():
            try:
                return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
            except Empty:
                # No job arrived for a second.
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
        """Treat an unusable answer as a lost connection, because it may belong to another command."""
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
        if isinstance(self.qos, QoS):  # False where a project has switched the acknowledgement records off.
            self.qos.acknowledge()

    def _get_pool(self, asynchronous: bool = False) -> Any:
        if self.connection is None:
            # Kombu would raise an AttributeError, which ends Celery.
            raise ConnectionError("The channel is closed.")
        return super()._get_pool(asynchronous=asynchronous)  # type: ignore[no-untyped-call]

    def _create_client(self, asynchronous: bool = False) -> Any:
        """Return a client of the channel's current pool. The pool changes when the connection is lost."""
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[no-untyped-call]
        if self._kept is None or self._kept.connection_pool is not self.pool:
            self._kept = super()._create_client()  # type: ignore[no-untyped-call]
        return self._kept


class BrokerTransport(redis.Transport):
    """Celery's transport over Redis that waits while Redis is full. Set it as ``CELERY_BROKER_TRANSPORT``."""

    Channel = Channel
    connection_errors = (*redis.Transport.connection_errors, RedisError)


__getattr__ = former_names(__name__)
