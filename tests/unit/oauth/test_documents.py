"""Clients identified by a document URL: guarded fetching, caching, and outages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.utils import timezone

from mcp_app.egress.client import Fetched
from mcp_app.egress.policy import EgressFailed, Policy
from mcp_app.oauth import documents
from mcp_app.oauth.documents import DocumentRefused, find_or_fetch
from mcp_app.oauth.grants import find_client
from mcp_app.oauth.models import Client

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
CLIENT_ID = "https://client.example/metadata.json"
SAID: dict[str, Any] = {
    "client_id": CLIENT_ID,
    "client_name": "Published client",
    "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
    "token_endpoint_auth_method": "none",
}


class Place:
    """The server of a document; ``said`` None means that it does not answer."""

    def __init__(self, **changed: Any) -> None:
        self.said: dict[str, Any] | None = {**SAID, **changed}
        self.cache_control = ""
        self.status = 200
        self.asked = 0

    async def __call__(self, url: str, policy: Policy) -> Fetched:
        self.asked += 1
        if self.said is None:
            raise EgressFailed("Nobody answers.")
        return Fetched(
            url,
            self.status,
            "application/json",
            "",
            orjson.dumps(self.said),
            {"cache-control": self.cache_control},
        )


@pytest.fixture(autouse=True)
def _no_failures() -> Iterator[None]:
    documents._failed.clear()
    yield
    documents._failed.clear()


def grown_old(**ago: float) -> None:
    """Age the stored copy by the given time."""
    then = timezone.now() - timedelta(**ago)
    Client.objects.update(document_fetched_at=then, cimd_expires_at=then + timedelta(hours=24))


@pytest.mark.requirement("AUTH-41")
def test_document_creates_public_client_and_is_fetched_once() -> None:
    place = Place()
    first, second = find_or_fetch(CLIENT_ID, place), find_or_fetch(CLIENT_ID, place)
    assert first is not None
    assert first == second
    assert (first.name, first.verified, first.client_type) == ("Published client", True, "public")
    assert first.redirect_uri_allowed("http://localhost:3118/callback")
    assert not first.redirect_uri_allowed("http://localhost:3118/other")
    assert place.asked == 1


@pytest.mark.requirement("AUTH-41")
@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "https://other.example/metadata.json"},
        {"client_id": CLIENT_ID + "/"},
        {"client_name": ""},
        {"client_name": None},
        {"client_name": 7},
        {"redirect_uris": []},
        {"redirect_uris": None},
        {"redirect_uris": ["http://evil.example/"]},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"token_endpoint_auth_method": "client_secret_post"},
        {"client_secret": "known to everybody"},
        {"grant_types": ["implicit"]},
    ],
)
def test_invalid_document_creates_no_client(changed: dict[str, Any]) -> None:
    with pytest.raises(DocumentRefused):
        find_or_fetch(CLIENT_ID, Place(**changed))
    assert not Client.objects.exists()


@pytest.mark.requirement("AUTH-41")
@pytest.mark.parametrize(
    "client_id",
    [
        "https://client.example",
        "https://client.example/",
        "https://client.example/a/../b",
        "https://client.example/./b",
        "https://client.example/a/%2E%2e/b",
        "https://client.example/a/.%2e/b",
        "https://user@client.example/a",
        "https://client.example/a#part",
        "https://client.example:8443/a",
        "https://client.example:99999/a",
        "https://[bad/a",
        "https://client.example/" + "x" * 255,
    ],
)
def test_invalid_document_url_is_not_fetched(client_id: str) -> None:
    place = Place()
    with pytest.raises(DocumentRefused):
        find_or_fetch(client_id, place)
    assert place.asked == 0


@pytest.mark.requirement("AUTH-42")
@pytest.mark.parametrize(
    "client_id",
    ["https://127.0.0.1/a", "https://localhost/a", "https://169.254.169.254/latest", "https://[::1]/a"],
)
def test_guarded_fetch_reaches_no_private_address(client_id: str) -> None:
    with pytest.raises(DocumentRefused):
        find_or_fetch(client_id)


@pytest.mark.requirement("AUTH-42")
def test_copy_of_unreachable_document_is_valid_for_a_week() -> None:
    place = Place()
    find_or_fetch(CLIENT_ID, place)
    place.said = None
    grown_old(days=6)
    assert find_or_fetch(CLIENT_ID, place) is not None
    grown_old(days=8)
    with pytest.raises(DocumentRefused):
        find_or_fetch(CLIENT_ID, place)


@pytest.mark.requirement("AUTH-42")
def test_failed_document_is_not_refetched_immediately() -> None:
    place = Place()
    place.status = 404
    for _ in range(3):
        with pytest.raises(DocumentRefused):
            find_or_fetch(CLIENT_ID, place)
    assert place.asked == 1


@pytest.mark.requirement("AUTH-41")
@pytest.mark.parametrize(
    ("cache_control", "seconds"),
    [
        ("", 86_400),
        ("max-age=3600", 3_600),
        ("max-age=1", 300),
        ("no-store", 300),
        ("public, MAX-AGE=999999999", 86_400),
    ],
)
def test_copy_freshness_follows_cache_control_within_bounds(cache_control: str, seconds: int) -> None:
    place = Place()
    place.cache_control = cache_control
    client = find_or_fetch(CLIENT_ID, place)
    assert client is not None
    assert abs((client.cimd_expires_at - timezone.now()).total_seconds() - seconds) < 60


@pytest.mark.requirement("AUTH-43")
@pytest.mark.parametrize(
    ("hosts", "is_let"),
    [
        (("*",), True),
        (("client.example",), True),
        (("example",), True),
        (("other.example",), False),
        ((), False),
    ],
)
def test_document_hosts_setting_limits_clients(hosts: tuple[str, ...], is_let: bool, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_DOCUMENT_HOSTS": hosts}
    if is_let:
        assert find_or_fetch(CLIENT_ID, Place()) is not None
    else:
        with pytest.raises(DocumentRefused):
            find_or_fetch(CLIENT_ID, Place())


@pytest.mark.requirement("AUTH-43")
@pytest.mark.parametrize("age", [0, 30], ids=["fresh copy", "old copy"])
@pytest.mark.parametrize("hosts", [("other.example",), ()])
def test_known_client_of_unaccepted_host_is_refused_immediately(
    hosts: tuple[str, ...], age: int, settings: Any
) -> None:
    """A stored copy let it connect for a day, or for a week while its document was unreachable."""
    assert find_or_fetch(CLIENT_ID, Place()) is not None
    assert find_client(CLIENT_ID) is not None
    grown_old(hours=age)
    settings.MCP = {**settings.MCP, "OAUTH_DOCUMENT_HOSTS": hosts}
    place = Place()
    with pytest.raises(DocumentRefused):
        find_or_fetch(CLIENT_ID, place)
    # The token endpoint checks here: refreshing fails as well.
    assert (find_client(CLIENT_ID), place.asked) == (None, 0)


def test_document_never_replaces_manually_entered_client() -> None:
    Client.objects.create(
        client_id=CLIENT_ID, name="Entered", redirect_uris="https://a.example/", client_secret=""
    )
    place = Place()
    client = find_or_fetch(CLIENT_ID, place)
    assert client is not None
    assert (client.name, place.asked) == ("Entered", 0)
