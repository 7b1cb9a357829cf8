"""The rows of idempotency keys: reserved once, bounded, and taken over by one request."""

from __future__ import annotations

from functools import partial
from uuid import uuid4

import pytest

from mcp_app.execution.keyed import rows
from mcp_app.models import KeyedCall
from mcp_app.protocol.errors import McpError
from mcp_app.protocol.refusals import Code
from tests.racing import at_once

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def reserve(key: str = "once", digest: str = "a", seconds: float = 60.0) -> rows.Place:
    return rows.reserve("user:1", key, digest, seconds)


def test_concurrent_requests_reserve_a_key_once() -> None:
    places = at_once([reserve] * 4)
    assert sorted(place.is_new for place in places) == [False, False, False, True]
    assert len({place.id for place in places}) == 1


def test_key_of_another_call_is_refused() -> None:
    reserve()
    with pytest.raises(McpError) as caught:
        reserve(digest="b")
    assert caught.value.refusal == Code.KEY_REUSED


def test_running_call_is_lost_after_its_time_and_finished_calls_never_are() -> None:
    assert not rows.reserve("user:1", "lasting", "a", 60.0).is_lost
    for name, end in (("lost", None), ("finished", partial(rows.finish, result={"content": []}))):
        place = reserve(name, seconds=-1.0)
        if end is not None:
            end(place.id)
        assert reserve(name).is_lost == (end is None)


def test_long_result_is_replaced_by_a_note_that_keeps_the_error_flag() -> None:
    place = reserve()
    text = "x" * rows.MAX_RESULT_BYTES
    rows.finish(place.id, {"content": [{"type": "text", "text": text}], "isError": True})
    kept = reserve().result
    assert kept is not None
    assert kept["isError"]
    assert "too long to be kept" in kept["content"][0]["text"]


def test_integers_beyond_64_bits_are_kept() -> None:
    result = {"content": [], "structuredContent": {"value": 2**70}}
    rows.finish(reserve().id, result)
    assert reserve().result == result


def test_oldest_keys_of_a_principal_are_deleted() -> None:
    for number in range(rows.MAX_PER_PRINCIPAL + 3):
        reserve(str(number))
    assert KeyedCall.objects.count() == rows.MAX_PER_PRINCIPAL
    assert not reserve(str(rows.MAX_PER_PRINCIPAL + 2)).is_new
    assert reserve("0").is_new


def test_answered_question_is_taken_over_by_one_request() -> None:
    place = reserve()
    rows.attach(place.id, uuid4())
    stored = reserve()
    taken = at_once([partial(rows.take_over, stored, 60.0)] * 3)
    assert sorted(each.is_new for each in taken) == [False, False, True]


def test_key_that_was_released_meanwhile_is_not_taken_over() -> None:
    place = reserve()
    rows.attach(place.id, uuid4())
    stored = reserve()
    rows.release(place.id)
    taken = rows.take_over(stored, 60.0)
    assert (taken.is_new, taken.call_id) == (False, None)
    assert rows.read(taken) is None
