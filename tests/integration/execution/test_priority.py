"""Calls of a higher priority leave a queue first, whatever the broker's own numbers mean."""

from __future__ import annotations

from uuid import UUID

import orjson
import pytest
from celery import Celery

from mcp_app.execution.background.celery import enqueue_again
from mcp_app.execution.stored import records
from mcp_app.models import Call
from tests.integration.execution.broker import new


def _handed_on(priority: int) -> UUID:
    call, _ = records.accept(new(priority=priority))
    assert enqueue_again(call)
    return call.id


@pytest.mark.django_db
def test_higher_priorities_are_taken_first_and_equal_ones_in_order(broker: Celery) -> None:
    low, high, middle, low_again = (_handed_on(priority) for priority in (0, 9, 5, 0))
    taken = []
    with broker.connection_for_read() as connection, connection.channel() as channel:
        while (message := channel.basic_get("celery", no_ack=True)) is not None:
            taken.append(UUID(orjson.loads(message.body)[0][0]))
    assert taken == [high, middle, low, low_again]
    assert not Call.objects.filter(enqueued_at=None).exists()
