"""Error groups on their pages and on the dashboard, for users who may read messages."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app.admin.figures import errors
from mcp_app.admin.verdict import NAMED_ERRORS
from mcp_app.database import clock as database_clock
from mcp_app.message_log.writer import drain_once
from mcp_app.models import Call, ErrorGroup, LogCursor, Message, Session, Tool
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import ALL_HOSTILE, RAW_MARKUP, Seed, background_call
from tests.unit.sessions.queues import ListQueue, batch, line

pytestmark = pytest.mark.postgres


def drain(*lines: list[Any]) -> None:
    LogCursor.objects.all().delete()
    queue: Any = ListQueue(batch(*lines))
    drain_once(queue)


def failed(text: str, **more: Any) -> list[Any]:
    answer = json.dumps({"result": {"content": [{"type": "text", "text": text}], "isError": True}})
    return line("1", outcome="tool_error", answer=answer, **more)


def groups(client: Client, **asked: str) -> list[tuple[str, str, int, bool]]:
    answer = client.get(page("message", "errors"), asked)
    assert answer.status_code == 200
    return [(g.name, g.row.words, g.row.count, g.is_new) for g in answer.context["errors"].groups]


def tasks(client: Client) -> dict[str, str]:
    found = client.get(page("message", "dashboard")).context["dashboard"]
    return {reason.text: reason.url for reason in found.verdict.tasks}


def test_error_list_shows_new_groups_and_all_on_request(root: Client, seeded: Seed) -> None:
    old = time.time() - 2 * 86_400
    drain(*[failed(f"Shelf {at} is full", at=old) for at in range(3)], failed("No such order", target="ship"))
    assert groups(root) == [("ship", "No such order", 1, True)]
    new, former = ("ship", "No such order", 1, True), ("echo", "Shelf … is full", 3, False)
    assert groups(root, show="all") == [new, former]
    assert groups(root, show="all", order="count") == [former, new]
    assert groups(root, show="all", order="nonsense") == [new, former]


def test_error_group_shows_the_newest_example(root: Client, seeded: Seed) -> None:
    drain(
        *[failed(f"Shelf {at} is full\nTry another") for at in range(3)],
        failed("No such order", target="ship"),
    )
    shown = {g.name: g for g in root.get(page("message", "errors")).context["errors"].groups}
    assert (shown["echo"].example, shown["ship"].example) == ("Shelf 2 is full", "")
    assert "Shelf 2 is full" in root.get(page("message", "errors")).content.decode()
    assert "New error in echo, 3 times since yesterday: Shelf 2 is full" in tasks(root)


def test_error_list_is_paginated(root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "PAGE", 2)
    drain(*[failed(words, target=f"tool{at}") for at, words in enumerate(["one", "two", "three"])])
    pages = [groups(root, p=str(number)) for number in (1, 2, 3)]
    assert [len(each) for each in pages] == [2, 1, 0]
    assert len({each for found in pages for each in found}) == 3
    first = root.get(page("message", "errors")).context["errors"]
    assert (first.earlier, groups(root, p="nonsense")) == ("", pages[0])
    assert root.get(page("message", "errors") + first.later).context["errors"].later == ""


def test_error_group_page_shows_counts_chart_and_messages(root: Client, seeded: Seed) -> None:
    drain(*[failed(f"Shelf {at} is full") for at in range(12)], failed("Something else"), line("2"))
    group = ErrorGroup.objects.get(words="Shelf … is full")
    answer = root.get(page("message", "error", group.pk))
    shown = answer.context["error"]
    assert shown.group.row.count == 12
    newest = Message.objects.filter(answer__contains="Shelf").order_by("-pk").values_list("pk", flat=True)
    assert [row.message.pk for row in shown.messages] == list(newest[:10])
    assert sum(int(row[1]) for row in shown.chart.rows) == 12
    assert "Shelf 11 is full" in answer.content.decode()
    assert root.get(shown.log_url).status_code == 200


def test_missing_error_group_redirects_to_the_list(root: Client, seeded: Seed) -> None:
    answer = root.get(page("message", "error", "0" * 32))
    assert (answer.status_code, answer["Location"]) == (302, page("message", "errors"))


def test_errors_require_the_message_permission(client_of: ClientOf, client: Client, seeded: Seed) -> None:
    drain(failed("No such order"))
    for address in (page("message", "errors"), page("message", "error", ErrorGroup.objects.get().pk)):
        assert client.get(address).status_code == 302
        assert client_of("outsider").get(address).status_code == 403
        assert client_of("viewer").get(address).status_code == 200
    allowed = seeded.viewer.user_permissions.filter(codename="view_call")
    seeded.viewer.user_permissions.set(allowed)
    assert not [text for text in tasks(client_of("viewer")) if "error" in text]


def test_error_list_sorts_by_last_minute_then_frequency(root: Client, seeded: Seed) -> None:
    now = time.time() // 60 * 60 + 30
    seen = {
        "once": [1_200],
        "again": [1_800, 1_260, 20],
        "this minute": [5],
        "often": [86_400 * 2, 60, 30, 9],
    }
    drain(*[failed(words, at=now - ago) for words, times in seen.items() for ago in times])
    names = [words for _, words, _, _ in groups(root, show="all")]
    assert names == ["often", "again", "this minute", "once"]
    assert names == [words for _, words, _, _ in groups(root, show="all", order="last")]
    first = [words for _, words, _, _ in groups(root, show="all", order="first")]
    assert first == ["this minute", "once", "again", "often"]
    shown = root.get(page("message", "errors")).context["errors"].orders
    assert [each.title for each in shown if each.chosen] == ["Last seen"]


def test_dashboard_names_most_frequent_errors_and_counts_others(root: Client, seeded: Seed) -> None:
    now = time.time()
    words = ["one thing", "two things", "some things", "other things", "more things"]
    often = [failed("more things", at=now - 4_000), *[failed("other things", at=now - 900)] * 2]
    drain(*[failed(each, at=now - 100 * at) for at, each in enumerate(words)], *often)
    found = {text: url for text, url in tasks(root).items() if "error" in text.lower()}
    assert list(found) == [
        "New error in echo, 3 times since yesterday: other things",
        "New error in echo, 2 times since yesterday: more things",
        "New error in echo, once since yesterday: one thing",
        "2 more errors are new since yesterday, none more frequent",
    ]
    assert len(found) == NAMED_ERRORS + 1
    assert [root.get(url).status_code for url in found.values()] == [200] * 4


def test_error_pages_escape_hostile_text(root: Client, seeded: Seed) -> None:
    # The message log truncates a target to the length of its column.
    drain(failed(ALL_HOSTILE, target=ALL_HOSTILE[:200]))
    group = ErrorGroup.objects.get()
    for address in (
        page("message", "errors"),
        page("message", "error", group.pk),
        page("message", "dashboard"),
    ):
        text = root.get(address).content.decode()
        assert not [raw for raw in RAW_MARKUP if raw in text], address
        assert "\u202e" not in text


def test_error_list_query_count_is_constant(root: Client, seeded: Seed) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            groups(root)
        return len(captured)

    drain(failed("first"))
    before = queries()
    drain(*[failed("of a tool", target=f"tool-{letter}") for letter in "abcdefghijklmnop"])
    assert queries() == before


def test_stale_background_calls_are_tasks(root: Client, seeded: Seed) -> None:
    Call.objects.all().delete()
    now = timezone.now()
    background_call("s", 1, state="running", lease_until=database_clock.lease(-300), accepted_at=now)
    # As a worker writes it; on SQLite leases use another clock than all other times.
    background_call("s", 2, state="running", lease_until=database_clock.lease(20), accepted_at=now)
    for number in (3, 4):
        background_call("s", number, state="accepted", accepted_at=now - timedelta(minutes=20))
    background_call("s", 5, state="accepted", accepted_at=now)
    found = [text for text in tasks(root) if "worker" in text]
    assert found == [
        "1 running call lost the worker and did not end", "2 calls have waited 15 minutes for a worker",
    ]  # fmt: skip


def test_first_steps_disappear_when_done(root: Client, seeded: Seed) -> None:
    def steps() -> list[str]:
        found = root.get(page("message", "dashboard")).context["dashboard"].first_steps
        assert [root.get(step.url).status_code for step in found] == [200] * len(found)
        return [step.text.partition(":")[0] for step in found]

    assert steps() == []
    Session.objects.all().delete()
    assert steps() == ["Connect a client"]
    Tool.objects.update(enabled=False)
    assert steps() == ["Add a tool", "Connect a client"]
    assert "First steps" in root.get("/admin/").content.decode()
