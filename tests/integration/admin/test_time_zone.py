"""Time zones of users: on pages, in files, in form input and in searches."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from mcp_app.auth.time_zone import choose_zone, zone_of
from mcp_app.integrations.time_zone import TimeZoneMiddleware
from mcp_app.message_log.search.language import parse
from mcp_app.message_log.search.times import NotATime, begin_of, end_of
from mcp_app.models import ApiKey, Message, TimeZoneChoice
from mcp_app.protocol.scopes import ALL
from tests.integration.admin.addresses import page
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.postgres
# Half past two at night in Berlin, the day before in New York.
AT = datetime(2026, 3, 2, 1, 30, 5, tzinfo=UTC)
SHOWN = {
    "UTC": "2026-03-02 01:30:05",
    "Europe/Berlin": "2026-03-02 02:30:05",
    "America/New_York": "2026-03-01 20:30:05",
    "Asia/Kathmandu": "2026-03-02 07:15:05",
}
OWN = settings.TIME_ZONE


def choose(client: Client, zone: str, **more: str) -> Any:
    return client.post(reverse("mcp_zone"), {"zone": zone, **more})


def message(seeded: Seed) -> Message:
    Message.objects.filter(pk=seeded.message.pk).update(at=AT)
    return seeded.message


@pytest.mark.parametrize("zone", SHOWN)
def test_pages_show_times_in_the_chosen_zone(zone: str, root: Client, seeded: Seed) -> None:
    choose(root, zone)
    ApiKey.objects.filter(pk=seeded.key.pk).update(created_at=AT)
    for address in (page("message", "change", message(seeded).pk), page("apikey", "change", seeded.key.pk)):
        text = root.get(address).content.decode()
        assert SHOWN[zone] in text
        assert f"zone={zone.replace('/', '%2F')}&" in text


def test_chosen_zone_is_stored_per_account(root: Client, viewer: Client, seeded: Seed) -> None:
    choose(root, "Asia/Kathmandu")
    again = Client()
    again.force_login(seeded.root)
    address = page("message", "change", message(seeded).pk)
    assert SHOWN["Asia/Kathmandu"] in again.get(address).content.decode()
    assert SHOWN["Asia/Kathmandu"] not in viewer.get(address).content.decode()
    assert str(timezone.get_current_timezone()) == OWN


def test_choosing_the_project_zone_deletes_the_choice(root: Client) -> None:
    choose(root, "Asia/Kathmandu")
    choose(root, OWN)
    assert not TimeZoneChoice.objects.exists()


@pytest.mark.parametrize(
    "zone",
    ["", "Mars/Olympus", "../UTC", "/etc/passwd", "right/UTC", "posix/UTC", "x" * 65, "UTC\x00", "a b"],
)
def test_invalid_zone_changes_nothing(zone: str, root: Client) -> None:
    choose(root, "Asia/Kathmandu")
    answer = root.post(reverse("mcp_zone"), {"zone": zone}, follow=True)
    assert "Unknown time zone" in " ".join(str(each) for each in answer.context["messages"])
    assert TimeZoneChoice.objects.get().zone == "Asia/Kathmandu"


def test_unavailable_zone_falls_back_to_the_project_zone(seeded: Seed) -> None:
    TimeZoneChoice.objects.create(user=seeded.root, zone="Gone/Zone")
    assert zone_of(seeded.root) is None


@pytest.mark.parametrize(
    ("following", "to"),
    [("/admin/?range=week", "/admin/?range=week"), ("//evil.example/", "/zone/"), ("", "/zone/")],
)
def test_choosing_a_zone_redirects_to_a_local_page(following: str, to: str, root: Client) -> None:
    assert choose(root, "UTC", next=following).headers["Location"] == to


def test_anonymous_request_keeps_the_zone_without_a_query() -> None:
    seen = []
    middleware = TimeZoneMiddleware(
        lambda _: seen.append(timezone.get_current_timezone_name()) or HttpResponse()
    )
    with timezone.override("Asia/Kathmandu"):
        middleware(RequestFactory().get("/"))
        assert seen == [timezone.get_current_timezone_name()] == ["Asia/Kathmandu"]


@pytest.mark.parametrize("zone", SHOWN)
def test_log_filter_uses_the_chosen_zone_and_links_use_utc(zone: str, root: Client, seeded: Seed) -> None:
    choose(root, zone)
    Message.objects.all().delete()
    for offset in range(-60, 60):
        Message.objects.create(
            at=AT + timedelta(seconds=offset), direction="in", kind="request", method="ping"
        )
    entered = SHOWN[zone].replace(" ", "T")
    answer = root.get(page("message", "changelist"), {"since": entered})
    found = answer.context["timeline"]
    assert min(row.message.at for row in found.rows) >= AT
    assert f'value="{SHOWN[zone]}"' in answer.content.decode()
    assert parse_qs(found.older)["since"] == ["2026-03-02T01:30:05Z"]
    linked = root.get(page("message", "changelist"), {"since": "2026-03-02T01:30:05Z"})
    assert linked.context["timeline"].tally.hits == found.tally.hits == 60
    assert f'value="{SHOWN[zone]}"' in linked.content.decode()
    assert found.text == "since:2026-03-02T01:30:05Z"


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize(
    "entered",
    ["0001-01-01T00:00:00", "9999-12-31T23:59:59", "2026-03-29T02:30:00", "soon", "0001-01-01T00:00:00Z"],
)
def test_extreme_time_filters_return_200(entered: str, zone: str, root: Client) -> None:
    choose(root, zone)
    assert root.get(page("message", "changelist"), {"since": entered, "until": entered}).status_code == 200


@pytest.mark.parametrize(
    ("zone", "words", "begin", "end"),
    [
        ("UTC", "2026-03-02", "2026-03-02T00:00:00", "2026-03-02T23:59:59.999999"),
        ("Europe/Berlin", "2026-03-02", "2026-03-01T23:00:00", "2026-03-02T22:59:59.999999"),
        ("America/New_York", "2026-03-02T01:30", "2026-03-02T06:30:00", "2026-03-02T06:30:59.999999"),
        ("America/New_York", "2026-03-02T01:30Z", "2026-03-02T01:30:00", "2026-03-02T01:30:59.999999"),
        # A day of 23 hours, and a day of 25.
        ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00", "2026-03-29T21:59:59.999999"),
        ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00", "2026-10-25T22:59:59.999999"),
    ],
)
def test_search_times_use_the_chosen_zone(zone: str, words: str, begin: str, end: str) -> None:
    with timezone.override(zone):
        assert begin_of(words) == datetime.fromisoformat(begin).replace(tzinfo=UTC)
        assert end_of(words) == datetime.fromisoformat(end).replace(tzinfo=UTC)


@pytest.mark.parametrize("words", ["0001-01-01", "9999-12-31"])
def test_search_times_at_the_ends_of_the_calendar_parse_or_fail_cleanly(words: str) -> None:
    for zone in ("Europe/Berlin", "America/New_York"):
        with timezone.override(zone):
            for read in (begin_of, end_of):
                try:
                    assert read(words).tzinfo is UTC
                except NotATime:
                    assert parse(f"since:{words} until:{words}").problems


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu"])
def test_today_begins_at_midnight_of_the_zone(zone: str) -> None:
    with timezone.override(zone):
        begin = timezone.localtime(begin_of("today"))
        assert (begin.hour, begin.minute) == (0, 0)
        assert begin.date() == datetime.now(begin.tzinfo).date()
        assert timezone.localtime(begin_of("14:05")).strftime("%H:%M") == "14:05"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_figures_csv_names_its_zone(zone: str, root: Client) -> None:
    choose(root, zone)
    asked = {"by": "time", "range": "week", "format": "csv"}
    text = root.get(page("message", "figures"), asked).content.decode()
    head, row, *_ = csv.reader(io.StringIO(text))
    assert row[head.index("Time zone")] == zone


def test_figures_links_use_utc(root: Client) -> None:
    choose(root, "America/New_York")
    shown = root.get("/admin/", {"range": "day"}).content.decode()
    links = [part.partition('"')[0] for part in shown.split('href="') if "since=" in part.partition('"')[0]]
    assert links
    for link in links:
        (since,) = parse_qs(urlsplit(link.replace("&amp;", "&")).query)["since"]
        assert since.endswith("Z")


def test_key_expiry_is_read_in_the_chosen_zone(root: Client, seeded: Seed) -> None:
    choose(root, "America/New_York")
    day = (timezone.now() + timedelta(days=9)).date()
    told = {
        "user": seeded.root.pk,
        "name": "desk",
        "expires_at_0": str(day),
        "expires_at_1": "20:30:00",
        "scopes": ALL,
    }
    root.post(page("apikey", "add"), told)
    key = ApiKey.objects.get(name="desk")
    assert key.expires_at is not None
    with timezone.override("America/New_York"):
        assert timezone.localtime(key.expires_at).strftime("%Y-%m-%d %H:%M") == f"{day} 20:30"


def test_zone_choice_is_deleted_with_its_user(seeded: Seed) -> None:
    somebody = get_user_model().objects.create_user("somebody")
    choose_zone(user=somebody, name="Asia/Kathmandu")
    somebody.delete()
    assert not TimeZoneChoice.objects.exists()
