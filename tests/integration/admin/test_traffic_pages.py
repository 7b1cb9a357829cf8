"""Sessions and the message log: filters, keyset pagination, truncated payloads, ending a session."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app.admin.base import HAS_UNFOLD
from mcp_app.admin.timeline import PAGE_SIZE, SHOWN_CHARACTERS
from mcp_app.models import AuditEvent, Call, Message, Session
from tests.integration.admin.addresses import page
from tests.samples.admin_seed import Seed, call


def _ids(client: Client, address: str) -> list[int]:
    return [row.message.pk for row in client.get(address).context["timeline"].rows]


def _timeline(seeded: Seed, query: str = "") -> str:
    return page("session", "change", seeded.session.pk) + "?" + query


def test_timeline_pages_forwards_and_backwards_in_both_orders(root: Client, seeded: Seed) -> None:
    stored = list(Message.objects.filter(session=seeded.session).order_by("pk").values_list("pk", flat=True))
    for order, expected in (("", stored[::-1]), ("oldest", stored)):
        address, seen, pages = _timeline(seeded, f"order={order}"), [], []
        while address:
            shown = root.get(address).context["timeline"]
            seen += [row.message.pk for row in shown.rows]
            pages.append(shown)
            following = shown.older if shown.newest_first else shown.newer
            address = _timeline(seeded, following) if following else ""
        assert seen == expected
        assert [len(shown.rows) for shown in pages] == [PAGE_SIZE, len(stored) - PAGE_SIZE]
        back = pages[-1].newer if pages[-1].newest_first else pages[-1].older
        assert _ids(root, _timeline(seeded, back)) == expected[:PAGE_SIZE]


def test_message_arriving_between_pages_is_not_lost_or_repeated(root: Client, seeded: Seed) -> None:
    first = root.get(_timeline(seeded)).context["timeline"]
    call(seeded.session, 200)
    second = _ids(root, _timeline(seeded, first.older))
    assert not set(second) & {row.message.pk for row in first.rows}
    assert len(second) + len(first.rows) == 63


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("method=initialize", 1),
        ("outcome=tool_error", 1),
        ("outcome=error", 1),
        ("direction=out", 1),
        ("target=web_scrape", 1),
        ("request_id=7", 1),
        ("since=2026-11-20T12:00:55&until=2026-11-20T12:00:57", 3),
        ("method=tools/call&outcome=ok&since=2026-11-20T12:00:58", 3),
        ("method=nothing", 0),
    ],
)
def test_timeline_filters(query: str, count: int, root: Client, seeded: Seed) -> None:
    assert len(_ids(root, _timeline(seeded, query))) == count


@pytest.mark.parametrize(
    "query", ["before=x", "since=sometime", "outcome=maybe", "method=%00", "after=-1", "before=9" + "9" * 30]
)
def test_invalid_filter_is_reported_and_lists_no_rows(query: str, root: Client, seeded: Seed) -> None:
    answer = root.get(_timeline(seeded, query))
    assert answer.status_code == 200
    assert answer.context["timeline"].rows == []
    assert "The search has an error: " in answer.content.decode()


def test_filters_survive_paging(root: Client, seeded: Seed) -> None:
    shown = root.get(_timeline(seeded, "method=tools/call&direction=in")).context["timeline"]
    assert "method=tools%2Fcall" in shown.older
    assert "direction=in" in shown.older


def test_log_filters_by_session_and_request_id(root: Client, seeded: Seed) -> None:
    address = page("message", "changelist")
    assert len(_ids(root, address)) == PAGE_SIZE
    assert len(_ids(root, f"{address}?session={seeded.hostile_session.pk}")) == 2
    call(None, 300)
    assert len(_ids(root, f"{address}?request_id=300")) == 1


def test_long_payload_is_truncated_and_whole_on_its_own_page(root: Client, seeded: Seed) -> None:
    long = Message.objects.get(session=seeded.session, request_id="63")
    text = root.get(_timeline(seeded)).content.decode()
    assert f"Show all {len(long.payload)} characters" in text
    assert text.count("long long") < SHOWN_CHARACTERS / len("long long") + 1
    assert root.get(page("message", "change", long.pk)).content.decode().count("long ") == 2000


def test_deeply_nested_payload_renders_in_bounded_size(root: Client, seeded: Seed) -> None:
    deep = Message.objects.get(session=seeded.hostile_session, request_id="101")
    answer = root.get(page("message", "change", deep.pk))
    assert answer.status_code == 200
    assert len(answer.content) < 700_000


def test_unlogged_messages_are_mentioned(root: Client, seeded: Seed) -> None:
    assert "3 messages before this one were not logged." in root.get(_timeline(seeded)).content.decode()


def test_list_of_sessions_counts_requests_without_a_response(root: Client, seeded: Seed) -> None:
    logged = Session.objects.get(pk=seeded.session.pk).messages_logged
    call(seeded.session, 400, kind="waiting", pending="waiting", outcome="")
    cells = root.get(page("session", "changelist")).context["cl"].result_list
    assert [vars(row)["pending"] for row in cells if row.pk == seeded.session.pk] == [1]
    assert f">{logged + 1}<" in root.get(page("session", "changelist")).content.decode()


def test_message_of_a_background_call_shows_when_it_was_requested(root: Client, seeded: Seed) -> None:
    asked = Call.objects.filter(tool="echo", session_id=seeded.session.pk).first()
    assert asked is not None
    message = call(seeded.session, 401, request_id=str(json.loads(asked.request_id)), target="echo")
    shown = root.get(page("message", "change", message.pk))
    assert shown.context["requested"] == asked.accepted_at


def test_session_list_query_count_is_constant(root: Client, seeded: Seed) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            listed = root.get(page("session", "changelist")).context["cl"].result_list
        assert {row.pk: row.messages_logged for row in listed}[seeded.session.pk] == 63
        return len(captured)

    before = queries()
    for number in range(10):
        now = timezone.now()
        Session.objects.create(
            id=f"more-{number}",
            principal="p",
            protocol_version="2025-11-25",
            created_at=now,
            last_seen_at=now,
        )
    assert queries() == before


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("version=2025-06-18", {"Visual Studio Code"}),
        ("q=cursor", {"cursor"}),
        ("state=open&q=claude", {"claude-code"}),
        ("state=ended&q=cursor", {"cursor"}),
        ("state=idle&q=claude", set()),
    ],
)
def test_session_list_filters_and_searches(query: str, names: set[str], root: Client, seeded: Seed) -> None:
    listed = root.get(page("session", "changelist") + "?" + query).context["cl"].result_list
    assert {session.client_name for session in listed} == names


def test_silent_session_is_idle(root: Client, seeded: Seed) -> None:
    Session.objects.filter(pk=seeded.session.pk).update(last_seen_at=timezone.now() - timedelta(days=1))
    listed = root.get(page("session", "changelist") + "?state=idle").context["cl"].result_list
    assert [session.pk for session in listed] == [seeded.session.pk]


def test_session_is_ended_once_and_audited(root: Client, seeded: Seed) -> None:
    address = page("session", "end", seeded.session.pk)
    assert "The session was ended." in root.post(address + "?from_page=1", follow=True).content.decode()
    ended = Session.objects.get(pk=seeded.session.pk)
    assert ended.ended_at is not None
    assert ended.end_reason == "by an administrator"
    assert "The session had already ended." in root.post(address, follow=True).content.decode()
    assert AuditEvent.objects.filter(
        action="session.end", object_key=seeded.session.pk, actor=seeded.root
    ).exists()


def test_bulk_action_ends_sessions(root: Client, seeded: Seed) -> None:
    chosen = list(Session.objects.values_list("pk", flat=True))
    answer = root.post(
        page("session", "changelist"), {"action": "end_sessions", "_selected_action": chosen}, follow=True
    )
    assert "Sessions ended: 2." in answer.content.decode()
    assert not Session.objects.filter(ended_at=None).exists()


def test_request_and_response_are_shown_in_two_panes(root: Client, seeded: Seed) -> None:
    text = root.get(page("message", "change", seeded.message.pk)).content.decode()
    assert len(re.findall('class="mcp-pane"', text)) == 2


@pytest.mark.parametrize(
    ("model", "view", "title"),
    [
        ("message", "changelist", "Log"),
        ("message", "searches", "Saved searches"),
        ("message", "figures", "Figures"),
        ("message", "errors", "Errors"),
        ("tool", "deleted", "Deleted tools"),
        ("doctor", "changelist", "Doctor"),
    ],
)
def test_pages_without_a_list_have_their_own_heading(model: str, view: str, title: str, root: Client) -> None:
    heading = root.get(page(model, view)).content.decode().partition("<h1")[2].partition("</h1>")[0]
    assert re.sub(r"<[^>]*>", " ", heading).split(">")[-1].split("chevron_right")[-1].strip() == title


@pytest.mark.skipif(not HAS_UNFOLD, reason="Django's own admin has a path of its own")
@pytest.mark.parametrize(
    ("model", "view", "listed"),
    [
        ("tool", "deleted", "Tools"),
        ("message", "searches", "Log"),
        ("toolset", "tokens", "Toolsets"),
        ("message", "changelist", ""),
        ("message", "figures", ""),
        ("message", "errors", ""),
        ("doctor", "changelist", ""),
    ],
)
def test_heading_of_a_page_below_a_list_links_the_list(
    model: str, view: str, listed: str, root: Client
) -> None:
    heading = root.get(page(model, view)).content.decode().partition("<h1")[2].partition("</h1>")[0]
    links = re.findall(r'<a href="([^"?]+)[^>]*>([^<]+)</a>', heading)
    assert links == ([(page(model, "changelist"), listed)] if listed else [])


SENT = {
    "number": 1, "method": "POST", "url": "https://crm.example.com/mcp", "headers": [["X-Kind", "a"]],
    "body": '{"q":"<b>\u202e"}', "sent": 9, "status": 503, "content_type": "text/plain", "answer": "Away",
    "received": 4, "ms": 12.5, "problem": "",
}  # fmt: skip


def test_requests_to_other_servers_are_beside_their_message(root: Client, seeded: Seed) -> None:
    message = Message.objects.filter(session=seeded.session, method="tools/call").latest("pk")
    assert "Requests to other servers" not in root.get(page("message", "change", message.pk)).content.decode()
    message.outgoing = json.dumps([SENT])
    message.save()
    shown = root.get(page("message", "change", message.pk)).content.decode()
    assert "POST https://crm.example.com/mcp" in shown
    assert "status 503" in shown
    assert "<b>\u202e" not in shown
    api = root.get(f"/api/messages/{message.pk}/").json()
    assert api["outgoing"][0]["answer"] == "Away"
