"""Undo of admin actions: by the acting user, while permitted and while nothing changed since."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core import signing
from django.test import Client
from django.urls import reverse

from mcp_app.admin import undo
from mcp_app.catalogue.changes.services import set_enabled
from mcp_app.models import AuditEvent, CatalogueChange, SavedSearch, StoredSource, Tool
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.postgres
JSON = {"Accept": "application/json"}


def said(answer: Any) -> str:
    return " ".join(str(each) for each in answer.context["messages"])


def offered(answer: Any) -> tuple[str, str]:
    """Return the address of the undo button in a message, and its signed note."""
    form = re.search(
        r'<form method="post" action="([^"]*)" class="mcp-undo">(.*?)</form>', said(answer), re.DOTALL
    )
    assert form, said(answer)
    note = re.search(r'name="undo" value="([^"]*)"', form[2])
    assert note
    # The message contains a button, not its source text.
    assert form[0] in answer.content.decode()
    return html.unescape(form[1]), html.unescape(note[1])


def press_undo(client: Client, offer: tuple[str, str]) -> Any:
    address, note = offer
    return client.post(address, {"undo": note}, follow=True)


def disable(client: Client, *tools: Tool) -> Any:
    chosen = {"action": "disable_entries", "_selected_action": [tool.pk for tool in tools]}
    return client.post(page("tool", "changelist"), chosen, follow=True)


def editor(client_of: ClientOf, seeded: Seed) -> Client:
    """Return a client of a second user who may switch entries."""
    for name in ("change_tool", "publish_entries"):
        seeded.viewer.user_permissions.add(Permission.objects.get(codename=name))
    return client_of("viewer")


def test_bulk_switch_is_undone_as_one_revision(root: Client, seeded: Seed) -> None:
    was_on = set(Tool.objects.filter(enabled=True).values_list("name", flat=True))
    answer = disable(root, *Tool.objects.filter(source=StoredSource.CODE))
    switched = CatalogueChange.objects.filter(action="disabled")
    revision = switched.values_list("revision", flat=True)[0]
    number = switched.count()
    assert number > 2
    answer = press_undo(root, offered(answer))
    assert f"Undone. Enabled: {number} tools. Clients are notified now." in said(answer)
    assert set(Tool.objects.filter(enabled=True).values_list("name", flat=True)) == was_on
    back = CatalogueChange.objects.filter(action="enabled")
    assert {(each.why, each.actor) for each in back} == {(f"Undo of revision {revision}", seeded.root)}
    assert AuditEvent.objects.filter(action="catalogue.enabled", actor=seeded.root).count() == number


def test_undo_without_scripts_returns_to_the_filtered_list(root: Client, seeded: Seed) -> None:
    address = page("tool", "switch", seeded.echo.pk) + "?_changelist_filters=source__exact%3Dcode"
    offer = offered(root.post(address, {"mcp-enabled": "0"}, follow=True))
    answer = press_undo(root, offer)
    assert "Undone. Enabled: echo." in said(answer)
    assert answer.redirect_chain == [(page("tool", "changelist") + "?source__exact=code", 302)]
    assert Tool.objects.get(pk=seeded.echo.pk).enabled


def test_undo_by_script_returns_json_and_works_once(root: Client, seeded: Seed) -> None:
    address, asked = page("tool", "switch", seeded.echo.pk), {"mcp-enabled": "0"}
    told = root.post(address, asked, headers=JSON).json()
    assert "undo" not in root.post(address, asked, headers=JSON).json()
    back = root.post(told["undo"]["address"], {"undo": told["undo"]["note"]}, headers=JSON)
    assert back.json()["enabled"] is True
    assert back.json()["text"] == "Undone. Enabled: echo. Clients are notified now."
    again = root.post(told["undo"]["address"], {"undo": told["undo"]["note"]}, headers=JSON)
    assert (again.status_code, again.json()) == (409, {"text": "Nothing was undone. echo was changed since."})


def test_undo_fails_if_an_entry_changed_since(root: Client, seeded: Seed) -> None:
    gone_on = Tool.objects.get(name="add")
    offer = offered(disable(root, seeded.echo, gone_on))
    set_enabled(entries=[gone_on], enabled=True, actor=None)
    set_enabled(entries=[gone_on], enabled=False, actor=None)
    assert "Nothing was undone. add was changed since." in said(press_undo(root, offer))
    assert not Tool.objects.get(pk=seeded.echo.pk).enabled


def test_undo_fails_if_an_entry_was_deleted(root: Client, seeded: Seed) -> None:
    offer = offered(disable(root, seeded.preset))
    root.post(page("tool", "delete", seeded.preset.pk), {"post": "yes"})
    assert "Nothing was undone. greet_world was changed since." in said(press_undo(root, offer))
    assert not Tool.objects.filter(name="greet_world").exists()


def test_action_without_effect_offers_no_undo(root: Client, seeded: Seed) -> None:
    disable(root, seeded.echo)
    assert "<form" not in said(disable(root, seeded.echo))


def test_undo_requires_the_same_user_and_permission(root: Client, client_of: ClientOf, seeded: Seed) -> None:
    other = editor(client_of, seeded)
    offer = offered(disable(root, seeded.echo))
    assert "This can no longer be undone." in said(press_undo(other, offer))
    own = offered(disable(other, Tool.objects.get(name="add")))
    seeded.viewer.user_permissions.remove(Permission.objects.get(codename="publish_entries"))
    assert press_undo(other, own).status_code == 403
    assert not Tool.objects.filter(name__in=("echo", "add"), enabled=True).exists()


@pytest.mark.parametrize(
    "make",
    [lambda: "", lambda: "made up", lambda: signing.dumps(["1", 1], salt="mcp_app.admin.undo.prompt")],
    ids=["empty", "unsigned", "other-kind"],
)
def test_invalid_undo_note_is_refused(root: Client, seeded: Seed, make: Callable[[], str]) -> None:
    note = make()
    disable(root, seeded.echo)
    assert "Nothing was undone. This can no longer be undone." in said(
        press_undo(root, (page("tool", "undo"), note))
    )
    assert not Tool.objects.get(pk=seeded.echo.pk).enabled


def test_expired_undo_note_is_refused(root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    offer = offered(disable(root, seeded.echo))
    monkeypatch.setattr(undo, "SECONDS", -1)
    assert "This can no longer be undone." in said(press_undo(root, offer))


def test_undo_requires_post_and_csrf_token(root: Client, seeded: Seed) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(seeded.root)
    token = strict.get(page("tool", "changelist")).context["csrf_token"]
    chosen = {"action": "disable_entries", "_selected_action": [seeded.echo.pk]}
    answer = strict.post(
        page("tool", "changelist"), chosen | {"csrfmiddlewaretoken": str(token)}, follow=True
    )
    address, note = offered(answer)
    assert strict.get(address).status_code == 405
    assert strict.post(address, {"undo": note}).status_code == 403
    sent = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', said(answer))
    assert sent
    assert strict.post(address, {"undo": note, "csrfmiddlewaretoken": sent[1]}).status_code == 302
    assert Tool.objects.get(pk=seeded.echo.pk).enabled


def test_undo_message_escapes_hostile_names(root: Client, seeded: Seed) -> None:
    Tool.objects.filter(pk=seeded.echo.pk).update(name="<b>e</b>\u202e")
    answer = root.post(page("tool", "switch", seeded.echo.pk), {"mcp-enabled": "0"}, follow=True)
    assert "&lt;b&gt;e&lt;/b&gt;⟦U+202E⟧" in said(answer)
    assert "<b>e</b>" not in answer.content.decode()
    offered(answer)


def deleted(client: Client, user: Any, **more: Any) -> tuple[SavedSearch, tuple[str, str]]:
    search = SavedSearch.objects.create(user=user, **{"name": "slow <b>", "text": "ms:>1s", **more})
    answer = client.post(page("message", "search_delete", search.pk), follow=True)
    assert not SavedSearch.objects.exists()
    return search, offered(answer)


def test_deleted_search_is_restored_to_its_address(viewer: Client, seeded: Seed) -> None:
    search, offer = deleted(viewer, seeded.viewer)
    assert offer[0] == reverse("admin:mcp_app_message_search_undo")
    assert "was restored." in said(press_undo(viewer, offer))
    back = SavedSearch.objects.get()
    assert (back.pk, back.name, back.text, back.user) == (search.pk, "slow <b>", "ms:>1s", seeded.viewer)
    assert "was already restored" in said(press_undo(viewer, offer))


def test_restored_search_is_shared_only_if_still_permitted(viewer: Client, seeded: Seed) -> None:
    may = Permission.objects.get(codename="share_searches")
    seeded.viewer.user_permissions.add(may)
    _, offer = deleted(viewer, seeded.viewer, shared=True)
    press_undo(viewer, offer)
    assert SavedSearch.objects.get().shared
    assert AuditEvent.objects.latest("pk").action == "search.share"
    SavedSearch.objects.all().delete()
    seeded.viewer.user_permissions.remove(may)
    press_undo(viewer, offer)
    assert not SavedSearch.objects.get().shared


def test_deleted_search_is_restored_only_for_its_owner_without_name_clash(
    root: Client, viewer: Client, seeded: Seed
) -> None:
    _, offer = deleted(viewer, seeded.viewer)
    assert "can no longer be undone" in said(press_undo(root, offer))
    SavedSearch.objects.create(user=seeded.viewer, name="slow <b>", text="tool:echo")
    assert "You already have a search named" in said(press_undo(viewer, offer))
    assert SavedSearch.objects.get().text == "tool:echo"
