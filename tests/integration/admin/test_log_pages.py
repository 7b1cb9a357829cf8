"""Pages of the message log are complete, without duplicates and bounded while messages arrive."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.db import connection
from django.db.models import Q
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mcp_app.admin import timeline
from mcp_app.message_log import pages as log_pages
from mcp_app.message_log.log import MARKS
from mcp_app.message_log.pages import MessagePage, find
from mcp_app.message_log.search.language import parse
from mcp_app.message_log.writer import drain_once
from mcp_app.models import ErrorGroup, LogCursor, LogMinute, Message
from tests.integration.admin.addresses import page
from tests.samples.admin_seed import Seed, background_call, call
from tests.unit.sessions.queues import ListQueue, batch, line, opened

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SESSIONS = ["a" * 32, "b" * 32]


def traffic(chance: random.Random, count: int) -> list[list[Any]]:
    """Return lines of many kinds; some arrive minutes late."""
    return [
        line(
            str(chance.randrange(20)),
            session=chance.choice([*SESSIONS, None]),
            at=NOON.timestamp() + number * 7 - (chance.randrange(600) if chance.random() < 0.1 else 0),
            method=chance.choice(["tools/call", "tools/call", "ping"]),
            target=chance.choice(["echo", "count", ""]),
            outcome=chance.choice(["ok", "ok", "ok", "error", "tool_error"]),
            principal=chance.choice(["ada", "bob"]),
            direction=chance.choice(["in", "in", "out"]),
            payload=chance.choice(["some WORDS", "other"]),
            answer=chance.choice(["", "more words"]),
        )
        for number in range(count)
    ]


def store(lines: list[list[Any]]) -> None:
    LogCursor.objects.all().delete()
    parts = [lines[at : at + 9] for at in range(0, len(lines), 9)]
    queue: Any = ListQueue(
        batch(facts=[opened(each) for each in SESSIONS]), *[batch(*part) for part in parts]
    )
    while queue.batches:
        drain_once(queue)


ASKED: list[dict[str, Any]] = [
    {},
    {"session": SESSIONS[0]},
    {"method": "ping"},
    {"outcome": "ok", "method": "tools/call"},
    {"outcome": "error", "target": "echo"},
    {"direction": "out"},
    {"principal": "ada", "request_id": "7"},
    {"session": SESSIONS[1], "request_id": "3", "direction": "in"},
    {"text": "words"},
    {"text": "words", "session": SESSIONS[0], "outcome": "tool_error"},
    {"text": "never said"},
    {"since": NOON + timedelta(minutes=10), "until": NOON + timedelta(minutes=20)},
    {"since": NOON + timedelta(minutes=15, seconds=30), "target": "count"},
    {"until": NOON + timedelta(minutes=5), "method": "ping"},
    {"since": NOON + timedelta(days=1)},
    {"until": NOON - timedelta(days=1)},
    {"search": "tool:echo"},
    {"search": "status:error method:tools/call -user:ada"},
    {"search": "since:2026-11-20T12:05Z until:2026-11-20T12:10Z words"},
    {"search": "tool:echo", "target": "count"},
    {"search": "client:tests ms:>1", "outcome": "ok"},
    {"search": f"session:{SESSIONS[0]} dir:in status:tool_error"},
]


def naive(asked: dict[str, Any]) -> list[int]:
    found = Message.objects.all()
    for name, value in asked.items():
        match name:
            case "since":
                found = found.filter(at__gte=value)
            case "until":
                found = found.filter(at__lte=value)
            case "search":
                found = value.narrow(found)
            case "text":
                found = found.filter(Q(payload__icontains=value) | Q(answer__icontains=value))
            case _:
                found = found.filter(**{name: value})
    return list(found.order_by("pk").values_list("pk", flat=True))


def walk(
    asked: dict[str, Any], *, newest_first: bool, between: Any = None
) -> tuple[list[int], list[MessagePage]]:
    """Return the message ids of all pages in display order, and the pages."""
    seen: list[int] = []
    pages: list[MessagePage] = []
    place: dict[str, int | None] = {"before": None, "after": None}
    while True:
        found = find(asked, **place, newest_first=newest_first, size=6)
        ids = [message.pk for message in found.messages]
        seen += reversed(ids) if newest_first else ids
        pages.append(found)
        further = found.older if newest_first else found.newer
        if further is None:
            return seen, pages
        place = {"before": further, "after": None} if newest_first else {"before": None, "after": further}
        if between is not None:
            between()
        assert len(pages) < 200


@pytest.mark.parametrize("newest_first", [True, False], ids=["newest", "oldest"])
@pytest.mark.parametrize("window", [7, 20_000])
@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: "-".join(asked) or "all")
def test_all_pages_together_equal_an_unpaged_search(
    asked: dict[str, Any], window: int, newest_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pages, "WINDOW", window)
    monkeypatch.setattr(log_pages, "TEXT_WINDOW", window)
    store(traffic(random.Random(11), 150))
    if "search" in asked:
        asked = {**asked, "search": parse(asked["search"])}
    seen, pages = walk(asked, newest_first=newest_first)
    expected = naive(asked)
    assert seen == (expected[::-1] if newest_first else expected)
    for found in pages:
        # A page that is not full reports how far it searched, unless no row remains.
        further = found.older if newest_first else found.newer
        assert (found.looked_at > 0) == (further is not None and len(found.messages) < 6)
        assert (found.until is not None) == (found.looked_at > 0)


@pytest.mark.parametrize("newest_first", [True, False], ids=["newest", "oldest"])
@pytest.mark.parametrize("asked", [{}, {"method": "ping"}, {"target": "echo", "outcome": "ok"}])
def test_arriving_messages_are_neither_lost_nor_repeated(asked: dict[str, Any], newest_first: bool) -> None:
    chance = random.Random(5)
    store(traffic(chance, 60))
    before = naive(asked)
    arriving = iter(range(8))

    def arrive() -> None:
        if next(arriving, None) is not None:
            store(traffic(chance, 5))

    seen, _ = walk(asked, newest_first=newest_first, between=arrive)
    assert len(seen) == len(set(seen))
    assert set(before) <= set(seen)
    assert seen == (sorted(seen, reverse=True) if newest_first else naive(asked))


def test_previous_page_link_returns_the_same_page() -> None:
    store(traffic(random.Random(3), 40))
    first = find({}, before=None, after=None, newest_first=True, size=6)
    second = find({}, before=first.older, after=None, newest_first=True, size=6)
    back = find({}, before=None, after=second.newer, newest_first=True, size=6)
    assert first.newer is None
    assert back.messages == first.messages


@pytest.mark.parametrize("newest_first", [True, False], ids=["newest", "oldest"])
@pytest.mark.parametrize("window", [3, 20_000])
def test_previous_link_of_an_empty_page_skips_no_row(
    window: int, newest_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pages, "WINDOW", window)
    store(traffic(random.Random(3), 12))
    every = naive({})
    # All rows after the page were deleted meanwhile, so the next page is empty.
    kept = every[6:] if newest_first else every[:6]
    page = find({}, before=None, after=None, newest_first=newest_first, size=6)
    assert [message.pk for message in page.messages] == kept
    Message.objects.exclude(pk__in=kept).delete()
    place = {"before": page.older, "after": None} if newest_first else {"before": None, "after": page.newer}
    empty = find({}, **place, newest_first=newest_first, size=6)
    assert empty.messages == []
    place = {"before": None, "after": empty.newer} if newest_first else {"before": empty.older, "after": None}
    back = find({}, **place, newest_first=newest_first, size=6)
    assert [message.pk for message in back.messages] == kept


@pytest.mark.parametrize("place", [{"before": 0, "after": None}, {"before": None, "after": 2**63 - 1}])
def test_pages_beyond_either_end_link_back_with_valid_positions(
    root: Client, place: dict[str, int | None]
) -> None:
    found = find({}, **place, newest_first=True, size=6)
    assert found.messages == []
    back = {"after": found.newer} if place["before"] is not None else {"before": found.older}
    answer = root.get("/admin/mcp_app/message/", back)
    assert not answer.context["timeline"].form.errors


@pytest.mark.parametrize(
    "query",
    [
        "",
        "order=oldest",
        "method=ping",
        "target=echo&outcome=ok&text=hi",
        "since=2026-11-20T12:00:00&direction=in",
    ],
)
@pytest.mark.parametrize("where", ["log", "session"])
def test_log_pages_avoid_full_counts_offsets_and_extra_queries(
    where: str, query: str, root: Client, seeded: Seed
) -> None:
    address = (
        page("message", "changelist") if where == "log" else page("session", "change", seeded.session.pk)
    )

    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert root.get(f"{address}?{query}").status_code == 200
        return [each["sql"] for each in captured]

    few = queries()
    for sql in few:
        assert "OFFSET" not in sql, sql
        # Only a window is counted: a subquery with a limit.
        assert "COUNT(" not in sql or "LIMIT" in sql, sql
    for number in range(200, 260):
        call(seeded.session, number)
    assert len(queries()) <= len(few) + 1  # One more query for the time of the last searched row.


def test_partial_page_reports_its_reach_and_links_further(
    root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pages, "TEXT_WINDOW", 10)
    text = root.get(page("message", "changelist") + "?text=web").content.decode()
    assert "Searched 10 messages, up to" in text
    assert "Search more</a>" in text
    assert "No messages match so far." in text


def test_time_filter_restricts_the_query_by_id() -> None:
    store(traffic(random.Random(1), 120))
    with CaptureQueriesContext(connection) as captured:
        found = find(
            {"since": NOON + timedelta(minutes=4), "until": NOON + timedelta(minutes=5)},
            before=None,
            after=None,
            newest_first=True,
            size=6,
        )
    assert found.messages
    places = LogMinute.objects.filter(at__lte=NOON + timedelta(minutes=5))
    last = max(places.values_list("last_id", flat=True))
    pages = [each["sql"] for each in captured if "mcp_app_message" in each["sql"]]
    assert pages
    assert all(f"<= {last}" in sql for sql in pages)


@pytest.mark.parametrize(
    ("method", "order", "hits", "looks"),
    [("ping", "", 0, 1), ("initialize", "", 1, 1), ("initialize", "oldest", 1, 2), ("tools/call", "", 61, 2)],
)
def test_newest_page_that_holds_all_hits_takes_one_query(
    method: str, order: str, hits: int, looks: int, root: Client, seeded: Seed
) -> None:
    asked = {"session": seeded.session.pk, "method": method, "direction": "in", "order": order}
    with CaptureQueriesContext(connection) as captured:
        shown = root.get(page("message", "changelist"), asked).context["timeline"]
    assert (len(shown.rows), shown.tally.hits, shown.tally.whole) == (min(hits, 50), hits, True)
    values = dict(shown.tally.values["method"])
    assert values == ({method: hits} if hits else {})
    assert sum(f"'{method}'" in each["sql"] for each in captured) == looks


def test_log_search_matches_console_syntax_and_its_facets(root: Client) -> None:
    store(traffic(random.Random(3), 80))
    everything = naive({"search": parse("tool:echo status:error")})
    shown = root.get(page("message", "changelist"), {"q": "tool:echo status:error"}).context["timeline"]
    assert sorted(row.message.pk for row in shown.rows) == everything[-50:]
    assert shown.hits == f"{len(everything)} messages match."
    (status,) = [facet for facet in shown.facets if facet.title == "Status"]
    assert sum(value.number for value in status.values) == len(everything)
    assert {value.title for value in status.values} == {"failed (tool error)", "failed (protocol error)"}
    for value in filter(lambda value: value.url, status.values):
        narrowed = root.get(page("message", "changelist") + value.url).context["timeline"]
        assert narrowed.tally.hits == value.number


def test_facet_counts_cover_every_message(root: Client) -> None:
    many = [line(str(at), target=f"tool_{at}", session=SESSIONS[0]) for at in range(9)]
    unknown = [line("u", target="", outcome="error", session=SESSIONS[0])]
    heard = [line("", method="", target="", outcome="", kind="notification", session=SESSIONS[0])]
    store([*many, *unknown, *heard])
    shown = root.get(page("message", "changelist"), {"session": SESSIONS[0]})
    found = {facet.title: facet.values for facet in shown.context["timeline"].facets}
    assert {title: sum(value.number for value in values) for title, values in found.items()} == dict.fromkeys(
        ["Status", "Method", "Tool, prompt or resource"], 11
    )
    rest = [(value.title, value.number) for value in found["Tool, prompt or resource"] if not value.url]
    assert rest == [("none, or unknown", 2), ("other", 3)]
    assert ("no status", 1) in [(value.title, value.number) for value in found["Status"]]


def test_capped_count_is_labelled_at_least(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    store(traffic(random.Random(3), 80))
    monkeypatch.setattr(log_pages, "COUNTED", 5)
    shown = root.get(page("message", "changelist"), {"q": "dir:in"}).context["timeline"]
    assert shown.hits == "At least 5 messages match."


def test_search_without_hits_says_so_once(root: Client, seeded: Seed) -> None:
    text = root.get(page("message", "changelist"), {"q": "tool:nothing-of-that-name"}).content.decode()
    assert text.count("messages match") == text.count("No messages match.") == 1


def test_invalid_search_is_explained_and_lists_no_rows(root: Client) -> None:
    store(traffic(random.Random(3), 20))
    answer = root.get(page("message", "changelist"), {"q": "colour:red"})
    assert answer.context["timeline"].rows == []
    assert "Unknown search term “colour:”" in answer.content.decode()


def test_messages_of_several_processes_are_ordered_by_time(root: Client) -> None:
    # The second process wrote its lines first.
    at = NOON.timestamp()
    store([line(str(number), at=at + number, session=SESSIONS[0]) for number in (2, 4, 1, 3)])
    for address in (page("message", "changelist"), page("session", "change", SESSIONS[0])):
        asked = {"session": SESSIONS[0]} if "message" in address else {}
        for order, expected in ("", "4321"), ("oldest", "1234"):
            shown = root.get(address, {**asked, "order": order}).context["timeline"].rows
            assert "".join(row.message.request_id for row in shown) == expected


@pytest.mark.parametrize("kind", sorted(MARKS))
def test_mark_is_labelled_as_a_mark(root: Client, kind: str) -> None:
    store([line("1", kind=kind, outcome="", answer="", ms=None, session=SESSIONS[0])])
    pk = Message.objects.get(kind=kind).pk
    for address in (f"{page('message', 'changelist')}?q=kind:{kind}", page("message", "change", pk)):
        text = root.get(address).content.decode()
        assert re.search(rf'<span class="mcp-badge [^>]*>{timeline.MARKS[kind].word}</span>', text)
        assert re.search(r'<span class="mcp-hidden">(no response|the c)', text)
        assert '<span class="mcp-hidden">client' not in text


def test_message_row_shows_summary_user_and_client(root: Client) -> None:
    said = "Division by zero has no value."
    failed = json.dumps({"result": {"content": [{"type": "text", "text": said}]}})
    asked = json.dumps({"params": {"name": "calculate", "arguments": {"expression": "1/0"}}})
    about = {"tool_error": f"{said}</bdi>", "ok": "{&quot;expression&quot;:&quot;1/0&quot;}</bdi>"}
    store(
        [
            line(str(number), session=SESSIONS[0], outcome=outcome, payload=asked, answer=failed)
            for number, outcome in enumerate(about)
        ]
    )
    in_log = f"{page('message', 'changelist')}?session={SESSIONS[0]}"
    of_error = page("message", "error", ErrorGroup.objects.get().pk)
    for address, outcomes in ((in_log, [*about]), (of_error, ["tool_error"])):
        text = root.get(address).content.decode()
        rows = re.findall(r'<span class="mcp-line-text">(.*?)</summary>', text, re.DOTALL)
        for row, outcome in zip(rows, reversed(outcomes), strict=True):
            assert about[outcome] in row
            assert [name for name in ("local user", "tests") if f"{name}</bdi>" not in row] == []
    shown = root.get(page("session", "change", SESSIONS[0])).content.decode()
    assert re.search(r'data-tone="bad">', shown)
    assert f'mcp-line-text"><bdi class="mcp-text">{about["tool_error"]}' in shown


def test_message_page_links_client_tool_call_and_bench(root: Client, viewer: Client, seeded: Seed) -> None:
    message = call(seeded.session, 900)
    background = background_call(seeded.session.pk, 900)
    address, tool = page("message", "change", message.pk), seeded.echo.pk
    text = root.get(address).content.decode()
    links = {
        page("session", "change", seeded.session.pk): f"{seeded.session.client_name}</bdi>",
        f"{page('call', 'changelist')}?q={seeded.session.pk}": "Background calls",
        f"{page('tool', 'try', tool)}?message={message.pk}": "Replay…",
        page("call", "change", background.pk): "View call",
        page("tool", "change", tool): "View tool",
    }
    found = dict(re.findall(r'<a[^>]* href="([^"]*)">(?:<bdi [^>]*>)?([^<]*(?:</bdi>)?)</a>', text))
    assert {url: found.get(url) for url in links} == links
    assert [root.get(url).status_code for url in links] == [200] * len(links)
    assert f'id="mcp-address">http://testserver{address}</span>' in text
    assert "Replay…</a>" not in viewer.get(address).content.decode()
    plain = root.get(page("message", "change", call(None, 901, method="ping", target="").pk)).content.decode()
    assert [words for words in ("Replay", "View tool", "View call", "<dt>Client") if words in plain] == []


def test_message_page_shows_when_the_request_was_received(root: Client, seeded: Seed) -> None:
    at = datetime(2026, 11, 20, 12, 1, 30, tzinfo=UTC)
    message = call(seeded.session, 900, at=at, duration_ms=61_250.0)
    text = root.get(page("message", "change", message.pk)).content.decode()
    shown = re.findall(r"<dt>(Request received|Response sent)</dt><dd><time [^>]*>([^<]*)</time>", text)
    assert shown == [("Request received", "12:00:28.750"), ("Response sent", "12:01:30.000")]
    # Beside the arrow from client to server stands the time of the request.
    assert re.search(r'<header class="mcp-message-head">.*?</time>', text, re.DOTALL)[0].count("12:00:28.750")
    listed = root.get(page("message", "changelist"), {"q": "id:900"}).content.decode()
    (row,) = re.findall(r"data-received>.*?</span>", listed, re.DOTALL)
    assert row.index("12:00:28.750") < row.index("12:01:30.000")
    event = call(seeded.session, 901, duration_ms=None)
    assert "<dt>Response sent" not in root.get(page("message", "change", event.pk)).content.decode()


def test_rare_filters_are_folded_and_recent_periods_are_links(root: Client, seeded: Seed) -> None:
    def shown(**asked: str) -> Any:
        return root.get(page("message", "changelist"), asked).context["timeline"]

    found = shown()
    names = [field.name for field in found.fields]
    assert names == ["q", "target", "principal", "outcome"]
    assert not {*names} & {field.name for field in found.folded}
    assert {*names} | {field.name for field in found.folded} | {"before", "after"} == {*found.form.fields}
    assert (shown().used, shown(q="ping").used) == (0, 0)
    assert (shown(order="oldest").used, shown(until="x", since="2h").used) == (1, 2)
    asked = {"q": "tool:echo since:3h", "outcome": "ok", "since": "2026-11-20T12:00:00", "until": ""}
    quarter, hour, today = shown(**asked).recent
    assert parse_qs(quarter.url[1:]) == {"q": ["tool:echo since:15m"], "outcome": ["ok"]}
    again = root.get(page("message", "changelist") + hour.url).context["timeline"]
    assert [each.chosen for each in again.recent] == [False, True, False]
    assert again.text == "tool:echo since:1h status:succeeded"
    assert root.get(page("message", "changelist") + today.url).status_code == 200


def _notified(count: int, at: float, method: str = "notifications/resources/list_changed") -> list[Any]:
    return [
        line(
            "", session=f"{number:032x}", at=at + number / 100, method=method, target="", outcome="",
            answer="", ms=None, kind="notification", direction="out", payload=f'{{"method":"{method}"}}',
        )
        for number in range(count)
    ]  # fmt: skip


def test_change_that_many_sessions_are_notified_of_is_one_row(root: Client) -> None:
    Message.objects.all().delete()
    at = NOON.timestamp()
    before = [line(str(number), at=at - 9, session=SESSIONS[0]) for number in range(3)]
    store([*before, *_notified(130, at), *_notified(2, at + 60), line("last", at=at + 61)])
    log = page("message", "changelist")
    rows = root.get(log).context["timeline"].rows
    assert [(row.message.request_id, row.notified) for row in rows] == [
        ("last", 0), ("", 2), ("", 130), ("2", 0), ("1", 0), ("0", 0),
    ]  # fmt: skip
    assert "notified 130 sessions" in root.get(log).content.decode()
    # Each notification is found by its method, and on the page of its session.
    every = root.get(log + rows[2].each_url).context["timeline"]
    assert (every.tally.hits, len(every.rows), {row.notified for row in every.rows}) == (130, 50, {0})
    of_one = root.get(log, {"session": f"{7:032x}"}).context["timeline"].rows
    assert [row.notified for row in of_one] == [0]


def test_grouped_rows_are_paged_in_both_directions(root: Client) -> None:
    Message.objects.all().delete()
    at = NOON.timestamp()
    calls = [line(str(number), at=at + number, session=SESSIONS[0]) for number in range(80)]
    store([*calls[:40], *_notified(120, at + 39.5), *calls[40:]])
    for order in ("", "oldest"):
        address, seen = f"?order={order}", []
        while address:
            shown = root.get(page("message", "changelist") + address).context["timeline"]
            seen += [row.message.request_id for row in shown.rows if row.message.request_id]
            following = shown.older if shown.newest_first else shown.newer
            address = f"?{following}" if following else ""
        expected = [str(number) for number in range(80)]
        assert seen == (expected if order else expected[::-1])


def test_unknown_tool_row_shows_the_requested_name(root: Client) -> None:
    payload = json.dumps({"params": {"name": "no_such\u202e", "arguments": {"a": 1}}})
    store([line("1", target="", outcome="error", payload=payload, session=SESSIONS[0])])
    text = root.get(page("message", "changelist")).content.decode()
    assert re.search(r'<span class="mcp-unknown"[^>]*><bdi class="mcp-text">no_such', text)
    assert "\u202e" not in text
