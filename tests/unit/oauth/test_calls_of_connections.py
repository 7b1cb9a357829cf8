"""Background calls end with their connection, independent of other connections of the user."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app.execution.stored import records
from mcp_app.models import AuditEvent, Call
from mcp_app.oauth import connections
from mcp_app.oauth.connections import find_principal
from mcp_app.oauth.models import Client, Connection
from mcp_app.oauth.registration import create_client, metadata_of
from mcp_app.protocol.call_state import State
from tests.unit.execution.attempts import new_call
from tests.unit.oauth.flow import CALLBACK, RESOURCE, Program

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
    pytest.mark.requirement("AUTH-18"),
]
WEB = "https://client.example/callback"


def connected_with_a_call(program: Program, number: int) -> tuple[Connection, Call]:
    """Return a connection of a client, and a background call made through it."""
    principal = find_principal(program.connect()["access_token"])
    assert principal is not None
    said: dict[str, Any] = {"principal": principal.key, "connection_id": principal.connection_id}
    call, _ = records.accept(new_call(request_id=number, stream=f"call-{number}", **said))
    row = Connection.objects.select_related("user", "client").get(pk=principal.connection_id)
    return row, Call.objects.get(pk=call.id)


def state(call: Call) -> str:
    """Return the current state of the call."""
    call.refresh_from_db()
    return call.state


def test_each_connection_of_a_client_ends_its_own_calls(program: Program) -> None:
    first, of_first = connected_with_a_call(program, 1)
    second, of_second = connected_with_a_call(program, 2)
    connections.end(first, "test")
    assert (state(of_first), state(of_second)) == (State.CANCELLED, State.ACCEPTED)
    connections.end(second, "test")
    assert state(of_second) == State.CANCELLED


def test_calls_survive_reconnect_and_end_with_replacement_connection(
    browser: Any,
) -> None:
    client, _ = create_client(
        metadata_of({"client_name": "Entered", "redirect_uris": [WEB, f"{WEB}/other"]}), actor=None
    )
    program = Program(browser, client.client_id, WEB)
    elsewhere = Program(browser, client.client_id, f"{WEB}/other")
    replaced, of_replaced = connected_with_a_call(program, 1)
    _, untouched = connected_with_a_call(elsewhere, 2)
    again, of_again = connected_with_a_call(program, 3)
    replaced.refresh_from_db()
    assert not replaced.live
    assert state(of_replaced) == State.ACCEPTED
    connections.end(again, "test")
    assert (state(of_replaced), state(of_again)) == (State.CANCELLED, State.CANCELLED)
    assert state(untouched) == State.ACCEPTED


def test_last_connection_of_client_ends_calls_stored_by_earlier_version(program: Program) -> None:
    row, call = connected_with_a_call(program, 1)
    Call.objects.update(connection_id=None)
    connections.end(row, "test")
    assert state(call) == State.CANCELLED


def test_stopped_connections_can_be_queried(browser: Any, person: Any) -> None:
    client, _ = create_client(metadata_of({"client_name": "Entered", "redirect_uris": [WEB]}), actor=None)
    program = Program(browser, client.client_id, WEB)
    replaced, _ = connected_with_a_call(program, 1)
    live, _ = connected_with_a_call(program, 2)
    unknown = live.pk + 1_000
    asked = frozenset({replaced.pk, live.pk, unknown})
    assert connections.stopped(asked) == {unknown}
    person.is_active = False
    person.save()
    assert connections.stopped(asked) == asked
    person.is_active = True
    person.save()
    connections.end(live, "test")
    assert connections.stopped(asked) == asked


def test_ending_client_uses_constant_number_of_statements(program: Program) -> None:
    client, counts = Client.objects.get(client_id=program.client_id), []
    for many in (2, 40):
        for number in range(many):
            user = get_user_model().objects.create_user(f"person {number} of {many}")
            Connection.objects.create(
                user=user,
                client=client,
                resource=RESOURCE,
                scope="mcp",
                redirect_uri=CALLBACK,
                ends_at=timezone.now() + timedelta(days=1),
            )
        with CaptureQueriesContext(connection) as asked:
            connections.disable(client, actor=None)
        counts.append(len(asked))
        assert not Connection.objects.filter(revoked_at=None).exists()
        assert AuditEvent.objects.filter(action="oauth.end").count() == many + (2 if many > 2 else 0)
    assert counts[0] == counts[1] < 20
    assert connections.END_SLICE > 40


def test_oldest_connections_above_limit_end(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_LIVE", 3)
    for _ in range(5):
        program.connect()
    ended = Connection.objects.order_by("pk").values_list("end_reason", flat=True)
    assert list(ended) == [connections.REPLACED] * 2 + [""] * 3
