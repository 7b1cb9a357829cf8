"""The global search: its results, their order and their permissions (S22, S11)."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from mcp_app.admin.base import HAS_UNFOLD
from mcp_app.models import SavedSearch, Session, Tool
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import ALL_HOSTILE, RAW_HIDDEN, RAW_MARKUP, Seed

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def found(client: Client, text: str) -> list[tuple[str, str]]:
    answer = client.get(reverse("mcp_find"), {"q": text, "format": "json"})
    assert answer.status_code == 200
    return [(each["kind"], each["title"]) for each in answer.json()["found"]]


def test_search_ranks_exact_name_first(root: Client, seeded: Seed) -> None:
    for name in ("place_order", "place_order_fast", "search_orders"):
        Tool.objects.create(name=name, title=f"As place_order: {name}", source="admin", preset_of=seeded.echo)
    assert found(root, "place_order")[:2] == [("tool", "place_order"), ("tool", "place_order_fast")]
    assert found(root, "PLACE_ORDER")[0] == ("tool", "place_order")


def test_search_finds_every_kind_by_its_identifier(root: Client, seeded: Seed) -> None:
    named = {
        "session": seeded.session.pk,
        "background call": seeded.call.pk.hex,
        "message": str(seeded.message.pk),
        "API key": seeded.key.prefix,
        "user": seeded.viewer.get_username(),
        "setting": "message_log_days",
        "page": "Log",
        "resource template": seeded.template.uri_template,
        "document": "finding faults",
    }
    for kind, text in named.items():
        answer = root.get(reverse("mcp_find"), {"q": text, "format": "json"})
        urls = [each["url"] for each in answer.json()["found"] if each["kind"] == kind]
        assert urls, (kind, text)
        assert root.get(urls[0]).status_code == 200, urls[0]


@pytest.mark.parametrize("title", ["Log", "Sessions", "Figures"])
def test_search_finds_each_page_once(title: str, root: Client, seeded: Seed) -> None:
    assert [each for each in found(root, title.lower()) if each == ("page", title)] == [("page", title)]


def test_session_result_names_the_user_and_key(root: Client, seeded: Seed) -> None:
    principal = f"user:{seeded.root.pk}/key:{seeded.key.pk}"
    Session.objects.filter(pk=seeded.session.pk).update(principal=principal)
    answer = root.get(reverse("mcp_find"), {"q": seeded.session.pk, "format": "json"})
    assert f"root · {seeded.key.name}, opened" in answer.json()["found"][0]["note"]


def test_search_finds_own_and_shared_saved_searches(root: Client, client_of: ClientOf, seeded: Seed) -> None:
    text = "tool:echo status:error"
    mine = SavedSearch.objects.create(user=seeded.root, name="Broken echoes", text=text)
    for shared in (True, False):
        SavedSearch.objects.create(user=seeded.viewer, name=f"echoes, {shared}", text=text, shared=shared)
    kept = [title for kind, title in found(root, "echoes") if kind == "saved search"]
    assert kept == ["echoes, True", "Broken echoes"]
    answer = root.get(reverse("mcp_find"), {"q": "broken echoes", "format": "json"})
    first = answer.json()["found"][0]
    assert (first["kind"], first["title"], first["note"]) == ("saved search", mine.name, text)
    assert root.get(first["url"], follow=True).context["timeline"].form.cleaned_data["q"] == text
    assert not [kind for kind, _ in found(client_of("outsider"), "echoes") if kind == "saved search"]


def test_free_text_links_to_matching_messages(root: Client, seeded: Seed) -> None:
    answer = root.get(reverse("mcp_find"), {"q": "two words", "format": "json"})
    *mentions, last = answer.json()["found"]
    assert {each["kind"] for each in mentions} <= {"document"}
    assert root.get(last["url"]).context["timeline"].form.cleaned_data["q"] == '"two words"'


def test_search_returns_only_pages_the_user_may_open(
    client_of: ClientOf, client: Client, seeded: Seed
) -> None:
    texts = ["echo", seeded.session.pk, seeded.call.pk.hex, str(seeded.message.pk), "message_log_days",
             seeded.key.prefix, "root", "Figures"]  # fmt: skip
    outsider, viewer = client_of("outsider"), client_of("viewer")
    for text in texts:
        assert {kind for kind, _ in found(outsider, text)} <= {"document"}, text
        answer = viewer.get(reverse("mcp_find"), {"q": text, "format": "json"})
        for each in answer.json()["found"]:
            assert viewer.get(each["url"]).status_code == 200, each
    assert client.get(reverse("mcp_find")).status_code == 302
    assert outsider.post(reverse("mcp_find")).status_code == 405


def test_single_permission_limits_search_to_its_kind(seeded: Seed) -> None:
    user = get_user_model().objects.create_user("only", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_tool"))
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    assert {kind for kind, _ in found(client, "e")} <= {"tool", "page", "document"}
    assert ("tool", "echo") in found(client, "echo")


def test_search_results_escape_hostile_text(root: Client, seeded: Seed) -> None:
    Session.objects.filter(pk=seeded.session.pk).update(client_name=ALL_HOSTILE[:200])
    for asked in ({"q": seeded.session.pk}, {"q": ALL_HOSTILE[:100]}, {"q": "e"}, {"q": "\x00"}, {}):
        body = root.get(reverse("mcp_find"), asked).content.decode()
        assert not any(raw in body for raw in (*RAW_MARKUP, *RAW_HIDDEN))


def test_search_query_count_is_constant(root: Client, seeded: Seed) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            found(root, "echo")
        return len(captured)

    now = timezone.now()
    Session.objects.filter(pk=seeded.session.pk).update(client_name="echo")
    before = queries()
    for number in range(30):
        Session.objects.create(pk=f"f{number:031x}", client_name="echo", created_at=now, last_seen_at=now)
        Tool.objects.create(name=f"echo_{number}", source="admin", preset_of=seeded.echo)
    assert queries() == before


def test_search_finds_oauth_client_by_name_and_metadata_url(root: Client, client_of: ClientOf) -> None:
    address = "https://editor.example/oauth/client.json"
    model = apps.get_model("mcp_oauth", "Client")
    row = model.objects.create(name="An editor", client_id=address, redirect_uris="https://editor.example/")
    for asked in ("an editor", "editor.example/oauth"):
        answer = root.get(reverse("mcp_find"), {"q": asked, "format": "json"}).json()
        (client,) = [each for each in answer["found"] if each["kind"] == "OAuth client"]
        assert (client["title"], client["note"]) == ("An editor", address)
        assert client["url"] == reverse("admin:mcp_oauth_client_change", args=[row.pk])
        assert not [each for each in found(client_of("outsider"), asked) if each[0] == "OAuth client"]


def test_every_page_has_the_search_box(root: Client, seeded: Seed) -> None:
    pages = [page("tool", "changelist")]
    if HAS_UNFOLD:  # Django's own pages have no place for it.
        pages += ["/admin/", f"{reverse('admin:mcp_app_message_changelist')}?live=1"]
    for address in pages:
        assert f"anything.js#{reverse('mcp_find')}" in root.get(address).content.decode()
