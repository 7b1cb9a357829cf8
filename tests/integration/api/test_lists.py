"""Lists: keyset pagination and filters."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app.message_log import pages
from mcp_app.models import AuditEvent, Call, Message, Session
from tests.samples.admin_seed import Seed, background_call, call

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def _walk(root: Client, address: str, member: str = "next") -> tuple[list[Any], str]:
    """Return the ids of all pages, and the last page's address."""
    found: list[Any] = []
    last = address
    while address:
        last = address
        page = root.get(address).json()
        found += [row["id"] for row in page["results"]]
        address = page[member]
    return found, last


@pytest.mark.parametrize("limit", [1, 7, 200])
def test_every_message_is_on_one_page_newest_first(limit: int, root: Client, seeded: Seed) -> None:
    found, last = _walk(root, f"/api/messages/?limit={limit}")
    assert found == list(Message.objects.order_by("-id").values_list("id", flat=True))
    back, _ = _walk(root, last, "previous")
    assert sorted(back, reverse=True) == found


def test_page_is_stable_when_rows_arrive(root: Client, seeded: Seed) -> None:
    page = root.get("/api/messages/?limit=5").json()
    for number in range(300, 320):
        call(seeded.session, number)
    assert root.get(page["next"]).json()["results"][0]["id"] == page["results"][-1]["id"] - 1


def test_calls_of_one_moment_are_each_on_one_page(root: Client, seeded: Seed) -> None:
    moment = timezone.now()
    for number in range(20, 31):
        background_call("many", number, accepted_at=moment)
    found, _ = _walk(root, "/api/calls/?limit=3")
    assert len(found) == len(set(found)) == Call.objects.count()


def test_page_of_a_long_log_reads_only_its_rows(
    root: Client, seeded: Seed, django_assert_max_num_queries: Any
) -> None:
    address = root.get("/api/messages/?limit=5").json()["next"]
    with django_assert_max_num_queries(8) as asked:
        root.get(address)
    sql = [query["sql"] for query in asked.captured_queries if "mcp_app_message" in query["sql"]]
    assert len(sql) == 1
    assert "OFFSET" not in sql[0]
    assert "COUNT" not in sql[0]


@pytest.mark.parametrize("query", ["direction=out", "method=tools/call&target=web_scrape", "direction=in"])
def test_partial_pages_lead_to_every_matching_message(
    query: str, root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = _walk(root, f"/api/messages/?limit=200&{query}")
    assert whole
    monkeypatch.setattr(pages, "WINDOW", 3)
    found, last = _walk(root, f"/api/messages/?limit=2&{query}")
    assert found == whole
    back, _ = _walk(root, last, "previous")
    assert sorted(back, reverse=True) == whole


@pytest.mark.parametrize("query", ["direction=out", "outcome=ok&direction=out", "until=2030-01-01T00:00:00Z"])
def test_unindexed_filter_examines_a_bounded_window(
    query: str, root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "WINDOW", 5)
    with CaptureQueriesContext(connection) as captured:
        root.get(f"/api/messages/?{query}")
    edge, page, *_ = [each["sql"] for each in captured if 'FROM "mcp_app_message"' in each["sql"]]
    assert "LIMIT 5" in edge
    assert '"id" >= ' in page


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("method=initialize", 1),
        ("outcome=tool_error", 1),
        ("direction=out", 1),
        ("target=web_scrape", 1),
        ("request_id=63", 1),
        (f"session={0:032x}&method=tools/call&outcome=error", 1),
        ("session=nobody", 0),
        ("since=2026-11-20T12:01:00Z&until=2026-11-20T12:01:01Z", 2),
    ],
)
def test_messages_are_filtered(query: str, count: int, root: Client, seeded: Seed) -> None:
    assert len(root.get(f"/api/messages/?{query}").json()["results"]) == count


@pytest.mark.parametrize(
    ("address", "count"),
    [
        ("sessions/?state=open", 2),
        ("sessions/?state=idle", 0),
        ("sessions/?state=ended", 2),
        ("sessions/?version=2025-06-18", 1),
        ("sessions/?client=claude-code", 1),
        ("calls/?state=open", 5),
        ("calls/?state=running", 2),
        ("calls/?tool=burn", 1),
        ("calls/?outcome=error", 1),
        ("calls/?session=gone-session", 1),
        ("keys/?state=revoked", 1),
        ("keys/?state=expired", 0),
        ("keys/?user=viewer", 2),
        ("audit/?action=api_key.revoke", 1),
        ("audit/?actor=root&object_kind=api_key", 4),
    ],
)
def test_other_lists_are_filtered(address: str, count: int, root: Client, seeded: Seed) -> None:
    assert len(root.get(f"/api/{address}").json()["results"]) == count


def test_silent_session_is_idle(root: Client, seeded: Seed) -> None:
    Session.objects.filter(pk=seeded.session.pk).update(last_seen_at=timezone.now() - timedelta(days=1))
    assert [row["id"] for row in root.get("/api/sessions/?state=idle").json()["results"]] == [
        seeded.session.pk
    ]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "limit=x",
        "limit=²",
        "limit=-1",
        "cursor=x",
        "cursor=cD1hYmM%3D",
        "cursor=cD05OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk%3D",
        "cursor=bz0xMDAwMDAw%FF",
        "since=yesterday",
        "outcome=perhaps",
        "direction=sideways",
        "session=" + "x" * 65,
        "method=a%00b",
        "offset=3",
        "ordering=payload",
        "session__fields=x",
    ],
)
def test_invalid_query_is_refused(query: str, root: Client, seeded: Seed) -> None:
    answer = root.get(f"/api/messages/?{query}")
    assert answer.status_code == 400, answer.content
    assert answer.json()["errors"]


@pytest.mark.parametrize("field", ["accepted_at", "created_at"])
def test_cursor_of_a_time_list_must_be_a_time(field: str, root: Client, seeded: Seed) -> None:
    from base64 import b64encode

    kind = "calls" if field == "accepted_at" else "sessions"
    for position in ("yesterday", "0000-00-00", "99999-01-01", "'"):
        cursor = quote(b64encode(f"p={quote(position)}".encode()).decode())
        assert root.get(f"/api/{kind}/?cursor={cursor}").status_code == 400, position
    cursor = quote(b64encode(f"p={quote(str(datetime(2026, 1, 1, tzinfo=UTC)))}".encode()).decode())
    assert root.get(f"/api/{kind}/?cursor={cursor}").status_code == 200


def test_message_detail_has_the_payload_and_the_list_does_not(root: Client, seeded: Seed) -> None:
    assert "payload" not in root.get("/api/messages/").json()["results"][0]
    shown = root.get(f"/api/messages/{seeded.hostile_message.pk}/").json()
    assert shown["payload"] == seeded.hostile_message.payload
    assert shown["answer"] == seeded.hostile_message.answer


def test_message_detail_has_the_exception_behind_its_incident(root: Client, seeded: Seed) -> None:
    frame = {
        "file": "shop/mcp.py", "line": 42, "function": "ship", "module": "shop.mcp", "own": True,
        "offset": 2, "omitted": 0,
    }  # fmt: skip
    raised = {"type": "ValueError", "message": "no such order \u202e", "frames": [frame]}
    Message.objects.filter(pk=seeded.message.pk).update(incident="1f2e3d4c", exception=json.dumps(raised))
    found = root.get("/api/messages/?incident=1f2e3d4c").json()["results"]
    assert [(each["id"], each["incident"]) for each in found] == [(seeded.message.pk, "1f2e3d4c")]
    assert "exception" not in found[0]
    answer = root.get(f"/api/messages/{seeded.message.pk}/")
    shown = answer.json()["exception"]
    assert shown == {**raised, "frames": [{name: frame[name] for name in frame if name != "offset"}]}
    assert "\u202e" not in answer.content.decode()
    assert root.get(f"/api/messages/{seeded.hostile_message.pk}/").json()["exception"] is None


def test_audit_event_detail_is_returned(root: Client, seeded: Seed) -> None:
    event = AuditEvent.objects.filter(action="api_key.revoke").get()
    shown = root.get(f"/api/audit/{event.pk}/").json()
    assert (shown["actor"], shown["object_key"]) == ("root", event.object_key)
