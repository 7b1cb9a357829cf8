"""The doctor's page: permissions, shown findings and time limits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connections
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings as DjangoSettings

from mcp_app.admin.doctor import TITLES
from mcp_app.auth import tokens
from mcp_app.auth.roles import make_roles
from mcp_app.doctor import AREAS, Finding, Installation, examination
from mcp_app.doctor.finding import error, ok, skipped
from mcp_app.models import ApiKey
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.integration.admin.test_hostile_text import Page
from tests.samples.admin_seed import ALL_HOSTILE, HOSTILE, RAW_HIDDEN, RAW_MARKUP, Seed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ADDRESS = "/admin/mcp_app/doctor/"


@pytest.fixture
def seeded(seeded_anew: Seed) -> Seed:
    return seeded_anew


@pytest.fixture(autouse=True)
def _no_address(settings: DjangoSettings) -> None:
    """Configure no public address, so that no network request is made."""
    settings.MCP = {**settings.MCP, "PUBLIC_URL": ""}


@pytest.fixture
def operator(client_of: ClientOf, seeded: Seed) -> Client:
    make_roles()
    seeded.viewer.user_permissions.clear()
    seeded.viewer.groups.set(Group.objects.filter(name="MCP operator"))
    return client_of("viewer")


def read(client: Client, **posted: str) -> tuple[int, str, str]:
    """Run an examination; return the status, the page and its text."""
    answer = client.post(ADDRESS, posted)
    text = answer.content.decode()
    return answer.status_code, text, " ".join("".join(Page(text).read).split())


def test_doctor_page_examines_only_on_request(operator: Client) -> None:
    assert page("doctor", "changelist") == ADDRESS
    text = operator.get(ADDRESS).content.decode()
    assert "Run checks" in text
    assert "changes nothing" not in text
    assert "data-doctor-result" not in text


def test_findings_are_shown_by_area_with_remedies(operator: Client) -> None:
    status, text, seen = read(operator)
    assert status == 200
    for title in ("Settings", "Database", "Redis", "Workers and beat", "API keys", "Public address"):
        assert f"<h2>{title}</h2>" in text
    assert "settings.secret_key SECRET_KEY is long enough" in seen
    assert "the public address is unknown Set PUBLIC_URL, or pass --url." in seen
    assert "this page is served by WSGI" in seen
    assert 'mcp-badge-warn">warning</span>' in text
    assert timezone.now().strftime("%Y-%m-%d") in seen


@pytest.mark.parametrize(("role", "status"), [("root", 200), ("viewer", 403), ("outsider", 403)])
def test_doctor_page_requires_its_permission(role: str, status: int, client_of: ClientOf) -> None:
    client = client_of(role)
    assert client.get(ADDRESS).status_code == status
    assert client.post(ADDRESS).status_code == status
    index = client.get("/admin/").content.decode()
    assert (ADDRESS in index) is (status == 200)


def test_doctor_page_requires_login_and_csrf_token(client: Client, seeded: Seed) -> None:
    assert client.get(ADDRESS)["Location"].startswith("/admin/login/")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(seeded.root)
    assert strict.post(ADDRESS).status_code == 403


def test_findings_escape_hostile_names(operator: Client, seeded: Seed) -> None:
    soon = timezone.now() + timedelta(days=2)
    ApiKey.objects.filter(pk=seeded.key.pk).update(name=ALL_HOSTILE[:100], expires_at=soon)
    _, text, seen = read(operator)
    assert "expire within 14 days" in seen
    assert not [raw for raw in RAW_MARKUP if raw in text]
    assert not set(RAW_HIDDEN) & set(seen)
    assert not Page(text).handlers


@pytest.mark.parametrize("key", ["secret key with blanks", HOSTILE["svg"] + "\u202e", "x" * 201])
def test_unusable_key_is_refused_and_not_echoed(key: str, operator: Client) -> None:
    status, text, _ = read(operator, key=key)
    assert status == 200
    assert "mcp-note-bad" in text
    assert "data-doctor-result" not in text
    assert key not in text


def test_valid_key_is_not_echoed(operator: Client) -> None:
    status, text, _ = read(operator, key="mcp_AAAAAAAAAAAAAAAAAAAAAAAAAAAA")
    assert status == 200
    assert "data-doctor-result" in text
    assert "mcp_AAAA" not in text


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Replace the examination by one area that waits for the event and one that finishes immediately."""
    go_on, begun = threading.Event(), threading.Event()

    def waits(_: Installation) -> Iterator[Finding]:
        begun.set()
        go_on.wait(30)
        yield ok("redis.waits", "at last")

    def through(_: Installation) -> Iterator[Finding]:
        yield error("database.through", "it is broken", "Mend it.")
        yield skipped("other.area", "nothing to look at")

    areas = (examination.Area("redis", (waits,), seconds=20), examination.Area("database", (through,)))
    monkeypatch.setattr(examination.examine_alone, "__defaults__", (areas,))
    go_on.begun = begun  # type: ignore[attr-defined]
    yield go_on
    go_on.set()


def test_second_concurrent_examination_returns_409(
    operator: Client, root: Client, stuck: threading.Event
) -> None:
    first: list[int] = []

    def ask() -> None:
        try:
            first.append(read(root)[0])
        finally:
            connections.close_all()  # No other code closes the connections of this thread.

    asking = threading.Thread(target=ask)
    asking.start()
    assert stuck.begun.wait(10)  # type: ignore[attr-defined]
    status, _, seen = read(operator)
    assert (status, "Another user is running checks." in seen) == (409, True)
    stuck.set()
    asking.join(20)
    assert first == [200]
    assert read(operator)[0] == 200


def test_hanging_area_is_reported_within_the_time_limit(
    operator: Client, stuck: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_app.admin.doctor.SECONDS", 3.0)
    status, text, seen = read(operator)
    assert status == 200
    assert "not finished within 3 s" in seen
    assert "it is broken Mend it." in seen
    # Worst findings first, areas in their order, unknown areas last.
    assert text.index("Database") < text.index("Redis</h2>") < text.index("other.area")


@pytest.fixture
def installations(monkeypatch: pytest.MonkeyPatch) -> list[Installation]:
    """Record the installations that are examined, with their credentials."""
    found: list[Installation] = []

    def examine(installation: Installation) -> Iterator[Finding]:
        found.append(installation)
        yield ok("web.event_stream", "it flows")

    areas = (examination.Area("web", (examine,)),)
    monkeypatch.setattr(examination.examine_alone, "__defaults__", (areas,))
    return found


def test_checks_connect_as_the_signed_in_user_without_a_pasted_key(
    operator: Client, seeded: Seed, installations: list[Installation]
) -> None:
    status, text, _ = read(operator)
    (installation,) = installations
    principal = tokens.find(installation.key)
    assert status == 200
    assert principal is not None
    assert (principal.user_id, principal.name) == (seeded.viewer.pk, "viewer")
    assert installation.key not in text


def test_pasted_key_is_used_instead_of_a_token(operator: Client, installations: list[Installation]) -> None:
    key = "mcp_AAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    read(operator, key=key)
    assert [each.key for each in installations] == [key]


def test_every_area_has_a_title() -> None:
    assert {area.name for area in AREAS} - TITLES.keys() == set()
