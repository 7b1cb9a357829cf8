"""Saved searches: stored by name, opened by address, shared by permission."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from mcp_app.message_log.search import saved
from mcp_app.models import AuditEvent, SavedSearch
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.postgres


def save(client: Client, name: str, text: str, **more: str) -> Any:
    return client.post(page("message", "searches"), {"name": name, "text": text, **more}, follow=True)


def stored(user: Any, name: str, **more: Any) -> SavedSearch:
    return SavedSearch.objects.create(user=user, name=name, **{"text": "tool:echo", **more})


def said(answer: Any) -> str:
    return " ".join(str(each) for each in answer.context["messages"])


def links(answer: Any) -> list[str]:
    nav = answer.content.decode().partition('aria-label="Saved searches"')[2].partition("</nav>")[0]
    return [html.unescape(found) for found in re.findall(r'class="mcp-button" href="([^"]*)"', nav)]


@pytest.mark.parametrize("where", ["log", "console", "session", "console session"])
def test_log_pages_link_saved_searches(where: str, viewer: Client, seeded: Seed) -> None:
    at, parameter = {
        "log": (page("message", "changelist"), "q"),
        "console": (f"{page('message', 'changelist')}?live=1", "live=1&q"),
        "session": (page("session", "change", seeded.session.pk), "q"),
        "console session": (reverse("mcp_console:session", args=[seeded.session.pk]), "q"),
    }[where]
    save(viewer, "Echo & more", 'tool:echo "a b"')
    assert links(viewer.get(at)) == [f"{at.partition('?')[0]}?{parameter}=tool%3Aecho%20%22a%20b%22"]


@pytest.mark.parametrize("live", ["", "1"])
def test_saving_a_search_redirects_to_its_results(live: str, viewer: Client) -> None:
    back = page("message", "changelist")
    answer = save(viewer, "slow", "ms:>1s", next=back, parameter="q", live=live)
    assert answer.redirect_chain == [(f"{back}?{'live=1&' if live else ''}q=ms%3A%3E1s", 302)]
    assert "The search slow was saved." in said(answer)


@pytest.mark.parametrize("elsewhere", ["//evil.example/", "https://evil.example/", "javascript:alert(1)", ""])
def test_saving_a_search_never_redirects_to_another_site(elsewhere: str, viewer: Client) -> None:
    answer = save(viewer, "slow", "ms:>1s", next=elsewhere)
    assert answer.redirect_chain == [(page("message", "searches"), 302)]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a", "", "Enter a search"),
        ("a", "   ", "Enter a search"),
        ("a", "nonsense:1", "Unknown search term"),
        ("a", "x" * 301, "at most 300 characters"),
        ("a", " ".join("abcdefghijklm"), "at most 12 terms"),
        ("", "tool:echo", "1 to 80 characters"),
        (" \x00 ", "tool:echo", "1 to 80 characters"),
        ("n" * 81, "tool:echo", "1 to 80 characters"),
        ("taken", "tool:echo", "You already have a search named"),
    ],
)
def test_invalid_search_is_refused_with_a_reason(
    name: str, text: str, words: str, viewer: Client, seeded: Seed
) -> None:
    stored(seeded.viewer, "taken")
    assert words in said(save(viewer, name, text))
    assert SavedSearch.objects.count() == 1


def test_saved_searches_per_user_are_limited(
    viewer: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved, "MOST", 2)
    for name in ("one", "two", "three"):
        stored(seeded.root, name)
    save(viewer, "one", "tool:echo")
    save(viewer, "two", "tool:echo")
    assert "at most 2 searches" in said(save(viewer, "three", "tool:echo"))
    assert SavedSearch.objects.filter(user=seeded.viewer).count() == 2


def test_page_shows_twelve_searches_and_a_link_to_all(viewer: Client, seeded: Seed) -> None:
    for number in range(14):
        stored(seeded.viewer, f"own {number:02}")
    answer = viewer.get(page("message", "changelist"))
    assert len(links(answer)) == 12
    assert "All saved searches" in answer.content.decode()
    assert len(viewer.get(page("message", "searches")).context["own"]) == 14


def test_limits_of_searches_are_shown_once_a_search_is_saved(viewer: Client, seeded: Seed) -> None:
    assert "data-limits" not in viewer.get(page("message", "searches")).content.decode()
    stored(seeded.viewer, "useful")
    assert "data-limits" in viewer.get(page("message", "searches")).content.decode()


def test_renamed_search_keeps_its_address(viewer: Client, seeded: Seed) -> None:
    search = stored(seeded.viewer, "first", text="client:cursor")
    address = page("message", "search", search.pk)
    answer = viewer.post(page("message", "search_rename", search.pk), {"name": " later  name "}, follow=True)
    assert "was renamed" in said(answer)
    assert SavedSearch.objects.get().name == "later name"
    assert viewer.get(address).headers["Location"] == f"{page('message', 'changelist')}?q=client%3Acursor"
    live = viewer.get(address, {"in": "console"}).headers["Location"]
    assert live == f"{page('message', 'changelist')}?live=1&q=client%3Acursor"


def test_unshared_searches_of_others_are_hidden(viewer: Client, seeded: Seed) -> None:
    own = stored(seeded.root, "secret project")
    shown = stored(seeded.root, "for all", shared=True)
    answer = viewer.get(page("message", "searches"))
    assert [row.name for row in answer.context["others"]] == ["for all"]
    assert viewer.get(page("message", "search", own.pk)).headers["Location"] == page("message", "searches")
    assert "q=" in viewer.get(page("message", "search", shown.pk)).headers["Location"]
    assert "secret project" not in viewer.get(page("message", "changelist")).content.decode()


@pytest.mark.parametrize("view", ["search_rename", "search_delete"])
def test_shared_search_is_changed_by_its_owner_only(view: str, viewer: Client, seeded: Seed) -> None:
    shown = stored(seeded.root, "for all", shared=True)
    answer = viewer.post(page("message", view, shown.pk), {"name": "mine"}, follow=True)
    assert "belongs to another user" in said(answer)
    assert SavedSearch.objects.get().name == "for all"


def test_sharing_requires_its_permission_and_is_audited(viewer: Client, seeded: Seed) -> None:
    search = stored(seeded.viewer, "useful")
    share = page("message", "search_share", search.pk)
    assert viewer.post(share, {"shared": "1"}).status_code == 403
    seeded.viewer.user_permissions.add(Permission.objects.get(codename="share_searches"))
    for given, shared, action in (("1", True, "search.share"), ("0", False, "search.unshare")):
        viewer.post(share, {"shared": given})
        assert SavedSearch.objects.get().shared is shared
        assert AuditEvent.objects.latest("pk").action == action


def test_user_with_share_permission_can_unshare_any_search(root: Client, seeded: Seed) -> None:
    search = stored(seeded.viewer, "useful", shared=True)
    root.post(page("message", "search_share", search.pk), {"shared": "0"})
    assert not SavedSearch.objects.get().shared


def test_owner_deletes_a_search(viewer: Client, seeded: Seed) -> None:
    search = stored(seeded.viewer, "old")
    assert viewer.get(page("message", "search_delete", search.pk)).status_code == 405
    viewer.post(page("message", "search_delete", search.pk))
    assert not SavedSearch.objects.exists()


@pytest.mark.parametrize("number", [10**6, 2**63, 10**30])
def test_unknown_search_redirects_to_the_list(number: int, viewer: Client) -> None:
    answer = viewer.get(f"{page('message', 'searches')}{number}/", follow=True)
    assert "does not exist, or was deleted" in said(answer)


def test_saved_searches_require_the_message_permission(client_of: ClientOf) -> None:
    outsider = client_of("outsider")
    assert outsider.get(page("message", "searches")).status_code == 403
    assert save(outsider, "a", "tool:echo").status_code == 403


def test_saved_searches_escape_names_and_texts(root: Client, seeded: Seed) -> None:
    stored(seeded.root, "<b>bold</b>", text='"<script>alert(1)</script>\u202e"')
    for address in (page("message", "searches"), page("message", "changelist")):
        text = root.get(address).content.decode()
        assert "<b>bold" not in text
        assert "<script>alert(1)" not in text
        assert "\u202e" not in text


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"q": "tool:echo"}, "tool:echo"),
        ({"q": "hi", "outcome": "failed", "method": "tools/call"}, "hi status:failed method:tools/call"),
        ({"outcome": "error"}, "status:protocol_error"),
        ({"outcome": "answered"}, ""),
        ({"direction": "in", "client": "My App"}, 'dir:in client:"My App"'),
        ({"since": "2026-11-23T14:05:00"}, "since:2026-11-23T14:05:00Z"),
        ({"text": 'two "words" '}, '"two " "words"'),
        ({"principal": "user:2/key:3", "request_id": "7"}, "id:7 user:user:2/key:3"),
    ],
)
def test_log_filters_are_saved_as_search_text(asked: dict[str, str], text: str, viewer: Client) -> None:
    assert viewer.get(page("message", "changelist"), asked).context["timeline"].text == text
