"""Redis as Celery's broker, whatever it answers (R11, R13, R14).

Kombu takes an error that Redis answers (it is full, a replica, still loading …) for a fault of the program:
Celery ends, and so do the jobs that run in it. Here every such answer is an outage of the broker, which
Celery sits out; the answer is logged.

Kombu makes a client for each command, which takes longer than the command: here it is kept. And it waits for
Redis once for each job that begins and once for each that is over: here, that one is over is said with the
next that begins, or when there is none.

A worker that begins several calls for one job removes the jobs of the others from their queue.
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

# From Kombu's own Redis library: it makes the clients here, not we.
_exceptions: Final[Any] = redis.redis.exceptions  # type: ignore[attr-defined]
RedisError: Final[type[Exception]] = _exceptions.RedisError
ResponseError: Final[type[Exception]] = _exceptions.ResponseError

log = logging.getLogger("mcp.background")

# Removes jobs by their ids, looking at the first ARGV[1] that would leave the queue next.
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
# Jobs that may stand before those that are looked for.
OTHERS = 50


class QoS(redis.QoS):
    """What is delivered and not yet acknowledged.

    A process that dies before it has told Redis of a job that is over leaves it to be delivered once more.
    That is harmless: its call is over and is left alone (R6).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self._over: list[str] = []

    def append(self, message: Any, delivery_tag: str) -> None:
        """Store that a job was delivered, and which are over."""
        delivery = message.delivery_info
        stored = json.dumps([message._raw, delivery["exchange"], delivery["routing_key"]])
        with self.pipe_or_acquire() as pipe:
            pipe.zadd(self.unacked_index_key, {delivery_tag: time.time()})
            pipe.hset(self.unacked_key, delivery_tag, stored)
            self._tell(pipe)
        virtual.QoS.append(self, message, delivery_tag)  # type: ignore[no-untyped-call]

    def ack(self, delivery_tag: str) -> None:
        """Note that a job is over."""
        self._over.append(delivery_tag)
        virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]

    def acknowledge(self) -> None:
        """Tell Redis which jobs are over, or do so later if it takes no writes."""
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
    """A channel with that book-keeping, and one client for its ordinary commands."""

    QoS = QoS
    _kept: Any = None
    # Set by who wants to know it: the list that the last message went into, and the message.
    last_put: tuple[str, dict[str, Any]] | None = None

    def close(self) -> None:
        """Acknowledge finished jobs and close the channel, as far as Redis takes part.

        Jobs that Redis does not take back now are delivered again after the visibility timeout. Kombu closes
        a channel several times, and would leave it half open after an error.
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
            log.info("A channel is closed without Redis: %r", error)

    def remove(self, queue: str, priority: int, ids: Sequence[str]) -> int:
        """Remove the jobs of these ids from the next ones of a queue; returns how many were there."""
        with self.conn_or_acquire() as client:
            return int(client.eval(_REMOVE, 1, self._key(queue, priority), len(ids) + OTHERS, *ids))

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        super()._put(queue, message, **options)  # type: ignore[no-untyped-call]
        # A queue that expires is renewed with each message.
        priority = self._get_message_priority(message, reverse=False)  # type: ignore[no-untyped-call]
        self.last_put = None if queue in self._expires else (self._key(queue, priority), message)

    def _key(self, queue: str, priority: int) -> str:
        return str(self.global_keyprefix + self._q_for_pri(queue, priority))  # type: ignore[no-untyped-call]

    def _brpop_read(self, **options: Any) -> Any:
        with self._reading():
            try:
                return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
            except Empty:
                # No job has come for a second.
                self._acknowledge()
                raise

    def _receive(self) -> Any:
        with self._reading():
            return super()._receive()  # type: ignore[no-untyped-call]

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        """Yield the client of ordinary commands."""
        with self._reading():
            yield client or self._create_client()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Treat an answer that makes no sense as a lost connection: it may belong to another command."""
        try:
            yield
        except (Empty, *BrokerTransport.connection_errors):
            raise
        except Exception as error:
            log.exception("The broker's answer cannot be used")
            if self._pool is not None:
                self._pool.disconnect()
            raise ConnectionError(f"The broker's answer cannot be used: {error!r}") from error

    def _acknowledge(self) -> None:
        if isinstance(self.qos, QoS):  # not so where a project has switched the book-keeping off
            self.qos.acknowledge()

    def _get_pool(self, asynchronous: bool = False) -> Any:
        if self.connection is None:
            # Kombu would fail with an AttributeError, which ends Celery.
            raise ConnectionError("The channel is closed.")
        return super()._get_pool(asynchronous=asynchronous)  # type: ignore[no-untyped-call]

    def _create_client(self, asynchronous: bool = False) -> Any:
        """A client of the pool the channel has now; that changes when the connection is lost."""
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[no-untyped-call]
        if self._kept is None or self._kept.connection_pool is not self.pool:
            self._kept = super()._create_client()  # type: ignore[no-untyped-call]
        return self._kept


class BrokerTransport(redis.Transport):
    """Celery's transport over Redis that waits while Redis is full; ``CELERY_BROKER_TRANSPORT`` names it."""

    Channel = Channel
    connection_errors = (*redis.Transport.connection_errors, RedisError)


__getattr__ = former_names(__name__)
