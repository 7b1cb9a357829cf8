"""The filter form of the message log: errors, times and links."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mcp_app.models import Message
from tests.integration.admin.addresses import page
from tests.samples.admin_seed import Seed, background_call


def _text(client: Client, address: str) -> str:
    return client.get(address).content.decode()


def test_search_example_finds_slow_messages(root: Client, seeded: Seed) -> None:
    log = page("message", "changelist")
    assert "ms:&gt;5000" in _text(root, log)
    Message.objects.filter(pk=seeded.message.pk).update(duration_ms=126_468.3)
    rows = root.get(log, {"q": "ms:>5000"}).context["timeline"].rows
    assert [row.message.pk for row in rows] == [seeded.message.pk]
    assert '<span class="mcp-took">2 min 06 s</span>' in _text(root, f"{log}?q=ms:>5000")
    assert '<span class="mcp-time">2 min 06 s</span>' in _text(
        root, page("message", "change", seeded.message.pk)
    )


def test_filter_error_appears_once_below_the_form(root: Client, seeded: Seed) -> None:
    text = _text(root, page("message", "changelist") + "?q=duration:5&since=sometime")
    form, _, below = text.partition("data-drop-empty>")[2].partition("</form>")
    assert "Unknown search term" not in form
    assert "errorlist" not in text
    assert below.count("Unknown search term “duration:”") == 1
    assert below.count("From: A time is such as 2026-11-23 14:05") == 1
    assert "No messages match" not in text
    assert form.count('aria-describedby="mcp-filter-problems"') == 2


@pytest.mark.parametrize("written", ["2026-11-20 12:00:55", "2026-11-20T12:00:55", "2026-11-20T12:00:55Z"])
def test_time_filter_accepts_displayed_and_relative_times(written: str, root: Client, seeded: Seed) -> None:
    address = page("session", "change", seeded.session.pk)
    found = root.get(address, {"since": written, "until": "2026-11-20 12:00"}).context["timeline"]
    assert len(found.rows) == 5
    text = _text(root, f"{address}?since={written}")
    assert re.search(r'<input type="text" name="since" value="2026-11-20 12:00:55"', text)
    for short in ("2h", "today", "yesterday", "14:05"):
        assert root.get(address, {"since": short}).context["timeline"].form.errors == {}


@pytest.mark.parametrize("model", ["session", "message", "call"])
def test_link_to_all_rows_drops_previous_filters(model: str, root: Client, seeded: Seed) -> None:
    row = getattr(seeded, model).pk
    text = _text(root, page(model, "change", row) + "?_changelist_filters=state%3Dopen%26q%3Dclaude")
    (link,) = re.findall(r'href="([^"]*)">(?:All sessions|Back to log|All background calls)<', text)
    assert link == page(model, "changelist")


@pytest.mark.parametrize("model", ["session", "message"])
def test_message_pages_have_a_search_field(model: str, root: Client, seeded: Seed) -> None:
    address = (
        page("message", "changelist") if model == "message" else page(model, "change", seeded.session.pk)
    )
    search = _text(root, address).partition('role="search"')[2].partition("</form>")[0]
    assert 'type="search" name="q"' in search


def test_call_list_shows_queue_time_in_one_line(root: Client, seeded: Seed) -> None:
    at = timezone.now()
    background_call("s", 1, accepted_at=at, started_at=at + timedelta(milliseconds=53), finished_at=at)
    assert '<div class="mcp-dim">queue wait 53 ms</div>' in _text(root, page("call", "changelist"))


def test_log_without_a_filter_counts_no_values(root: Client, seeded: Seed) -> None:
    shown = root.get(page("message", "changelist"), {"order": "oldest"}).context["timeline"]
    assert (len(shown.rows), shown.tally, shown.facets) == (50, None, [])


def test_log_facets_filter_by_user_key_and_client(root: Client, seeded: Seed) -> None:
    principal = f"user:{seeded.root.pk}/key:{seeded.key.pk}"
    Message.objects.filter(session=seeded.session).update(principal=principal)
    log = page("message", "changelist")
    shown = root.get(log, {"since": "2026-01-01"}).context["timeline"]
    facets = {facet.title: facet.values for facet in shown.facets}
    (who,) = [value for value in facets["User"] if value.title == f"root · {seeded.key.name}"]
    (client,) = [value for value in facets["Client"] if value.title == seeded.session.client_name]
    assert who.number == client.number == 63
    for value in (who, client):
        assert root.get(log + value.url).context["timeline"].tally.hits == 63
