"""Links between background calls, sessions and the log, for clients of each era."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from mcp_app.console.detail import detail, running_calls
from mcp_app.console.line import line_of
from mcp_app.console.session_rows import background_calls
from mcp_app.execution.stored.waiting_times import started_calls
from mcp_app.message_log import pending
from mcp_app.models import Call, Message, Session
from mcp_app.sessions.exchange import Exchange
from mcp_app.sessions.session import MADE_IN
from tests.clients.envelopes import envelope_of
from tests.integration.admin.addresses import page
from tests.samples.admin_seed import RUNNING, Seed, background_call
from tests.views import SERVER

LIST = "/admin/mcp_app/call/"
PRINCIPAL = "user:1/key:1"
SESSION = "s" * 32
ERAS = ["session of 2025-11-25", "task of 2025-11-25", "request of 2026-07-28"]


def call_of(era: str, number: int, **more: Any) -> tuple[Call, str]:
    """Store a call with its request id "1", and return it with the session under which it is logged."""
    streams, logged, fields = SESSION, SESSION, {}
    if era == ERAS[1]:
        streams, fields = f"task-{number}", {MADE_IN: SESSION}
        more["task_until"] = timezone.now() + timedelta(hours=1)
    elif era == ERAS[2]:
        exchange = Exchange(envelope_of({}, {"name": "cursor", "version": "1"}), PRINCIPAL, SERVER)
        streams, logged, fields = exchange.id, exchange.record_id, exchange.stored()
    call = background_call(streams, number, request_id='"1"', person="user:1", **more)
    call.session_fields = {**call.session_fields, **fields}
    call.save()
    times = {"created_at": call.accepted_at, "last_seen_at": call.accepted_at}
    Session.objects.get_or_create(
        pk=logged, defaults={"principal": PRINCIPAL, "client_name": "cursor", **times}
    )
    return call, logged


def log(call: Call, session: str, **more: Any) -> Message:
    """Store the logged request of a call."""
    fields = {"kind": "request", "at": call.finished_at or call.accepted_at, "direction": "in", **more}
    named = {"method": "tools/call", "request_id": "1", "target": call.tool, "principal": call.principal}
    return Message.objects.create(session_id=session, **named, **fields)


@pytest.mark.parametrize("era", ERAS)
def test_call_page_leads_to_its_messages_and_its_session(era: str, root: Client, seeded: Seed) -> None:
    call, session = call_of(era, 7001)
    message = log(call, session)
    shown = root.get(f"{LIST}{call.pk}/change/").context
    rows = root.get(shown["messages_url"]).context["timeline"].rows
    assert [row.message.pk for row in rows] == [message.pk]
    assert shown["session_url"] == page("session", "change", session)


@pytest.mark.parametrize("era", ERAS)
def test_message_leads_to_its_own_call(era: str, root: Client, seeded: Seed) -> None:
    call, session = call_of(era, 7001)
    then = timezone.now() + timedelta(minutes=10)
    # Clients use a request id again.
    later, _ = call_of(era, 7002, accepted_at=then, finished_at=then)
    for each in (call, later):
        message = log(each, session)
        shown = root.get(page("message", "change", message.pk))
        address = page("call", "change", each.pk)
        assert shown.context["call_url"] == address
        assert detail(line_of(message), seeded.root)["links"]["call"] == address
        (calls,) = re.findall(r'href="([^"]+)">Background calls<', shown.content.decode())
        found = root.get(html.unescape(calls)).context["cl"].result_list
        assert {row.pk for row in found} == {call.pk, later.pk}


@pytest.mark.parametrize("era", ERAS)
def test_list_of_calls_links_the_session_of_each_call(era: str, root: Client, seeded: Seed) -> None:
    _, session = call_of(era, 7001)
    assert f'href="{page("session", "change", session)}"' in root.get(LIST).content.decode()


@pytest.mark.parametrize("era", ERAS)
def test_unfinished_calls_count_for_their_session(era: str, seeded: Seed) -> None:
    call, session = call_of(era, 7001, state="running", **RUNNING)
    assert background_calls([session]) == {session: 1}
    assert [each["target"] for each in running_calls(session)] == [call.tool]


@pytest.mark.parametrize("era", ERAS)
def test_waiting_times_name_the_client(era: str, seeded: Seed) -> None:
    call, _ = call_of(era, 7001)
    found = started_calls(call.accepted_at, call.accepted_at + timedelta(microseconds=1), clients=True)
    assert [each.client for each in found] == ["cursor"]


@pytest.mark.parametrize("era", ERAS)
def test_request_of_an_unfinished_call_stays_pending(era: str, seeded: Seed) -> None:
    old = timezone.now() - timedelta(hours=pending.LONGEST_HOURS, minutes=1)
    call, session = call_of(era, 7001, state="running", accepted_at=old, **RUNNING)
    message = log(call, session, kind="running", pending="running")
    pending.end_abandoned()
    message.refresh_from_db()
    assert message.kind == "running"
