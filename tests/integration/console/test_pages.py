"""The console's pages, their data and the actions of operators, for every kind of user (S22, S11)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
import redis
from django.db import connection
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from mcp_app.console import history
from mcp_app.console.detail import running_calls
from mcp_app.console.download import record
from mcp_app.message_log.writer import drain_once
from mcp_app.models import AuditEvent, Call, LogCursor, Message, Session
from mcp_app.streams.connections.keys import MESSAGES
from mcp_app.streams.stores.message_queue import SyncMessageQueue
from tests.samples.admin_seed import ALL_HOSTILE, HOSTILE, RAW_HIDDEN, RAW_MARKUP, Seed, background_call, call
from tests.unit.console.lines import encoded, fields

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]
LOG, SESSIONS = (reverse(f"admin:mcp_app_{model}_changelist") for model in ("message", "session"))
LINES, ONE, DOWNLOAD = (reverse(f"mcp_console:{name}") for name in ("lines", "message", "download"))


@pytest.fixture
def root(seeded: Seed) -> Client:
    return _client(seeded.root)


def _client(user: Any) -> Client:
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return client


def _pages(session: Session) -> dict[str, str]:
    """Return each address with the permissions it needs."""
    return {
        f"{LOG}?live=1": "message",
        f"{SESSIONS}?live=1": "session",
        reverse("mcp_console:sessions_now"): "session",
        LINES: "message",
        f"{ONE}?key={Message.objects.latest('pk').pk}": "message",
        reverse("mcp_console:incident", args=["1f2e3d4c"]): "message",
        reverse("mcp_console:session", args=[session.pk]): "message session",
        reverse("mcp_console:session_now", args=[session.pk]): "message session",
    }


def _lines(client: Client, **query: Any) -> dict[str, Any]:
    answer = client.get(LINES, query)
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = json.loads(answer.content)
    return found


def _ids(client: Client, **query: Any) -> list[str]:
    return [row["id"] for row in _lines(client, **query)["rows"]]


# Permissions


@pytest.mark.parametrize("held", ["session message", "session", "message", ""])
def test_console_pages_require_their_permissions(held: str, seeded: Seed) -> None:
    names = [f"view_{model}" for model in held.split()]
    every = seeded.viewer.user_permissions.all()
    seeded.viewer.user_permissions.set(every.filter(codename__in=names))
    client = _client(seeded.viewer)
    for address, needed in _pages(seeded.session).items():
        allowed = set(needed.split()) <= set(held.split())
        assert client.get(address).status_code == (200 if allowed else 403), address


def test_anonymous_requests_redirect_to_login(client: Client, seeded: Seed) -> None:
    former = [reverse("mcp_console:sessions"), reverse("mcp_console:messages")]
    for address in [*_pages(seeded.session), *former, f"{DOWNLOAD}?form=jsonl"]:
        answer = client.get(address)
        assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/admin/login/"), address


@pytest.mark.parametrize(
    ("address", "title"),
    [
        (LOG, "Log"),
        (f"{LOG}?live=1", "Log"),
        (SESSIONS, "Sessions"),
        (f"{SESSIONS}?live=1", "Sessions"),
        ("session", "Sessions"),
    ],
)
def test_sidebar_marks_only_the_current_page(address: str, title: str, root: Client, seeded: Seed) -> None:
    if address == "session":
        address = reverse("mcp_console:session", args=[seeded.session.pk])
    answer = root.get(address)
    items = [item for group in answer.context["sidebar_navigation"] for item in group["items"]]
    assert [item["title"] for item in items if item["active"]] == [title]


@pytest.mark.parametrize(
    ("name", "query", "expected"),
    [
        ("messages", "", {"live": ["1"]}),
        (
            "messages",
            "search=tool%3Aecho+a%26b&dir=in&method=ping&message=12&other=1",
            {
                "live": ["1"],
                "q": ["tool:echo a&b"],
                "direction": ["in"],
                "method": ["ping"],
                "message": ["12"],
            },
        ),
        ("sessions", "", {"live": ["1"]}),
    ],
)
def test_former_address_redirects_with_its_search(
    name: str, query: str, expected: dict[str, list[str]], root: Client
) -> None:
    answer = root.get(f"{reverse(f'mcp_console:{name}')}?{query}")
    page, _, asked = answer.headers["Location"].partition("?")
    assert (answer.status_code, page) == (302, LOG if name == "messages" else SESSIONS)
    assert parse_qs(asked) == expected
    assert root.get(answer.headers["Location"]).status_code == 200


@pytest.mark.parametrize("model", ["message", "session"])
def test_switch_keeps_the_filters(model: str, root: Client, seeded: Seed) -> None:
    page = LOG if model == "message" else SESSIONS
    for live in ("", "&live=1"):
        answer = root.get(f"{page}?q=claude{live}")
        assert 'role="switch"' in answer.content.decode()
        assert f'aria-checked="{"true" if live else "false"}"' in answer.content.decode()
        assert re.search(r'name="q"[^>]*value="claude"|value="claude"[^>]*name="q"', answer.content.decode())
        assert ("mcp-connection" in answer.content.decode()) is bool(live)


def test_log_without_the_console_has_no_switch(root: Client, seeded: Seed) -> None:
    viewer = _client(seeded.viewer)
    seeded.viewer.user_permissions.set(seeded.viewer.user_permissions.filter(codename="view_message"))
    assert 'role="switch"' in viewer.get(LOG).content.decode()
    assert viewer.get(f"{SESSIONS}?live=1").status_code == 403


def test_viewers_get_no_action_buttons_and_cannot_act(seeded: Seed) -> None:
    client = _client(seeded.viewer)
    page = client.get(reverse("mcp_console:session", args=[seeded.session.pk])).content.decode()
    assert "data-cancel" not in page
    assert "mcp-end" not in page
    end, cancel = (reverse(f"mcp_console:{name}", args=[seeded.session.pk]) for name in ("end", "cancel"))
    assert client.post(end).status_code == 403
    assert client.post(cancel, {"request": "4"}).status_code == 403
    assert Session.objects.get(pk=seeded.session.pk).ended_at is None


def test_actions_require_post_and_csrf_token(seeded: Seed) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(seeded.root, "django.contrib.auth.backends.ModelBackend")
    for name in ("end", "cancel"):
        address = reverse(f"mcp_console:{name}", args=[seeded.session.pk])
        assert strict.post(address, {"request": "4"}).status_code == 403
        assert strict.get(address).status_code == 405


# Contents


def test_lines_of_several_processes_are_ordered_by_time(root: Client, seeded: Seed) -> None:
    for number in (902, 904, 901, 903):
        call(seeded.session, number)
    shown = [each for each in _ids(root, session=seeded.session.pk) if each.startswith("90")]
    assert shown == ["901", "902", "903", "904"]


def test_console_escapes_stored_text_and_hidden_characters(root: Client, seeded: Seed) -> None:
    newest = Message.objects.latest("pk").pk
    call(
        seeded.hostile_session, 103, payload=json.dumps(HOSTILE, ensure_ascii=False), target=ALL_HOSTILE[:200]
    )
    for message in Message.objects.filter(pk__gte=newest):
        answer = root.get(ONE, {"key": message.pk})
        assert answer["Content-Type"] == "application/json"
        assert not set(json.dumps(json.loads(answer.content), ensure_ascii=False)) & set(RAW_HIDDEN)
    for address in (*_pages(seeded.session), *_pages(seeded.hostile_session)):
        answer = root.get(address)
        text = answer.content.decode()
        assert not set(text) & set(RAW_HIDDEN), address
        if "text/html" in answer["Content-Type"]:
            assert not [raw for raw in RAW_MARKUP if raw in text], address


def test_session_list_shows_client_user_address_and_calls(root: Client, seeded: Seed) -> None:
    before = len(running_calls(seeded.session.pk))
    background_call(seeded.session.pk, 40, state="running", finished_at=None)
    rows = json.loads(root.get(reverse("mcp_console:sessions_now")).content)["rows"]
    found = {row["id"]: row for row in rows}[seeded.session.pk]
    assert (found["client"], found["version"]) == ("claude-code 2.1.0", "2025-11-25")
    assert (found["who"], found["address"]) == (seeded.session.principal, "127.0.0.1")
    assert found["calls"] == before + 1 >= 3


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"search": "claude"}, True),
        ({"search": "claude nobody"}, False),
        ({"search": "127.0.0.1"}, True),
        ({"search": "2025-11-25"}, True),
        ({"state": "ended"}, False),
        ({"state": "idle"}, False),
    ],
)
def test_session_list_searches_and_filters(
    query: dict[str, str], found: bool, root: Client, seeded: Seed
) -> None:
    rows = json.loads(root.get(reverse("mcp_console:sessions_now"), query).content)["rows"]
    assert (seeded.session.pk in [row["id"] for row in rows]) is found


def test_missing_session_returns_404_in_the_frame(root: Client) -> None:
    answer = root.get(reverse("mcp_console:session", args=["nope"]))
    text = answer.content.decode()
    assert answer.status_code == 404
    assert "No such session" in text
    assert f'href="{reverse("admin:mcp_app_session_changelist")}?state=ended"' in text
    assert 'action="/admin/logout/"' in text
    assert "mcp-connection" not in text


def test_ended_session_is_not_live(root: Client, seeded: Seed) -> None:
    address = reverse("mcp_console:session", args=[seeded.session.pk])
    assert "data-ended" not in root.get(address).content.decode()
    root.post(reverse("mcp_console:end", args=[seeded.session.pk]))
    text = root.get(address).content.decode()
    assert " data-ended>" in text
    assert 'role="status">ended</span>' in text


def test_unstored_session_has_a_page(root: Client, clean_redis: str, queue: SyncMessageQueue) -> None:
    _push(clean_redis, 1, session="just-opened")
    answer = root.get(reverse("mcp_console:session", args=["just-opened"]))
    assert 'id="mcp-state">not stored yet<' in answer.content.decode()
    now = json.loads(root.get(reverse("mcp_console:session_now", args=["just-opened"])).content)
    assert now == {"session": None, "calls": []}


def test_session_that_is_stored_during_the_request_has_a_page(root: Client, clean_redis: str) -> None:
    def store(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        # The queue is read after the table. By then the session is stored, and the cursor is behind it.
        if "mcp_app_logcursor" in sql:
            now = timezone.now()
            Session.objects.get_or_create(
                pk="just-stored", defaults={"principal": "p", "created_at": now, "last_seen_at": now}
            )
        return execute(sql, params, many, context)

    with connection.execute_wrapper(store), override_settings(MCP={"REDIS_URL": clean_redis}):
        answer = root.get(reverse("mcp_console:session", args=["just-stored"]))
    assert answer.status_code == 200
    assert 'id="mcp-state">open<' in answer.content.decode()


def test_history_is_paginated_and_searched(root: Client, seeded: Seed, monkeypatch: Any) -> None:
    monkeypatch.setattr(history, "PAGE", 40)
    first = _lines(root, session=seeded.session.pk)
    assert [row["id"] for row in first["rows"]][-1] == "63"
    assert len(first["rows"]) == 40
    second = _lines(root, session=seeded.session.pk, before=first["older"])
    assert [row["id"] for row in second["rows"]] == [str(number) for number in range(1, 24)]
    assert second["older"] is None
    assert _ids(root, search="status:error", session=seeded.session.pk) == ["60", "61"]
    assert _lines(root, search="tol:x")["problems"][0].startswith("Unknown search term")


def test_text_search_examines_a_bounded_window_and_continues(
    root: Client, seeded: Seed, monkeypatch: Any
) -> None:
    monkeypatch.setattr(history, "LOOKED_AT", 10)
    first = _lines(root, session=seeded.session.pk, search="initialize")
    assert first["rows"] == []
    found, older, pages = [], first["older"], 1
    while older is not None and not found:
        page = _lines(root, session=seeded.session.pk, search="initialize", before=older)
        found, older, pages = page["rows"], page["older"], pages + 1
    assert [row["id"] for row in found] == ["1"]
    assert pages > 5


def test_link_to_a_message_shows_its_neighbours(root: Client, seeded: Seed, monkeypatch: Any) -> None:
    monkeypatch.setattr(history, "EITHER_SIDE", 2)
    middle = Message.objects.get(request_id="30")
    found = _lines(root, session=seeded.session.pk, around=middle.pk)
    assert [row["id"] for row in found["rows"]] == ["28", "29", "30", "31", "32"]
    assert found["newer"]
    assert _ids(root, session=seeded.session.pk, before=found["older"])[-1] == "27"
    for key in ("9999999", "x", "1.1-1-1", f"{10**18 - 1}.1-1-1", str(seeded.hostile_message.pk)):
        assert _lines(root, session=seeded.session.pk, around=key) == {"missing": True}, key


def test_message_detail_includes_related_messages(root: Client, seeded: Seed) -> None:
    session = seeded.session
    call(
        session, 70, kind="running", request_id="r", answer="", outcome="", payload='{"id":"r","method":"x"}'
    )
    call(session, 71, kind="notification", direction="out", method="notifications/progress", request_id="r")
    found = json.loads(root.get(ONE, {"key": Message.objects.get(kind="running").pk}).content)
    assert found["request"] == '"r"'
    assert [row["method"] for row in found["related"]] == ["notifications/progress"]
    assert found["links"]["session"] == reverse("mcp_console:session", args=[session.pk])
    call(session, 72, request_id="r", payload='{"password": "[redacted]"}')
    answered = json.loads(root.get(ONE, {"key": Message.objects.get(kind="running").pk}).content)
    assert answered["request"] is None  # The request has finished: it cannot be cancelled.
    assert answered["related"][1]["redacted"]
    assert root.get(ONE, {"key": "nothing"}).status_code == 404


# Messages not stored yet


@pytest.fixture
def queue(clean_redis: str) -> Iterator[SyncMessageQueue]:
    from mcpsite.settings import MCP

    with override_settings(MCP={**MCP, "REDIS_URL": clean_redis}):
        made = SyncMessageQueue(clean_redis)
        yield made
        made.close()


def _push(clean_redis: str, *numbers: int, before: int = 0, session: str = "s") -> None:
    batch = encoded(*(fields(session=session, request_id=f"q{number}") for number in numbers), before=before)
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        client.xadd(MESSAGES, {"b": batch})


def test_history_joins_stored_and_pending_messages_without_gaps(
    root: Client, clean_redis: str, queue: SyncMessageQueue
) -> None:
    _push(clean_redis, 1, 2)
    drain_once(queue)
    _push(clean_redis, 3, before=2)
    _push(clean_redis, 4, 5, before=3)
    expected = ["q1", "q2", "q3", "q4", "q5"]
    assert _ids(root, session="s") == expected
    # Written and not trimmed, as if the worker died in between.
    entries = queue.newest(10)
    drain_once(queue)
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        client.delete(MESSAGES)
        for entry_id, batch in entries:
            client.xadd(MESSAGES, {"b": batch}, id=entry_id)
    assert _ids(root, session="s") == expected
    LogCursor.objects.update(last_id="0-0")  # And as if the cursor had been read earlier.
    found = _lines(root, session="s")["rows"]
    assert [row["id"] for row in found] == expected
    assert len({row["key"] for row in found}) == 5


def test_unstored_answer_replaces_its_mark(root: Client, clean_redis: str, queue: SyncMessageQueue) -> None:
    def push(*lines: Any) -> None:
        with redis.Redis.from_url(clean_redis, protocol=2) as client:
            client.xadd(MESSAGES, {"b": encoded(*lines)})

    running = {"kind": "running", "ms": None, "outcome": "", "answer": ""}
    push(fields(request_id="r", **running), fields(request_id="s", **running))
    drain_once(queue)
    assert _ids(root, search="kind:running") == ["r", "s"]
    push(fields(request_id="r", at=1_790_000_003.0, ms=2_800.0))
    assert _ids(root, search="kind:running") == ["s"]
    assert [(row["id"], row["kind"]) for row in _lines(root, session="s")["rows"]] == [
        ("s", "running"), ("r", "request"),
    ]  # fmt: skip
    drain_once(queue)
    assert _ids(root, search="kind:running") == ["s"]
    assert len(_ids(root, session="s")) == 2


def test_message_key_is_stable_across_storing(
    root: Client, clean_redis: str, queue: SyncMessageQueue
) -> None:
    _push(clean_redis, 1, 2)
    before = _lines(root, session="s")["rows"][1]
    shown = json.loads(root.get(ONE, {"key": before["key"]}).content)
    assert (shown["row"]["id"], shown["links"]["admin"]) == ("q2", None)
    assert _lines(root, around=before["key"]) == {"missing": True}
    drain_once(queue)
    after = _lines(root, session="s")["rows"][1]
    assert after == before
    shown = json.loads(root.get(ONE, {"key": before["key"]}).content)
    assert shown["links"]["admin"] is not None
    assert _ids(root, session="s", around=before["key"]) == ["q1", "q2"]


def test_message_key_keeps_microseconds_across_storing(
    root: Client, clean_redis: str, queue: SyncMessageQueue
) -> None:
    moments = [1_790_000_000 + number / 1_000_003 for number in range(200)]
    batch = encoded(*(fields(at=at, request_id=str(at)) for at in moments))
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        client.xadd(MESSAGES, {"b": batch})
    before = [row["key"] for row in _lines(root, session="s")["rows"]]
    drain_once(queue)
    assert [row["key"] for row in _lines(root, session="s")["rows"]] == before
    assert all(history.stored(key) is not None for key in before)


RAISED = {
    "type": "ValueError",
    "message": "no such customer \u202e",
    "frames": [
        {"file": "ops/mcp.py", "line": 42, "function": "customer", "module": "ops.mcp", "own": True,
         "offset": 3, "omitted": 0}
    ],
}  # fmt: skip


def test_exception_is_shown_before_and_after_it_is_stored(
    root: Client, clean_redis: str, queue: SyncMessageQueue
) -> None:
    address = reverse("mcp_console:incident", args=["1f2e3d4c"])
    assert root.get(address).json() == {"text": ""}
    told = [[1, "1f2e3d4c", json.dumps(RAISED)]]
    batch = encoded(fields(), fields(request_id="2", outcome="tool_error"), incidents=told)
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        client.xadd(MESSAGES, {"b": batch})
    texts = []
    for _ in range(2):
        (row,) = _lines(root, session="s", search="incident:1f2e3d4c")["rows"]
        assert row["id"] == "2"
        first, *_ = root.get(ONE, {"key": row["key"]}).json()["blocks"]
        assert first["title"] == "Exception"
        texts += [first["text"], root.get(address).json()["text"]]
        drain_once(queue)
    assert len(set(texts)) == 1
    assert texts[0].startswith(
        "ValueError: no such customer \N{MATHEMATICAL LEFT WHITE SQUARE BRACKET}U+202E"
    )
    assert "ops/mcp.py:42 in customer" in texts[0]
    line = history.find(row["key"])
    assert line is not None
    assert (record(line)["incident"], record(line)["exception"]) == ("1f2e3d4c", RAISED)


# Downloads


def test_download_with_unknown_format_or_invalid_search_is_refused(root: Client) -> None:
    assert root.get(DOWNLOAD, {"form": "exe"}).status_code == 400
    answer = root.get(DOWNLOAD, {"form": "har", "search": "tol:x"})
    assert (answer.status_code, b"Unknown search term" in answer.content) == (400, True)


# Actions of operators


def test_background_call_is_cancelled_once_and_audited(root: Client, seeded: Seed) -> None:
    address = reverse("mcp_console:cancel", args=[seeded.session.pk])
    waiting = seeded.waiting_call
    Call.objects.filter(pk=waiting.pk).update(request_key=_key(5))
    notes = [json.loads(root.post(address, {"request": "5"}).content)["note"] for _ in range(2)]
    assert notes == ["The call is being cancelled.", "The call has already finished."]
    assert Call.objects.get(pk=waiting.pk).state == "cancelled"
    assert AuditEvent.objects.get(action="call.stop").actor == seeded.root


def test_cancelling_a_request_of_a_web_process_is_audited(root: Client, seeded: Seed) -> None:
    address = reverse("mcp_console:cancel", args=[seeded.session.pk])
    assert root.post(address, {"request": '"abc"'}).status_code == 200
    event = AuditEvent.objects.get(action="request.stop")
    assert (event.actor, event.detail["request_id"]) == (seeded.root, "abc")


@pytest.mark.parametrize("request_id", ["", "{}", "[1]", "null", "true", "1.5", "x"])
def test_invalid_request_id_cancels_nothing(request_id: str, root: Client, seeded: Seed) -> None:
    address = reverse("mcp_console:cancel", args=[seeded.session.pk])
    assert root.post(address, {"request": request_id}).status_code == 400


@pytest.mark.parametrize("place", ["", "now.json", "cancel/", "end/"])
@pytest.mark.parametrize("written", ["%0a", "a%0ab", "%0d%0aX", "%00", "%7f"])
def test_impossible_session_id_returns_404(place: str, written: str, root: Client, seeded: Seed) -> None:
    for ask in (root.get, root.post):
        assert ask(f"/console/sessions/{written}/{place}").status_code == 404


def test_session_is_ended_from_its_page(root: Client, seeded: Seed) -> None:
    address = reverse("mcp_console:end", args=[seeded.session.pk])
    notes = [json.loads(root.post(address).content)["note"] for _ in range(2)]
    assert notes == ["The session was ended.", "The session had already ended."]
    assert root.post(reverse("mcp_console:end", args=["unknown"])).status_code == 404
    assert "data-end" in root.get(reverse("mcp_console:session", args=[seeded.session.pk])).content.decode()


def test_page_of_an_unstored_session_has_a_hidden_end_button(
    root: Client, seeded: Seed, clean_redis: str, queue: SyncMessageQueue
) -> None:
    _push(clean_redis, 1, session="n" * 32)
    early = root.get(reverse("mcp_console:session", args=["n" * 32])).content.decode()
    assert "<span data-ending hidden>" in early
    stored = reverse("mcp_console:session", args=[seeded.session.pk])
    assert "<span data-ending>" in root.get(stored).content.decode()
    looker = _client(seeded.viewer)
    for address in (stored, reverse("mcp_console:session", args=["n" * 32])):
        assert "data-ending" not in looker.get(address).content.decode()


def test_admin_session_page_links_the_console(root: Client, seeded: Seed) -> None:
    page = root.get(reverse("admin:mcp_app_session_change", args=[seeded.session.pk])).content.decode()
    assert reverse("mcp_console:session", args=[seeded.session.pk]) in page
    for name in ("sessions", "messages"):
        assert reverse(f"mcp_console:{name}") in page


def _key(request_id: int) -> str:
    from mcp_app.execution.stored.records import request_key

    return request_key(request_id)


def test_nul_in_a_search_is_ignored(root: Client, seeded: Seed) -> None:
    """PostgreSQL refuses NUL in text."""
    session = seeded.session.pk
    assert _lines(root, session=f"{session}\0", search="to\0ol:echo")["rows"]
    rows = root.get(reverse("mcp_console:sessions_now"), {"search": f"{session}\0", "state": "any"}).json()
    assert [row["id"] for row in rows["rows"]] == [session]


def test_live_page_and_record_of_a_session_have_one_title(root: Client, seeded: Seed) -> None:
    pages = ("mcp_console:session", "admin:mcp_app_session_change")
    titles = [root.get(reverse(page, args=[seeded.session.pk])).context["title"] for page in pages]
    assert titles[0].startswith("Session of ")
    assert titles[0] == titles[1]
