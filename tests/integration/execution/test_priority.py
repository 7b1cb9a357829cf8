"""Calls of a higher priority leave a queue first, whatever the broker's own numbers mean."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import orjson
import pytest
from celery import Celery, current_app

from mcp_app.execution.background.celery import application, hand_on
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import NewCall
from mcp_app.models import Call


@pytest.fixture
def broker(clean_redis: str) -> Iterator[Celery]:
    """The Redis of the tests as the current application's broker."""
    before = current_app._get_current_object()
    app = Celery("priorities", broker=clean_redis)
    app.set_current()
    application.cache_clear()
    yield app
    before.set_current()
    before.set_default()
    application.cache_clear()
    app.close()


def _handed_on(priority: int) -> UUID:
    new = NewCall(
        session_id=uuid4().hex,
        request_id=1,
        principal="loopback",
        user_id=None,
        api_key_id=None,
        tool="count",
        arguments={},
        meta={},
        session_fields={},
        stream="call-1",
        timeout=300,
        priority=priority,
    )
    call, _ = records.accept(new)
    assert hand_on(call)
    return call.id


@pytest.mark.django_db
def test_higher_priorities_are_taken_first_and_equal_ones_in_their_order(broker: Celery) -> None:
    low, high, middle, low_again = (_handed_on(priority) for priority in (0, 9, 5, 0))
    taken = []
    with broker.connection_for_read() as connection, connection.channel() as channel:
        while (message := channel.basic_get("celery", no_ack=True)) is not None:
            taken.append(UUID(orjson.loads(message.body)[0][0]))
    assert taken == [high, middle, low, low_again]
    assert not Call.objects.filter(enqueued_at=None).exists()
