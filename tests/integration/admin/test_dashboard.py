"""The dashboard: figures equal to the log, permissions, query counts and escaping."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.db.models import F
from django.test import Client, RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app.admin import charts
from mcp_app.admin import dashboard as module
from mcp_app.admin.base import HAS_UNFOLD
from mcp_app.admin.dashboard import LOG_IS_OFF, NEVER, NO_LOG, NO_WORKER, ORPHANED, QUIET, Dashboard
from mcp_app.admin.figures.busiest import MOST_CLIENTS, trend
from mcp_app.admin.figures.page import NOT_NAMED, UNKNOWN_TOOLS
from mcp_app.admin.markup import in_utc, rounded_share, share_text
from mcp_app.auth.api_keys import issue_api_key, revoke_api_key
from mcp_app.code_fault import CodeFault
from mcp_app.console.session_rows import background_calls
from mcp_app.message_log import rollups
from mcp_app.message_log.counts.figures import Expected
from mcp_app.message_log.rollup_cells import RollupCells
from mcp_app.message_log.traffic import PERIODS
from mcp_app.message_log.writer import drain_once
from mcp_app.models import (
    ApiKey,
    Call,
    CallerRollup,
    Draft,
    LogCursor,
    Message,
    Prompt,
    Resource,
    ResourceTemplate,
    Rollup,
    Session,
    Tool,
)
from mcp_app.protocol.call_state import TERMINAL
from mcp_app.streams.blocking.presence import Presence
from mcp_app.streams.connections.keys import MESSAGES
from mcp_app.streams.stores.message_queue import SyncMessageQueue
from mcpsite.unfold import beside_the_sidebar
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import ALL_HOSTILE, HOSTILE, RAW_MARKUP, Seed, call, undecided_call
from tests.unit.sessions.queues import ListQueue, batch, line, opened

pytestmark = pytest.mark.postgres


TRAFFIC = {"Calls in the last minute", "Error rate", "p50 duration"}


def address(period: str = "hour") -> str:
    return page("message", "dashboard") + f"?range={period}"


def shown(client: Client, period: str = "hour") -> Dashboard:
    answer = client.get(address(period))
    assert answer.status_code == 200
    found: Dashboard = answer.context["dashboard"]
    return found


def tile(found: Dashboard, name: str) -> Any:
    return next(each for each in found.tiles if each.name == name)


@pytest.fixture
def empty(seeded: Seed) -> Seed:
    Rollup.objects.all().delete()
    return seeded


def _drain(*lines: list[Any], skipped: int = 0) -> None:
    LogCursor.objects.all().delete()
    drain_once(ListQueue(batch(*lines, skipped=skipped)))  # type: ignore[arg-type]


def test_selected_period_has_its_average_rate_since_counting_started(root: Client, empty: Seed) -> None:
    now = timezone.now()
    _drain(*[line(f"a{at}", at=now.timestamp() - 1_800) for at in range(200)])
    asked = _asked(now - timedelta(minutes=50), now - timedelta(minutes=20))
    found = root.get(page("message", "dashboard") + "?" + asked).context["dashboard"]
    assert float(tile(found, "Calls per minute").value) == pytest.approx(200 / 10, rel=0.2)


@pytest.mark.parametrize(
    ("period", "age", "minutes"), [("hour", 1800, 60), ("day", 40_000, 1440), ("week", 400_000, 10_080)]
)
def test_dashboard_figures_match_the_log(
    period: str, age: float, minutes: int, root: Client, empty: Seed
) -> None:
    then = time.time() - age
    _drain(line("before", at=time.time() - 20 * 86_400))
    _drain(
        *[line(f"a{at}", at=then, ms=4.0) for at in range(150)],
        *[line(f"b{at}", at=then, ms=40.0, outcome="tool_error", target="slow") for at in range(30)],
        *[line(f"c{at}", at=then, ms=0.2, outcome="cancelled", target="slow") for at in range(10)],
        *[line(f"f{at}", at=then, ms=0.2, outcome="refused", target="slow") for at in range(10)],
        line("d", at=then, method="tools/list", target=""),
        line("e", at=then, method="notifications/initialized", kind="notification", outcome="", ms=None),
    )
    found = shown(root, period)
    assert tile(found, "Calls in the last minute").note == f"200 in the {PERIODS[period].title.lower()}"
    # The calls of the last minute, not the average of the period.
    assert tile(found, "Calls in the last minute").value == "0"
    assert (tile(found, "Error rate").value, tile(found, "Error rate").note) == (
        "15 %",
        "30 failed · 10 refused",
    )
    assert [(tool.name, tool.calls, tool.errors) for tool in found.tools] == [
        ("echo", 150, "0 %"),
        ("slow", 50, "60 %"),
    ]
    calls, errors, duration = found.charts
    assert len(calls.rows) == len(errors.rows) == len(duration.rows) == len(calls.touches)
    (row,) = [row for row in calls.rows if row[1:] != ["0"] * 4]
    at = calls.rows.index(row)
    slot = minutes / len(calls.rows)
    assert all(column.endswith("per minute") for column in calls.columns[1:])
    assert [float(cell) for cell in row[1:]] == pytest.approx(
        [150 / slot, 10 / slot, 10 / slot, 30 / slot], rel=0.03
    )
    assert errors.rows[at][1] == "15 %"
    assert sorted({bar.tone for bar in calls.bars}) == ["bad", "good", "info", "warn"]


def test_dashboard_counts_calls_that_were_not_logged(root: Client, empty: Seed) -> None:
    tally = RollupCells()
    for _ in range(40):
        tally.add(time.time(), "tools/call", "echo", "error", 3.0, skipped=True)
    LogCursor.objects.all().delete()
    queue: Any = ListQueue(batch(line("1"), skipped=40, tally=tally.written()))
    drain_once(queue)
    assert tile(shown(root), "Calls in the last minute").note == "41 in the last hour"
    assert shown(root).tools[0].calls == 41


def test_code_fault_is_the_first_fault_with_its_location(root: Client, empty: Seed, tmp_path: Path) -> None:
    path = tmp_path / "code_fault.json"
    CodeFault("/tools/mcp.py", 3, "SyntaxError: <b>no</b>").write(path)
    with override_settings(MCP={**settings.MCP, "CODE_FAULT_FILE": str(path)}):
        assert "/tools/mcp.py:3: SyntaxError" in shown(root).verdict.faults[0].text
        text = root.get(address()).content.decode()
        path.unlink()
        assert not any("edited" in reason.text for reason in shown(root).verdict.faults)
    assert "/tools/mcp.py:3: SyntaxError: &lt;b&gt;no" in text


def test_dashboard_counts_only_the_selected_period(root: Client, empty: Seed) -> None:
    now = time.time()
    _drain(
        *[line(str(age), at=now - age) for age in (0, 7_200, 90_000, 700_000)], line("ahead", at=now + 7_300)
    )
    periods = ("hour", "day", "week")
    assert [tile(shown(root, period), "Calls in the last minute").note for period in periods] == [
        "1 in the last hour", "2 in the last day", "3 in the last 7 days",
    ]  # fmt: skip
    assert shown(root, "century").period.name == "hour"


@pytest.mark.parametrize(
    ("rights", "tiles", "charts"),
    [
        (["view_message"], TRAFFIC, 3),
        (["view_call"], {"Background calls running"}, 0),
        (["view_message", "view_session"], TRAFFIC | {"Open sessions"}, 3),
    ],
)  # fmt: skip
def test_dashboard_shows_figures_by_permission(
    rights: list[str], tiles: set[str], charts: int, client_of: ClientOf, seeded: Seed
) -> None:
    allowed = [each for each in seeded.viewer.user_permissions.all() if each.codename in rights]
    seeded.viewer.user_permissions.set(allowed)
    found = shown(client_of("viewer"))
    assert {each.name for each in found.tiles} == tiles
    assert len(found.charts) == charts
    text = client_of("viewer").get("/admin/").content.decode()
    assert ("Calls by tool" in text) == bool(charts)
    assert ("Clients by calls" in text) == bool(charts)
    assert any(row.sessions for row in found.clients) == ("view_session" in rights)


@pytest.mark.parametrize("rights", [[], ["view_session"], ["view_tool", "view_apikey"]])
def test_dashboard_requires_message_or_call_permission(
    rights: list[str], client_of: ClientOf, seeded: Seed
) -> None:
    seeded.viewer.user_permissions.set(
        [each for each in seeded.viewer.user_permissions.all() if each.codename in rights]
    )
    client = client_of("viewer")
    assert client.get(address()).status_code == 403
    index = client.get("/admin/")
    assert index.status_code == 200
    assert "data-dashboard" not in index.content.decode()


def test_anonymous_dashboard_request_redirects_to_login(client: Client, seeded: Seed) -> None:
    assert client.get(address()).status_code == 302


def test_index_embeds_the_dashboard_and_its_refresh_url(root: Client, seeded: Seed) -> None:
    text = root.get("/admin/?range=week").content.decode()
    assert f'data-dashboard="{address("week")}"' in text
    assert '<a href="?range=week" aria-current="true">Last 7 days</a>' in text
    assert "<svg" in text


class Markup(HTMLParser):
    """A parser that collects elements with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        ([5.0], [("500,50 500,50", True)]),
        ([None, 10.0, None, 0.0], [("375,0 375,0", True), ("875,100 875,100", True)]),
        ([0.0, 10.0, None, None], [("125,100 375,0", False)]),
    ],
)
def test_isolated_point_of_a_line_is_a_dot(values: list[float | None], lines: list[tuple[str, bool]]) -> None:
    assert [(each.points, each.is_dot) for each in charts.line("info", values, 10.0)] == lines


def test_charts_have_title_description_and_table_without_scripts(root: Client, seeded: Seed) -> None:
    text = root.get(address()).content.decode()
    found = Markup(text)
    identities = {attributes.get("id") for _, attributes in found.elements}
    pictures = [attributes for tag, attributes in found.elements if tag == "svg"]
    assert len(pictures) == 3
    for picture in pictures:
        assert picture["role"] == "img"
        assert set((picture["aria-labelledby"] or "").split()) <= identities
    assert text.count("<summary>As a table</summary>") == 3
    assert not [tag for tag, _ in found.elements if tag in ("script", "style")]
    assert not [
        name
        for _, attributes in found.elements
        for name in attributes
        if name.startswith("on") or name == "style"
    ]


def test_dashboard_escapes_hostile_names(root: Client, seeded: Seed) -> None:
    now = timezone.now()
    Session.objects.create(
        id="x" * 32, principal="p", protocol_version="<b>1</b>", client_name=HOSTILE["script"],
        client_version=HOSTILE["bidi"], created_at=now, last_seen_at=now,
    )  # fmt: skip
    _drain(line("1", target=HOSTILE["image"]), line("2", method=HOSTILE["svg"], target=ALL_HOSTILE))
    text = root.get(address()).content.decode()
    assert not [raw for raw in RAW_MARKUP if raw in text]
    assert "\u202e" not in text
    assert "&lt;script&gt;window.pwned=1" in text
    assert not [
        value
        for _, attributes in Markup(text).elements
        for value in attributes.values()
        if "javascript:" in (value or "")
    ]


def test_dashboard_query_count_is_constant(root: Client, empty: Seed) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            shown(root)
        return len(captured)

    _drain(line("first"))
    before = queries()
    _drain(*[line(str(at), target=f"tool-{at}", at=time.time() - at * 20) for at in range(100)])
    for number in range(20):
        call(None, number)
        now = timezone.now()
        Session.objects.create(
            id=f"more-{number}", principal="p", protocol_version="2025-11-25", client_name=f"client-{number}",
            created_at=now, last_seen_at=now,
        )  # fmt: skip
    assert queries() <= before
    assert len(shown(root).tools) == module.MOST_TOOLS
    assert shown(root).more_tools == 91
    assert len(shown(root).clients) == MOST_CLIENTS


def _notes(client: Client) -> list[str]:
    return [text for _, text in shown(client).notes]


def _faults(client: Client) -> list[str]:
    return [reason.text for reason in shown(client).verdict.faults]


def test_empty_dashboard_suggests_the_first_steps(root: Client, empty: Seed, clean_redis: str) -> None:
    assert _notes(root) == [NO_LOG]
    with override_settings(MCP={"REDIS_URL": clean_redis}):
        assert (_notes(root), _faults(root)) == ([NEVER], [NO_WORKER])
        delay = tile(shown(root), "Message log delay")
        assert (delay.value, delay.tone) == ("–", "bad")
        _drain(line("1", method="ping", target=""))
        assert (_notes(root), _faults(root)) == ([QUIET], [NO_WORKER])
        _drain(line("2"))
        assert (_notes(root), _faults(root)) == ([], [NO_WORKER])
    with override_settings(MCP={"REDIS_URL": clean_redis, "MESSAGE_LOG": False}):
        assert LOG_IS_OFF in _notes(root)


def test_dashboard_shows_redis_workers_and_log_delay(root: Client, seeded: Seed, clean_redis: str) -> None:
    Call.objects.exclude(queue="celery").delete()
    Presence(clean_redis).renew("worker-1@host", ["celery"])
    queue = SyncMessageQueue(clean_redis)
    with override_settings(MCP={"REDIS_URL": clean_redis}):
        found = shown(root)
        assert (tile(found, "Workers").value, tile(found, "Workers").note) == ("1", "worker-1@host")
        assert tile(found, "Redis memory").value.endswith("MiB") or tile(found, "Redis memory").value == "?"
        assert (tile(found, "Message log delay").value, found.verdict.faults) == ("0 s", [])
        # The minutes of the delay do not depend on the speed of this test.
        old = f"{int((time.time() - 75.5 * 60) * 1000)}-0"
        queue._client.xadd(MESSAGES, {"b": b"x"}, id=old)
        Presence(clean_redis).renew("worker-1@host", ["celery"])
        found = shown(root)
        assert tile(found, "Message log delay").value == "1 h 15 min"
        assert (tile(found, "Message log delay").note, tile(found, "Message log delay").tone) == (
            "1 pending batch",
            "bad",
        )
        assert [reason.text for reason in found.verdict.faults] == [module.BEHIND]
    queue.close()


def test_unavailable_redis_is_reported_once(root: Client, seeded: Seed) -> None:
    with override_settings(MCP={"REDIS_URL": "redis://127.0.0.1:1/0"}):
        assert (_notes(root), _faults(root)) == ([], [module.AWAY])


def test_live_sessions_are_counted_by_client(root: Client, seeded: Seed) -> None:
    Session.objects.all().update(last_seen_at=timezone.now() - timedelta(days=1))
    now = timezone.now()
    for number in range(3):
        Session.objects.create(
            id=f"live-{number}", principal="p", protocol_version="2025-06-18", client_name="cursor",
            client_version="1" if number else "2", created_at=now, last_seen_at=now,
        )  # fmt: skip
    found = shown(root)
    (cursor,) = [row for row in found.clients if row.name == "cursor"]
    assert (cursor.sessions, tile(found, "Open sessions").value) == ("3", "3")
    listed = root.get(cursor.sessions_url).context["cl"].queryset
    assert {session.pk for session in listed} == {"live-0", "live-1", "live-2"}


@pytest.mark.skipif(not HAS_UNFOLD, reason="Django's own first page has no sidebar")
def test_index_links_each_list_and_add_form_once(root: Client, seeded: Seed) -> None:
    text = root.get("/admin/").content.decode()
    assert text.count(f'href="{page("prompt", "changelist")}"') == 1
    assert text.count(f'href="{page("prompt", "add")}"') == 1


@pytest.mark.skipif(not HAS_UNFOLD, reason="Django's own lists have no tabs")
@pytest.mark.parametrize(
    ("model", "titles"),
    [("resource", ["Resources", "Resource templates"]), ("message", []), ("tool", [])],
)
def test_only_lists_that_share_tabs_have_a_tab_bar(
    model: str, titles: list[str], root: Client, seeded: Seed
) -> None:
    answer = root.get(page(model, "changelist"))
    assert [tab["title"] for bar in answer.context["tab_list"] for tab in bar["items"]] == titles
    text = answer.content.decode()
    assert text.count('id="tabs-items"') == bool(titles)


def test_index_lists_only_models_missing_from_the_sidebar(rf: RequestFactory) -> None:
    models = [
        {"model": Group, "name": "Groups", "admin_url": "/groups/", "add_url": "/groups/add/"},
        {"model": Permission, "name": "Permissions", "admin_url": "/permissions/", "add_url": None},
    ]
    line = {"link": "/groups/", "has_permission": True}
    context = {"app_list": [{"models": models}], "sidebar_navigation": [{"items": [line]}]}
    found = beside_the_sidebar(rf.get("/"), context)
    assert [each["name"] for app in found["app_list"] for each in app["models"]] == ["Permissions"]
    assert [each["url"] for each in found["adds"]] == ["/groups/add/"]
    assert not found["sidebar_has_all"]


def test_index_reports_missing_permissions(client: Client, seeded: Seed) -> None:
    nobody = get_user_model().objects.create_user("nobody", is_staff=True)
    client.force_login(nobody)
    assert "have permission to view or edit anything" in client.get("/admin/").content.decode()


def test_app_index_lists_its_models_only(root: Client, seeded: Seed) -> None:
    answer = root.get("/admin/mcp_app/")
    assert answer.status_code == 200
    assert b"mcp-dashboard" not in answer.content
    assert page("tool", "changelist").encode() in answer.content


def _nothing_waits(seed: Seed) -> None:
    Call.objects.exclude(state__in=TERMINAL).delete()
    Draft.objects.all().delete()
    ApiKey.objects.update(expires_at=None)
    for kind in (Tool, Prompt, Resource, ResourceTemplate):
        kind.objects.update(reviewed_hash=F("definition_hash"))


def test_verdict_depends_on_faults_and_pending_tasks(root: Client, seeded: Seed, clean_redis: str) -> None:
    def seen() -> tuple[str, str]:
        verdict = shown(root).verdict
        return verdict.word, verdict.tone

    _nothing_waits(seeded)
    worker = Presence(clean_redis)
    worker.renew("worker-1@host", ["celery"])
    with override_settings(MCP={"REDIS_URL": clean_redis}):
        assert seen() == ("All systems operational", "good")
        undecided_call("s", 1)
        # A worker that is silent for a few seconds is missing.
        worker.renew("worker-1@host", ["celery"])
        assert seen() == ("Running", "warn")
        worker.renew("worker-1@host", ["celery"])
        said = "<b>Running.</b> 1 item needs your attention:"
        assert said in root.get("/admin/").content.decode()
    with override_settings(MCP={"REDIS_URL": "redis://127.0.0.1:1/0"}):
        assert seen() == ("Degraded", "bad")


def test_pending_approval_has_one_number_on_all_pages(root: Client, seeded: Seed, clean_redis: str) -> None:
    Call.objects.all().delete()
    undecided_call("s", 1)
    (approval,) = background_calls(["s"]).values()
    with override_settings(MCP={"REDIS_URL": clean_redis}):
        work = tile(shown(root), "Background calls running")
        (queue,) = [
            each
            for each in root.get(page("call", "changelist")).context["box"].queues
            if each.name == "celery"
        ]
    assert (work.value, work.note.split(", ")) == ("0", ["0 queued", "1 waiting for approval"])
    assert (queue.unapproved, queue.waiting, queue.running, approval) == (1, 0, 0, 1)


def test_pending_tasks_link_to_their_pages(root: Client, seeded: Seed) -> None:
    _nothing_waits(seeded)
    for number in range(2):
        undecided_call("s", number)
    for kind, key in (("prompt", "waits"), ("tool", "waits"), ("tool", "too")):
        Draft.objects.create(kind=kind, key=key, author=seeded.viewer)
    soon = timezone.now() + timedelta(days=3)
    issue_api_key(user=seeded.viewer, name="ends", expires_at=soon)
    Tool.objects.filter(pk=Tool.objects.first().pk).update(reviewed_hash="older", definition_hash="newer")
    found = {reason.text: reason.url for reason in shown(root).verdict.tasks}
    assert found == {
        "2 calls wait for approval": page("approval", "changelist"),
        "3 unpublished drafts (2 tools, 1 prompt)": page("draft", "changelist"),
        "1 tool: definition changed and not accepted": page("tool", "changelist") + "?drift=yes",
        "1 API key expires within 14 days": page("apikey", "changelist") + "?state=expires+soon",
    }
    for url in found.values():
        assert root.get(url).status_code == 200
    listed = root.get(found["1 API key expires within 14 days"]).context["cl"].result_list
    assert [key.name for key in listed] == ["ends"]


def test_high_error_rate_is_the_first_task_and_names_the_tool(root: Client, empty: Seed) -> None:
    Message.objects.all().delete()
    now = time.time()
    fault = {"outcome": "error", "answer": '{"error":{"code":-32603,"message":"The server is stopping."}}'}
    _drain(
        *[line(f"ok-{at}", at=now - 60) for at in range(15)],
        *[line(f"bad-{at}", at=now - 60, **fault, target="slow") for at in range(4)],
        line("other", at=now - 60, **fault),
    )
    first = shown(root).verdict.tasks[0]
    assert first.text == "25 % of calls failed unexpectedly: 5 of 20, most of them in slow (last hour)"
    assert sum(group.row.count for group in root.get(first.url).context["errors"].groups) == 5


def test_calls_without_a_name_are_counted_as_unknown_tools(root: Client, empty: Seed) -> None:
    _drain(line("gone", at=time.time() - 60, target="", outcome="tool_error"))
    (row,) = shown(root).tools
    assert (row.name, row.calls) == (UNKNOWN_TOOLS, 1)
    assert len(root.get(row.messages_url).context["timeline"].rows) == 1
    text = root.get("/admin/").content.decode()
    assert UNKNOWN_TOOLS in text
    assert f"({NOT_NAMED})" in text
    # Both pages use the same note.
    assert row.note in root.get(page("message", "figures"), {"by": "tool"}).content.decode()


def test_low_error_rate_creates_no_task(root: Client, empty: Seed) -> None:
    now = time.time()
    _drain(
        *[line(f"ok-{at}", at=now - 60) for at in range(100)],
        *[line(f"bad-{at}", at=now - 60, outcome="tool_error") for at in range(5)],
    )
    assert not any("calls failed" in task.text for task in shown(root).verdict.tasks)


def test_tasks_require_the_permission_to_act(client_of: ClientOf, seeded: Seed) -> None:
    undecided_call("s", 1)
    allowed = [each for each in seeded.viewer.user_permissions.all() if each.codename == "view_message"]
    seeded.viewer.user_permissions.set(allowed)
    assert shown(client_of("viewer")).verdict.tasks == []


def test_figures_match_the_log_behind_their_links(root: Client, empty: Seed) -> None:
    now = time.time()
    Message.objects.all().delete()
    _drain(
        *[line(f"old-{at}", at=now - 7_200, outcome="error") for at in range(3)],
        *[line(f"ok-{at}", at=now - 300) for at in range(4)],
        *[line(f"now-{at}", at=now) for at in range(2)],
        *[line(f"bad-{at}", at=now - 300, outcome="tool_error", target="slow") for at in range(5)],
        *[line(f"wrong-{at}", at=now - 300, outcome="error") for at in range(6)],
        *[line(f"refused-{at}", at=now - 300, outcome="refused", target="slow") for at in range(7)],
    )
    found = shown(root)

    def listed(url: str) -> int:
        return len(root.get(url).context["timeline"].rows)

    assert tile(found, "Error rate").note == "11 failed · 7 refused"
    assert listed(tile(found, "Error rate").url) == 11
    assert tile(found, "Calls in the last minute").note == "24 in the last hour"
    assert listed(tile(found, "Calls in the last minute").url) == 2
    assert [listed(tool.messages_url) for tool in found.tools] == [tool.calls for tool in found.tools]
    assert all(root.get(tool.url).context["figures"].tool == tool.name for tool in found.tools)


def test_orphaned_queue_is_a_fault_with_a_link_to_its_calls(
    root: Client, seeded: Seed, clean_redis: str
) -> None:
    Presence(clean_redis).renew("worker-1@host", ["celery"])
    with override_settings(MCP={"REDIS_URL": clean_redis}):
        (fault,) = shown(root).verdict.faults
    assert (fault.text, fault.url) == (ORPHANED, page("call", "changelist") + "?state=open")


def _asked(since: datetime, until: datetime) -> str:
    return urlencode({"since": in_utc(since), "until": in_utc(until - timedelta(seconds=1))})


@pytest.mark.parametrize(
    ("ago", "minutes", "span"), [(50, 20, 60), (600, 200, 60), (600, 300, 600), (5_000, 2_900, 3_600)]
)
def test_custom_period_uses_the_finest_resolution_and_matches_the_log(
    ago: int, minutes: int, span: int, root: Client, empty: Seed
) -> None:
    begin = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(minutes=ago // 60 * 60 + 60)
    end = begin + timedelta(minutes=minutes)
    end = end.replace(minute=end.minute // 10 * 10)
    inside, before = (begin + timedelta(seconds=30)), begin - timedelta(seconds=30)
    tally = RollupCells()
    for at in (inside, inside, before, end + timedelta(hours=1)):
        tally.add(at.timestamp(), "tools/call", "echo", "ok", 3.0)
    rollups.write(tally)
    found = root.get(page("message", "dashboard") + "?" + _asked(begin, end)).context["dashboard"]
    assert found.period.span == span
    assert tile(found, "Calls per minute").note.startswith("2 calls")
    log = root.get(tile(found, "Calls per minute").url).context["timeline"]
    assert log.expected == Expected(calls=2, left_out=0)
    figures = root.get(found.figures_url).context["figures"]
    assert [row.calls.all for row in figures.table.rows] == [2]
    assert root.get(figures.table.rows[0].urls["calls"]).context["timeline"].expected == log.expected


@pytest.mark.parametrize(
    "query",
    [
        "since=nonsense&until=2026-01-01T00:00:00Z",
        "since=2026-01-01T00:00:00Z",
        "since=0001-01-01T00:00:00Z&until=9999-12-31T23:59:59Z",
        "since=2026-01-01T00:00:00Z&until=9999-12-31T23:59:59.999999Z",
        "since=1h&until=2h",
        "since=400d&until=399d",
    ],
)
def test_invalid_period_falls_back_to_the_last_hour(query: str, root: Client) -> None:
    found = root.get(page("message", "dashboard") + "?" + query).context["dashboard"]
    assert found.period.name == "hour"


def _client_line(number: int, session: str, principal: str, **more: Any) -> list[Any]:
    return line(f"{session[0]}-{number}", session=session, principal=principal, **more)


def test_clients_are_listed_by_calls_with_share_and_trend(root: Client, empty: Seed) -> None:
    Session.objects.all().delete()
    CallerRollup.objects.all().delete()
    now = time.time()
    facts = [opened("a" * 32, client_name="Orion"), opened("b" * 32, client_name="Report Bot")]
    lines = [_client_line(at, "a" * 32, "loopback", at=now - 4_800) for at in range(4)]
    lines += [_client_line(at, "a" * 32, "loopback", at=now - 60) for at in range(4, 6)]
    lines += [_client_line(at, "b" * 32, "loopback", at=now - 60) for at in range(6)]
    LogCursor.objects.all().delete()
    queue: Any = ListQueue(batch(*lines, facts=facts))
    drain_once(queue)
    found = [(row.name, row.calls, row.share, row.trend, row.sessions) for row in shown(root).clients]
    assert found == [
        ("Report Bot", "6", "75 %", "new", "1"), ("Orion", "2", "25 %", "\N{MINUS SIGN}50 %", "1"),
    ]  # fmt: skip
    (row,) = root.get(shown(root).clients[0].url).context["figures"].table.rows
    assert (row.name, row.calls.all) == ("local user", 6)


@pytest.mark.parametrize(
    ("calls", "before", "text"),
    [
        (5, 0, "new"), (5, 5, "±0 %"), (6, 5, "+20 %"), (4, 5, "\N{MINUS SIGN}20 %"), (10, 5, "2 ×"),
        (9, 2, "4.5 ×"), (1_200, 5, "240 ×"), (12_000, 5, "2,400 ×"),
        (0, 5, "\N{MINUS SIGN}100 %"),
    ],
)  # fmt: skip
def test_trend_compares_with_the_period_before(calls: int, before: int, text: str) -> None:
    assert trend(calls, before) == text


@pytest.mark.parametrize(
    ("share", "text"), [(1.0, "100 %"), (1_060 / 1_062, "99 %"), (0.994, "99 %"), (0.286, "29 %")]
)
def test_share_below_one_is_never_shown_as_all(share: float, text: str) -> None:
    assert share_text(rounded_share(share, 2)) == text
    assert (share_text(share) == "100 %") == (share == 1)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "–"), (0, "0 %"), (0.0000001, "<0.01 %"), (0.0033, "0.33 %"), (0.00329, "0.33 %"),
        (0.00652, "0.65 %"), (0.0417, "4.17 %"), (0.333333, "33.3 %"), (0.99999, "99.9 %"),
    ],
)  # fmt: skip
def test_shares_have_at_most_two_decimals(share: float | None, text: str) -> None:
    assert share_text(share) == text


def test_calls_per_minute_are_those_of_the_last_minute(root: Client, empty: Seed) -> None:
    now = time.time()
    _drain(*[line(f"old-{at}", at=now - 600) for at in range(90)], *[line(f"new-{at}") for at in range(30)])
    assert float(tile(shown(root), "Calls in the last minute").value) == pytest.approx(30, abs=0.5)


def test_spike_is_the_first_task_and_leads_to_the_key(root: Client, empty: Seed) -> None:
    CallerRollup.objects.all().delete()
    now = time.time()
    bot, _ = issue_api_key(user=empty.viewer, name="bot")
    principal = f"user:{empty.viewer.pk}/key:{bot.pk}"
    facts = [opened("b" * 32, client_name="Report Bot", principal=principal)]
    lines = [line(f"usual-{at}", at=now - 7_200) for at in range(20)]
    lines += [_client_line(at, "b" * 32, principal) for at in range(300)]
    LogCursor.objects.all().delete()
    queue: Any = ListQueue(batch(*lines, facts=facts))
    drain_once(queue)
    task = shown(root).verdict.tasks[0]
    assert task.text.startswith("Report Bot (viewer · bot) has made 100 % of calls since ")
    assert task.url == page("apikey", "change", bot.pk)
    revoke_api_key(key=bot)
    assert not any("of calls since" in each.text for each in shown(root).verdict.tasks)
    ApiKey.objects.filter(pk=bot.pk).update(revoked_at=None)
    assert shown(root).verdict.tasks[0].text == task.text
    Message.objects.all().delete()
    CallerRollup.objects.all().delete()
    assert not any("of calls since" in each.text for each in shown(root).verdict.tasks)
