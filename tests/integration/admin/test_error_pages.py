"""Error groups on their pages and on the dashboard, for users who may read messages."""

from __future__ import annotations

import json
import re
import time
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app.admin.figures import errors
from mcp_app.admin.verdict import NAMED_ERRORS
from mcp_app.database import clock as database_clock
from mcp_app.message_log.writer import drain_once
from mcp_app.models import Call, ErrorGroup, LogCursor, Message, Rollup, Session, Tool, Triage
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import ALL_HOSTILE, RAW_MARKUP, Seed, background_call
from tests.unit.sessions.queues import ListQueue, batch, line

# The number of members of a line. A further one is the exception of a crash.
MEMBERS = len(line())

pytestmark = pytest.mark.postgres


def drain(*lines: list[Any]) -> None:
    LogCursor.objects.all().delete()
    made = orjson.loads(batch(*[line[:MEMBERS] for line in lines]))
    made["incidents"] = [
        [at, f"{at:08x}", line[MEMBERS]] for at, line in enumerate(lines) if len(line) > MEMBERS
    ]
    queue: Any = ListQueue(orjson.dumps(made))
    drain_once(queue)


def failed(text: str, **more: Any) -> list[Any]:
    answer = json.dumps({"result": {"content": [{"type": "text", "text": text}], "isError": True}})
    return line("1", outcome="tool_error", answer=answer, **more)


def groups(client: Client, **asked: str) -> list[tuple[str, str, int, bool]]:
    answer = client.get(page("message", "errors"), asked)
    assert answer.status_code == 200
    return [(g.name, g.row.words, g.row.count, g.is_new) for g in answer.context["errors"].groups]


def crashed(kind: str, message: str = "", **more: Any) -> list[Any]:
    """Return a line whose exception ``drain`` adds to its batch."""
    text = "The tool failed unexpectedly (incident 1f2e3d4c)."
    frames = [
        {"file": "ops/mcp.py", "line": 42, "function": "customer", "module": "ops.mcp", "own": True,
         "offset": 3, "omitted": 0}
    ]  # fmt: skip
    return [*failed(text, **more), json.dumps({"type": kind, "message": message, "frames": frames})]


def tasks(client: Client) -> dict[str, str]:
    found = client.get(page("message", "dashboard")).context["dashboard"]
    return {reason.text: reason.url for reason in found.verdict.tasks}


def test_error_list_shows_new_groups_and_all_on_request(root: Client, seeded: Seed) -> None:
    old = time.time() - 2 * 86_400
    drain(*[failed(f"Shelf {at} is full", at=old) for at in range(3)], failed("No such order", target="ship"))
    assert groups(root, show="new") == [("ship", "No such order", 1, True)]
    new, former = ("ship", "No such order", 1, True), ("echo", "Shelf … is full", 3, False)
    assert groups(root, show="all") == groups(root) == [new, former]
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
    often = [crashed("more things", at=now - 4_000), *[crashed("other things", at=now - 900)] * 2]
    drain(*[crashed(each, at=now - 100 * at) for at, each in enumerate(words)], *often)
    drain(*[failed("reported by the tool")] * 9)
    found = {text: url for text, url in tasks(root).items() if "error" in text.lower()}
    shown = [re.sub(r"([\d-]+ )?\d\d:\d\d\)", "then)", text) for text in found]
    assert shown == [
        "New error in echo (seen 3 times since then): other things",
        "New error in echo (seen 2 times since then): more things",
        "New error in echo (seen once, then): one thing",
        "2 more errors",
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


def test_first_page_orders_crashes_before_waiting_calls(root: Client, seeded: Seed) -> None:
    drain(crashed("ValueError", "no such customer"), *[failed("Division by zero has no value.")] * 20)
    found = list(tasks(root))
    assert "(seen once, " in found[0]
    assert found[0].endswith("): ValueError: no such customer")
    assert [at for at, text in enumerate(found) if "for approval" in text] > [0]
    assert not [text for text in found if "Division" in text]


def test_crash_is_shown_on_the_pages_of_error_message_and_call(root: Client, seeded: Seed) -> None:
    background = background_call(seeded.session.pk, 900)
    answer = failed("The tool failed unexpectedly (incident 00000000).")[9]
    Call.objects.filter(pk=background.pk).update(answer=answer)
    drain(crashed("ValueError", "no \u202e<b>customer</b>", target=background.tool))
    group, message = ErrorGroup.objects.get(), Message.objects.get(incident="00000000")
    addresses = [
        page("message", "error", group.pk),
        page("message", "change", message.pk),
        page("call", "change", background.pk),
    ]
    for address in addresses:
        text = root.get(address).content.decode()
        assert "ops/mcp.py:42 in customer" in text, address
        assert "&lt;b&gt;customer" in text
        assert "\u202e" not in text
    assert page("message", "error", group.pk) in root.get(addresses[1]).content.decode()
    row = root.get(page("message", "errors")).context["errors"].groups[0]
    assert (row.row.words, row.origin) == ("ValueError", "ops/mcp.py:42 in customer")


def test_incident_without_details_names_the_server_log(root: Client, seeded: Seed) -> None:
    drain(failed("The tool failed unexpectedly (incident 1f2e3d4c)."))
    text = root.get(page("message", "change", Message.objects.latest("pk").pk)).content.decode()
    assert 'data-failure="1f2e3d4c"' in text
    assert "Search the server log" in text


def test_call_page_hides_the_exception_from_users_who_may_not_read_messages(
    client_of: ClientOf, seeded: Seed
) -> None:
    background = background_call(seeded.session.pk, 900)
    answer = failed("The tool failed unexpectedly (incident 00000000).")[9]
    Call.objects.filter(pk=background.pk).update(answer=answer)
    drain(crashed("ValueError", "no such customer", target=background.tool))
    address = page("call", "change", background.pk)
    assert "no such customer" in client_of("viewer").get(address).content.decode()
    seeded.viewer.user_permissions.set(seeded.viewer.user_permissions.filter(codename="view_call"))
    assert "no such customer" not in client_of("viewer").get(address).content.decode()


def triage(client: Client, **data: str) -> Any:
    return client.post(page("message", "triage", ErrorGroup.objects.get().pk), data)


def test_error_is_muted_resolved_assigned_and_undone(root: Client, seeded: Seed) -> None:
    drain(crashed("ValueError"))
    error = page("message", "error", ErrorGroup.objects.get().pk)
    assert triage(root, action="assign", assignee=str(seeded.root.pk))["Location"] == error
    triage(root, action="mute", times="10")
    assert (groups(root), len(groups(root, show="muted"))) == ([], 1)
    assert not [text for text in tasks(root) if "error" in text.lower()]
    shown = root.get(error)
    assert [event.text for event in shown.context["triage"].history] == [
        "muted until its count is 11", f"assigned to {seeded.root.get_username()}",
    ]  # fmt: skip
    assert "muted" in shown.content.decode()
    triage(root, action="resolve")
    note = re.search(r'name="undo" value="([^"]+)"', root.get(error).content.decode())
    assert note is not None
    assert len(groups(root, show="resolved")) == 1
    triage(root, undo=note[1])
    assert (len(groups(root, show="muted")), len(groups(root, show="mine"))) == (1, 0)
    drain(*[crashed("ValueError")] * 10)
    assert len(groups(root, show="mine")) == 1
    [task] = [text for text in tasks(root) if "error" in text.lower()]
    assert task.startswith("Worsened error in echo (seen ")
    assert f", assigned to {seeded.root.get_username()})" in task
    assert "(seen 11 times since " in task


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"action": "delete"},
        {"action": "mute", "times": "-1"},
        {"action": "mute", "times": "9" * 30},
        {"action": "mute", "until": "2020-01-01"},
        {"action": "mute", "until": "2026-99-99"},
        {"action": "mute", "until": "soon"},
        {"action": "assign", "assignee": "999999"},
        {"action": "assign", "assignee": "x"},
        {"undo": "forged"},
    ],
)
def test_invalid_triage_changes_nothing(data: dict[str, str], root: Client, seeded: Seed) -> None:
    drain(crashed("ValueError"))
    assert triage(root, **data).status_code == 302
    found = ErrorGroup.objects.get()
    assert (found.triage, found.assignee) == (Triage.OPEN, None)


def test_triage_requires_its_permission(client_of: ClientOf, client: Client, seeded: Seed) -> None:
    drain(crashed("ValueError"))
    error = page("message", "error", ErrorGroup.objects.get().pk)
    assert triage(client, action="resolve").status_code == 302
    assert triage(client_of("viewer"), action="resolve").status_code == 403
    assert 'value="resolve"' not in client_of("viewer").get(error).content.decode()
    assert ErrorGroup.objects.get().triage == Triage.OPEN
    assert client_of("root").get(page("message", "triage", ErrorGroup.objects.get().pk)).status_code == 405


def test_mistakes_of_callers_raise_no_task_about_the_error_rate(root: Client, seeded: Seed) -> None:
    def said() -> list[str]:
        return [text for text in tasks(root) if "of calls failed unexpectedly" in text]

    Rollup.objects.all().delete()
    drain(*[line("2")] * 50, *[failed("Division by zero has no value.", target="sums")] * 50)
    assert said() == []
    drain(*[crashed("ValueError")] * 20)
    [text] = said()
    assert "20 of 120, most of them in echo" in text
