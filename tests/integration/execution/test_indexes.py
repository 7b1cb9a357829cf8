"""Queries over many calls use an index, without an index that every call would pay for."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import QuerySet

from mcp_app.database import clock
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import id_of, stream_of
from mcp_app.models import Call
from tests.integration.execution.broker import new

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


def indexes_of(calls: QuerySet[Call]) -> str:
    """Return the query plan with sequential scans made expensive."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    return calls.order_by().explain()


def test_unpublished_answers_use_their_index() -> None:
    since = clock.now(-2)
    unpublished = Call.objects.filter(published=False, finished_at__lt=since)
    assert "call_unpublished" in indexes_of(unpublished)


def test_calls_of_a_user_and_retries_of_a_call_use_an_index() -> None:
    user = get_user_model().objects.create_user("caller")
    assert "call_of_user" in indexes_of(Call.objects.filter(user=user))
    assert "call_of_user" in indexes_of(Call.objects.filter(user__in=[user.pk, user.pk + 1]))
    assert "call_retry_of" in indexes_of(Call.objects.filter(retry_of=uuid4()))


def test_old_finished_calls_use_the_acceptance_index() -> None:
    since = clock.now(-records.DAY_SECONDS)
    assert "accepted_at" in indexes_of(Call.objects.filter(accepted_at__lt=since, finished_at__lt=since))


def test_call_is_found_by_its_stream_within_its_session() -> None:
    name = uuid4()
    call, _ = records.accept(new(stream=stream_of(name)))
    assert call.id == name
    assert records.find_by_stream(call.session_id, call.stream) == call
    assert records.find_by_stream("another-session", call.stream) is None
    assert records.find_by_stream(call.session_id, stream_of(uuid4())) is None


def test_call_of_the_previous_version_is_found_by_its_stream() -> None:
    call, _ = records.accept(new(stream="call-0123456789abcdef01"))
    assert id_of(call.stream) is None
    assert records.find_by_stream(call.session_id, call.stream) == call


@pytest.mark.parametrize("stream", ["", "call-", f"wait-{'a' * 32}", f"call-{'g' * 32}", f"call-{'A' * 32}"])
def test_other_stream_names_contain_no_call_id(stream: str) -> None:
    assert id_of(stream) is None
