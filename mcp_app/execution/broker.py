"""Redis as Celery's broker, when it may be full for a while (R13).

Kombu takes an answer "out of memory" for a fault of the program, at which Celery ends and takes the jobs that
run with it. Here it is an outage of the broker, which Celery sits out.
"""

from __future__ import annotations

from typing import Final

from kombu.transport import redis, virtual

# Kombu's own Redis library: clients are made by it here, not by us.
OutOfMemoryError: Final[type[Exception]] = redis.redis.exceptions.OutOfMemoryError  # type: ignore[attr-defined]


class QoS(redis.QoS):
    """What is delivered and not yet acknowledged."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message, or else have it delivered once more: its call is over and is left alone."""
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        except OutOfMemoryError:
            # Not to forget it here would keep its place for ever, and this worker would take no more jobs.
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]


class Channel(redis.Channel):
    """A channel with that book-keeping."""

    QoS = QoS


class Transport(redis.Transport):
    """``CELERY_BROKER_TRANSPORT = "mcp_app.execution.broker:Transport"``."""

    Channel = Channel
    connection_errors = (*redis.Transport.connection_errors, OutOfMemoryError)
