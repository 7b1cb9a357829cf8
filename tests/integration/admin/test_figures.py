"""The page of figures: counts by tool, client, user and time equal the messages behind them."""

from __future__ import annotations

import csv
import io
import random
import re
import time
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app.admin.figures.page import PAGE, UNKNOWN_TOOLS, Figures
from mcp_app.auth.api_keys import issue_api_key
from mcp_app.message_log.counts import limited_figures
from mcp_app.message_log.writer import drain_once
from mcp_app.models import ApiKey, Call, CallerRollup, LogCursor, Message, Rollup, Session
from mcp_app.streams.blocking.presence import Presence
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import ALL_HOSTILE, RAW_MARKUP, Seed, background_call
from tests.unit.sessions.queues import ListQueue, batch, line, opened

pytestmark = pytest.mark.postgres

ORION, VEGA = "o" * 32, "v" * 32
TABLES = ("tool", "client", "principal", "time")


def shown(browser: Client, /, **asked: str) -> Figures:
    answer = browser.get(page("message", "figures"), asked)
    assert answer.status_code == 200
    found: Figures = answer.context["figures"]
    return found


def numbers(found: Figures) -> dict[str, tuple[int, int, int]]:
    return {row.name: (row.calls.all, row.calls.failed, row.calls.cancelled) for row in found.table.rows}


@pytest.fixture
def counted(seeded: Seed) -> Seed:
    """Log five calls of ``echo`` by one key, and two of ``slow`` by another client, of which one failed."""
    for model in (Rollup, CallerRollup, Message, LogCursor):
        model.objects.all().delete()
    key, _ = issue_api_key(user=seeded.root, name="laptop-2")
    ada = f"user:{seeded.root.pk}/key:{key.pk}"
    facts = [opened(ORION, client_name="Orion Desktop"), opened(VEGA, client_name="vega")]
    lines = [line(str(at), session=ORION, principal=ada, ms=4.0) for at in range(5)]
    lines += [
        line("6", session=VEGA, target="slow", ms=2_000.0),
        line("7", session=VEGA, target="slow", outcome="tool_error"),
    ]
    lines += [line("8", kind="running", outcome="", target="slow"), line("9", method="ping", target="")]
    queue: Any = ListQueue(batch(*lines, facts=facts))
    drain_once(queue)
    return seeded


def test_calls_are_counted_by_tool_client_user_and_time(root: Client, counted: Seed) -> None:
    assert numbers(shown(root)) == {"echo": (5, 0, 0), "slow": (2, 1, 0)}
    assert numbers(shown(root, by="client")) == {"Orion Desktop": (5, 0, 0), "vega": (2, 1, 0)}
    assert numbers(shown(root, by="principal")) == {
        "root · laptop-2": (5, 0, 0),
        "local user": (2, 1, 0),
    }
    assert sum(each[0] for each in numbers(shown(root, by="time")).values()) == 7


class Links(HTMLParser):
    """A parser that collects the links of table rows with their texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = dict(attrs).get("href") or "" if tag == "a" else ""

    def handle_data(self, data: str) -> None:
        if "outcome=" in self._open and "/message/?" in self._open:
            self.found.append((self._open, data))
        self._open = ""


@pytest.mark.parametrize("period", ["hour", "day", "week"])
@pytest.mark.parametrize("by", TABLES)
def test_every_count_links_to_as_many_messages(by: str, period: str, root: Client, counted: Seed) -> None:
    text = root.get(page("message", "figures"), {"by": by, "range": period}).content.decode()
    links = [(url, said) for url, said in Links(text).found if said.isdigit()]
    assert len(links) >= (3 if by != "time" else 2)
    for url, said in links:
        behind = root.get(url)
        assert len(behind.context["timeline"].rows) == int(said), url
        assert behind.context["timeline"].expected.calls == int(said), url


def test_calls_of_unknown_tools_have_their_own_row(root: Client, counted: Seed) -> None:
    LogCursor.objects.all().delete()
    queue: Any = ListQueue(batch(line("1", target="", outcome="error")))
    drain_once(queue)
    (found,) = [row for row in shown(root).table.rows if row.name not in ("echo", "slow")]
    assert (found.name, found.calls.all) == (UNKNOWN_TOOLS, 1)
    rows = root.get(found.urls["failed"]).context["timeline"].rows
    assert [row.message.request_id for row in rows] == ["1"]


def test_figures_of_one_tool_list_its_clients_users_and_times(root: Client, counted: Seed) -> None:
    LogCursor.objects.all().delete()
    queue: Any = ListQueue(batch(line("20", session=VEGA, target="echo", outcome="cancelled", ms=9_000.0)))
    drain_once(queue)
    assert numbers(shown(root, tool="echo")) == {"Orion Desktop": (5, 0, 0), "vega": (1, 0, 1)}
    assert numbers(shown(root, tool="slow", by="client")) == {"vega": (2, 1, 0)}
    assert numbers(shown(root, tool="slow", by="principal")) == {"local user": (2, 1, 0)}
    assert [row.calls.all for row in shown(root, tool="echo", by="time").table.rows] == [6]
    assert numbers(shown(root, tool="nothing")) == {}
    orion, vega = shown(root, tool="echo").table.rows
    assert orion.calls.p50 == pytest.approx(0.004, abs=0.002)
    assert vega.calls.p50 == pytest.approx(8, abs=3)
    for by in ("client", "principal", "time"):
        for row in shown(root, tool="slow", by=by).table.rows:
            assert len(root.get(row.urls["calls"]).context["timeline"].rows) == row.calls.all


def test_tool_page_and_row_link_to_its_callers(root: Client, viewer: Client, counted: Seed) -> None:
    (row,) = [row for row in shown(root, range="day").table.rows if row.name == "echo"]
    (url,) = re.findall('href="([^"]+)"', unescape(str(row.html)))
    found = root.get(url).context["figures"]
    assert (found.tool, found.table.title) == ("echo", "Calls of echo by client")
    assert {"Last day"} == {choice.title for choice in found.periods if choice.chosen}
    assert all("tool=echo" in choice.url for choice in (*found.periods, *found.views))
    assert ("View tool", page("tool", "change", counted.echo.pk)) in found.pages
    address = page("message", "figures")
    own = root.get(page("tool", "change", counted.echo.pk)).content.decode()
    assert f'href="{address}?tool=echo&amp;range=week&amp;by=principal">' in own
    counted.viewer.user_permissions.set(counted.viewer.user_permissions.filter(codename="view_tool"))
    assert "Who used it" not in viewer.get(page("tool", "change", counted.echo.pk)).content.decode()


def test_figures_of_one_tool_report_truncation(
    root: Client, counted: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(root, tool="echo").whole
    monkeypatch.setattr(limited_figures, "MOST_READ", 3)
    assert numbers(shown(root, tool="echo")) == {"Orion Desktop": (3, 0, 0)}
    assert "the period has more" in root.get(page("message", "figures"), {"tool": "echo"}).content.decode()


def test_figures_table_sorts_by_any_column(root: Client, counted: Seed) -> None:
    assert [row.name for row in shown(root).table.rows] == ["echo", "slow"]
    for order in ("-name", "-failed", "-rate", "-p95", "calls"):
        assert [row.name for row in shown(root, sort=order).table.rows] == ["slow", "echo"], order
    head = {each.title: each for each in shown(root, sort="-failed").heads}
    assert (head["Failed"].order, head["Calls"].order) == ("descending", "")
    assert "sort=failed" in head["Failed"].url
    assert "sort=-calls" in head["Calls"].url
    assert [row.name for row in shown(root, sort="nonsense").table.rows] == ["echo", "slow"]


def test_figures_table_is_paginated_and_exported_whole(root: Client, counted: Seed) -> None:
    lines = [line(str(at), target=f"tool_{at:03}") for at in range(PAGE + 1)]
    LogCursor.objects.all().delete()
    queue: Any = ListQueue(batch(*lines))
    drain_once(queue)
    first, second = shown(root, sort="name"), shown(root, sort="name", p="2")
    assert (len(first.lines), len(second.lines)) == (PAGE, 3)
    assert [row.name for row, _ in second.lines] == ["tool_048", "tool_049", "tool_050"]
    assert "p=2" in root.get(page("message", "figures"), {"sort": "name"}).content.decode()
    answer = root.get(page("message", "figures"), {"sort": "name", "p": "2", "format": "csv"})
    assert len(answer.content.decode().splitlines()) == 1 + len(first.table.rows)
    times = [row.name for row in shown(root, by="time").table.rows]
    assert times == sorted(times, reverse=True)


def test_figures_export_as_csv_without_formulas(root: Client, counted: Seed) -> None:
    queue: Any = ListQueue(batch(line("1", target="=HYPERLINK(1)")))
    LogCursor.objects.all().delete()
    drain_once(queue)
    answer = root.get(page("message", "figures"), {"format": "csv", "by": "tool", "range": "day"})
    assert answer["Content-Type"].startswith("text/csv")
    head, *rows = csv.reader(io.StringIO(answer.content.decode()))
    assert (head[0], head[4:7]) == ("Tool", ["Calls", "Failed", "Error rate (0 to 1)"])
    assert [[row[0], *row[4:7]] for row in rows] == [
        ["echo", "5", "0", "0"], ["slow", "2", "1", "0.5"], ["'=HYPERLINK(1)", "1", "0", "0"],
    ]  # fmt: skip


def test_csv_percentiles_below_the_first_bound_are_bounds_as_on_the_page(root: Client, counted: Seed) -> None:
    LogCursor.objects.all().delete()
    queue: Any = ListQueue(batch(line("1", target="tiny", ms=0.1)))
    drain_once(queue)
    answer = root.get(page("message", "figures"), {"format": "csv"})
    rows = {row["Tool"]: row for row in csv.DictReader(io.StringIO(answer.content.decode()))}
    assert (rows["tiny"]["p50 (s)"], rows["tiny"]["p95 (s)"]) == ("<0.001", "<0.001")


def test_page_names_the_period_that_its_table_sums(
    root: Client, counted: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC).replace(minute=33, second=20)
    monkeypatch.setattr("mcp_app.database.clock.utcnow", lambda: now)
    begin = (now - timedelta(minutes=59)).replace(second=0)
    for by, since in (("tool", begin), ("time", begin), ("client", begin.replace(minute=40))):
        text = root.get(page("message", "figures"), {"by": by}).content.decode()
        assert f"From {timezone.localtime(since):%Y-%m-%d %H:%M} to" in text
        assert (f"the table by tool at {timezone.localtime(begin):%H:%M}." in text) == (by == "client")
    chosen = {"since": f"{begin:%Y-%m-%dT%H:%M}Z", "until": f"{now - timedelta(minutes=10):%Y-%m-%dT%H:%M}Z"}
    for by, until in (("tool", now.replace(minute=24)), ("client", now.replace(minute=30))):
        found = shown(root, by=by, **chosen)
        assert found.at == until.replace(second=0, microsecond=0), by


def test_figures_show_queue_time_by_tool_and_client(root: Client, counted: Seed) -> None:
    Call.objects.all().delete()
    now = datetime.now(UTC)
    for number in range(3):
        background_call(
            ORION, number, tool="echo", accepted_at=now - timedelta(seconds=9), attempt=1,
            started_at=now - timedelta(seconds=4), finished_at=now, worker="host:7", state="completed",
        )  # fmt: skip
    assert next(row for row in shown(root).table.rows if row.name == "echo").waited == pytest.approx(
        5, abs=0.1
    )
    by_client = {row.name: row.waited for row in shown(root, by="client").table.rows}
    assert by_client["Orion Desktop"] == pytest.approx(5, abs=0.1)
    assert by_client["vega"] is None


def test_workers_are_listed_with_their_calls(
    root: Client, counted: Seed, clean_redis: str, client_of: ClientOf
) -> None:
    Call.objects.all().delete()
    Presence(clean_redis).renew("celery@one", ["celery"])
    now = datetime.now(UTC)
    began = (("one", "running"), ("one", "failed"), ("two", "completed"))
    for number, (machine, state) in enumerate(began):
        background_call(
            ORION, number, accepted_at=now, started_at=now, attempt=1, state=state,
            worker=f"{machine}:{number}", finished_at=None if state == "running" else now,
        )  # fmt: skip
    with override_settings(MCP={"REDIS_URL": clean_redis}):
        found = shown(root).workers
        assert [(each.machine, each.alive, each.running, each.begun, each.failed) for each in found] == [
            ("one", ["celery@one (celery)"], 1, 2, 1),
            ("two", [], 0, 1, 0),
        ]
        assert root.get(found[0].url).context["cl"].result_count == 1
        # These durations differ from those of the log, which measures only the tool.
        assert "data-until-stored" in root.get(page("message", "figures")).content.decode()
        assert "Total duration" in root.get(page("call", "changelist")).content.decode()
        # Users who may read messages only do not see calls.
        allowed = counted.viewer.user_permissions.filter(codename="view_message")
        counted.viewer.user_permissions.set(allowed)
        assert shown(client_of("viewer")).workers == []


def test_figures_require_the_message_permission(client_of: ClientOf, seeded: Seed, client: Client) -> None:
    assert client_of("outsider").get(page("message", "figures")).status_code == 403
    assert client.get(page("message", "figures")).status_code == 302
    assert client_of("viewer").get(page("message", "figures")).status_code == 200


def test_figures_escape_hostile_names(root: Client, counted: Seed) -> None:
    LogCursor.objects.all().delete()
    hostile = opened("h" * 32, client_name=ALL_HOSTILE[:200])
    queue: Any = ListQueue(
        batch(line("1", session="h" * 32, target=ALL_HOSTILE, principal=ALL_HOSTILE[:100]), facts=[hostile])
    )
    drain_once(queue)
    for by in TABLES:
        text = root.get(page("message", "figures"), {"by": by}).content.decode()
        assert not [raw for raw in RAW_MARKUP if raw in text]
        assert "\u202e" not in text


def test_figures_query_count_is_constant(root: Client, counted: Seed) -> None:
    def queries(by: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            shown(root, by=by)
        return len(captured)

    before = {by: queries(by) for by in TABLES}
    LogCursor.objects.all().delete()
    facts = [opened(f"{at:032}", client_name=f"client-{at}") for at in range(60)]
    lines = [
        line(str(at), session=f"{at:032}", target=f"tool-{at}", principal=f"user:{at}/key:{at}")
        for at in range(60)
    ]
    queue: Any = ListQueue(batch(*lines, facts=facts))
    drain_once(queue)
    assert {by: queries(by) for by in TABLES} == before
    assert len(shown(root, by="client").table.rows) == 62


def test_log_filters_by_client(root: Client, counted: Seed) -> None:
    def found(**asked: str) -> int:
        return len(root.get(page("message", "changelist"), asked).context["timeline"].rows)

    assert (found(client="vega"), found(client="Orion Desktop"), found(client="nobody")) == (2, 5, 0)
    assert Session.objects.filter(client_name="vega").exists()


def test_log_time_filter_includes_the_whole_second(root: Client, counted: Seed) -> None:
    LogCursor.objects.all().delete()
    at = int(time.time()) - 100
    queue: Any = ListQueue(batch(line("at the end", at=at + 0.75, target="late")))
    drain_once(queue)
    asked = {"target": "late", "until": f"{datetime.now(UTC):%Y-%m-%d}T23:59:59Z"}
    assert len(root.get(page("message", "changelist"), asked).context["timeline"].rows) == 1
    for second, rows in ((at, 1), (at - 1, 0)):
        moment = datetime.fromtimestamp(second, UTC)
        asked["until"] = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        # Links name their zone, and mean the same in every other zone.
        with timezone.override("Asia/Tokyo"):
            assert len(root.get(page("message", "changelist"), asked).context["timeline"].rows) == rows


@pytest.mark.parametrize("by", ["tool", "client", "principal", "time"])
@pytest.mark.parametrize("limit", [{}, {"tool": "echo"}])
def test_refused_calls_are_no_errors_in_any_view(
    by: str, limit: dict[str, str], root: Client, seeded: Seed
) -> None:
    Message.objects.all().delete()
    Rollup.objects.all().delete()
    CallerRollup.objects.all().delete()
    outcomes = ["ok", "ok", "refused", "tool_error"]
    at = time.time() - 60
    queue: Any = ListQueue(
        batch(*[line(str(number), at=at, outcome=each) for number, each in enumerate(outcomes)])
    )
    LogCursor.objects.all().delete()
    assert drain_once(queue) == 1
    [row] = [each for each in shown(root, by=by, **limit).page if each.calls.all]
    found = row.calls
    assert (found.ok, found.refused, found.failed, found.error_rate) == (2, 1, 1, 0.25)
    for name, number in (("calls", 4), ("failed", 1), ("refused", 1)):
        if row.urls:
            assert len(root.get(row.urls[name]).context["timeline"].rows) == number


def test_refused_calls_are_counted_by_code_with_links_to_messages(root: Client, seeded: Seed) -> None:
    """The page of callers shows the same counts."""
    Message.objects.all().delete()
    codes = ["rate_limited", "rate_limited", "backlog_full"]
    lines = [line(str(number), outcome="tool_error") for number in range(4)]
    refused: Any = ListQueue(batch(*lines, refusals=[*enumerate(codes)]))
    assert drain_once(refused) == 1
    expected = [("rate_limited", 2), ("backlog_full", 1)]
    found = shown(root).refusals
    assert [(each.code, each.calls) for each, _ in found] == expected
    for each, address in found:
        assert len(root.get(address).context["timeline"].rows) == each.calls
    assert [each.calls for each, _ in shown(root, by="client", tool="echo").refusals] == [2, 1]
    assert shown(root, by="client", tool="slow").refusals == []
    callers = root.get(page("tool", "callers", seeded.echo.pk))
    assert [(each.code, each.calls) for each, _ in callers.context["refusals"]] == expected


def test_refused_calls_require_the_message_permission(client_of: ClientOf, seeded: Seed) -> None:
    refused: Any = ListQueue(batch(line("1"), refusals=[[0, "rate_limited"]]))
    drain_once(refused)
    seeded.outsider.user_permissions.set(Permission.objects.filter(codename__in=["view_tool", "view_user"]))
    answer = client_of("outsider").get(page("tool", "callers", seeded.echo.pk))
    assert answer.status_code == 200
    assert answer.context["refusals"] == []


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"by": "client", "tool": "echo", "range": "week"}, {"Tool": "echo", "Client": "Orion Desktop"}),
        ({"by": "principal", "client": "vega"}, {"Tool": "", "Client": "vega", "User": "local user"}),
        ({"by": "tool", "principal": "loopback"}, {"Tool": "slow", "User": "local user"}),
        ({"by": "time", "tool": "slow", "range": "day"}, {"Tool": "slow"}),
    ],
)
def test_csv_rows_name_tool_caller_period_and_zone(
    asked: dict[str, str], names: dict[str, str], root: Client, counted: Seed
) -> None:
    root.post("/zone/", {"zone": "Europe/Berlin"})
    answer = root.get(page("message", "figures"), {**asked, "format": "csv"})
    row, *_ = csv.DictReader(io.StringIO(answer.content.decode()))
    assert {name: row[name] for name in ("Tool", "Client", "User") if name in row} == names
    assert row["Time zone"] == "Europe/Berlin"
    begin, end = (datetime.strptime(row[name], "%Y-%m-%d %H:%M") for name in ("From", "To"))
    assert begin < end
    units = {"p50 (s)", "p95 (s)", "Total time (s)", "Data (bytes)", "Queue wait (s)"}
    assert units <= row.keys()
    name = re.search('filename="([^"]+)"', answer["Content-Disposition"])
    assert name is not None
    by = "user" if asked["by"] == "principal" else asked["by"]
    for part in (by, asked.get("tool", ""), f"{begin:%Y-%m-%d}", "Europe-Berlin.csv"):
        assert part in name[1]


@pytest.mark.parametrize("tool", [*ALL_HOSTILE.split("\n")[:3], 'x"; filename="y', "../../etc", "a\r\nb: c"])
def test_csv_file_name_has_only_harmless_characters(tool: str, root: Client, counted: Seed) -> None:
    answer = root.get(page("message", "figures"), {"tool": tool, "format": "csv"})
    name = re.fullmatch('attachment; filename="([^"]+)"', answer["Content-Disposition"])
    assert name is not None
    assert re.fullmatch(r"[A-Za-z0-9_.-]+\.csv", name[1])


@pytest.mark.parametrize("by", ["tool", "client", "principal", "time"])
def test_durations_and_bytes_are_summed(by: str, root: Client, counted: Seed) -> None:
    for model in (Rollup, CallerRollup, Message, LogCursor):
        model.objects.all().delete()
    text = '{"text":"höher"}'
    cut = line("3", ms=100.0, payload="x", answer="y")
    queue: Any = ListQueue(
        batch(line("1", ms=1_000.0, payload=text, answer="{}"), line("2", ms=500.0), cut, sizes=[[2, 90_000]])
    )
    drain_once(queue)
    (row,) = shown(root, by=by).table.rows
    size = len(text.encode()) + len("{}") + len("{}{}") + 90_000
    assert (row.calls.ms, row.calls.size) == (pytest.approx(1_600), size)
    assert Message.objects.get(request_id="3").size == 90_000
    text = root.get(page("message", "figures"), {"by": by}).content.decode()
    assert ">1.6 s<" in text
    assert ">88 KiB<" in text


def test_shown_percentiles_are_those_of_the_stored_durations(root: Client, counted: Seed) -> None:
    for model in (Rollup, CallerRollup, Message, LogCursor):
        model.objects.all().delete()
    chance = random.Random(7)
    durations = {
        "tiny": [chance.uniform(0.05, 0.2) for _ in range(99)],
        "mixed": [chance.uniform(0.05, 0.2) for _ in range(60)] + [chance.uniform(20, 90) for _ in range(40)],
        "usual": [chance.lognormvariate(4, 1) for _ in range(99)],
    }
    lines = [
        line(f"{at}", target=tool, ms=ms) for tool, found in durations.items() for at, ms in enumerate(found)
    ]
    queue: Any = ListQueue(batch(*lines))
    drain_once(queue)
    text = root.get(page("message", "figures")).content.decode()
    for tool in durations:
        stored = sorted(Message.objects.filter(target=tool).values_list("duration_ms", flat=True))
        for title, share in (("p50", 0.5), ("p95", 0.95)):
            true = next(ms for rank, ms in enumerate(stored, 1) if rank >= len(stored) * share)
            said = re.search(rf">{tool}<.*?data-name=\"{title}\">([^<]+)<", text, re.DOTALL)
            assert said is not None
            shown_text = unescape(said[1])
            if true < 1:
                assert shown_text == "<1 ms", (tool, title)
            else:
                number, unit = shown_text.split()
                milliseconds = float(number) * {"ms": 1, "s": 1_000}[unit]
                assert milliseconds == pytest.approx(true, rel=0.12), (tool, title)


def test_figures_of_one_caller_list_its_tools_clients_and_times(root: Client, counted: Seed) -> None:
    key = ApiKey.objects.get(name="laptop-2")
    ada = f"user:{counted.root.pk}/key:{key.pk}"
    assert numbers(shown(root, principal=ada)) == {"echo": (5, 0, 0)}
    assert numbers(shown(root, principal=ada, by="client")) == {"Orion Desktop": (5, 0, 0)}
    assert [row.calls.all for row in shown(root, principal=ada, by="time").table.rows] == [5]
    assert numbers(shown(root, client="vega")) == {"local user": (2, 1, 0)}
    assert numbers(shown(root, client="vega", by="tool")) == {"slow": (2, 1, 0)}
    assert numbers(shown(root, principal="nobody")) == {}
    found = shown(root, principal=ada)
    assert {"View key", "View user", "Log", "Sessions"} <= {title for title, _ in found.pages}
    for _, url in found.pages:
        assert root.get(url).status_code == 200
    for row in found.table.rows:
        assert len(root.get(row.urls["calls"]).context["timeline"].rows) == row.calls.all


def test_users_in_figures_link_to_their_pages(root: Client, counted: Seed) -> None:
    text = root.get(page("message", "figures"), {"by": "principal"}).content.decode()
    key = ApiKey.objects.get(name="laptop-2")
    assert f'href="{page("apikey", "change", key.pk)}"' in text
    assert f'href="/admin/auth/user/{counted.root.pk}/change/"' in text
