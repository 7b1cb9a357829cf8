"""Drafts and rollbacks in the admin: saving, reviewing, publishing and discarding."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from mcp_app.admin.entries.differences import field_differences
from mcp_app.catalogue.changes import drafts, services
from mcp_app.models import AuditEvent, CatalogueChange, Draft, Prompt, Resource, Tool
from tests.integration.admin.addresses import page
from tests.integration.admin.test_catalogue_pages import COMMON, LIMITS, PROMPT, RESOURCE
from tests.integration.admin.test_hostile_text import Page
from tests.samples.admin_seed import ALL_HOSTILE, HOSTILE, PASSWORD, RAW_HIDDEN, RAW_MARKUP, Seed

OWN = COMMON | {"template": "Short: {{text}}", "arguments": '[{"name": "text"}]', "title": "Summarise"}
DRAFT = {"_draft": "1", "why": "shorter"}


@pytest.fixture(autouse=True)
def _valid(seeded: Seed) -> None:
    """Make the seeded prompt valid for the services."""
    seeded.own_prompt.template = "Summarise for {{audience}}:\n\n{{text}}"
    seeded.own_prompt.save()


@pytest.fixture
def editor(seeded: Seed, django_user_model: Any) -> Client:
    """Return a client of staff who may add and change entries of every kind, and not publish them."""
    user = django_user_model.objects.create_user("editor", password=PASSWORD, is_staff=True)
    may = ("view", "add", "change", "delete")
    codenames = [f"{action}_{kind}" for action in may for kind in ("tool", "prompt", "resource")]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def root_with_history(root: Client, seeded: Seed) -> Client:
    """Return a superuser's client; the prompt "summarise" has a first state in history."""
    services.save_prompt(entry=seeded.own_prompt, actor=seeded.root, title="Sum up")
    return root


def _edit(seeded: Seed, draft: Draft | None = None) -> str:
    address = page("prompt", "change", seeded.own_prompt.pk)
    return address if draft is None else f"{address}?draft={draft.pk}"


def _token(answer: Any) -> dict[str, str]:
    """Return the hidden fields of a form."""
    found = re.findall(r'name="(mcp-(?:seen|draft))" value="([^"]*)"', answer.content.decode())
    return dict(found)


def _publish(client: Client, draft: Draft, **more: object) -> Any:
    """Press the publish button of the draft's page."""
    shown = client.get(page("draft", "change", draft.pk), follow=True).context["card"]
    data = {"version": shown.draft.version, "seen": shown.seen, "why": "looked at", **more}
    return client.post(page("draft", "publish", draft.pk), data, follow=True)


def test_draft_is_saved_compared_and_published(root: Client, seeded: Seed) -> None:
    answer = root.post(_edit(seeded), OWN | DRAFT, follow=True)
    text = answer.content.decode()
    assert answer.redirect_chain[-1][0] == _edit(seeded)
    assert "Draft of summarise saved. Clients do not see it until it is published." in text
    seeded.own_prompt.refresh_from_db()
    assert seeded.own_prompt.title == "Summarise a text"
    draft = Draft.objects.get()
    assert (draft.author, draft.note) == (seeded.root, "shorter")
    assert '<bdi class="mcp-text">Summarise a text</bdi></del>' in text
    assert '<bdi class="mcp-text">Summarise</bdi></ins>' in text
    assert "+Short: {{text}}" in text
    answer = _publish(root, draft)
    assert "Published: summarise." in answer.content.decode()
    seeded.own_prompt.refresh_from_db()
    assert (seeded.own_prompt.title, seeded.own_prompt.template) == ("Summarise", "Short: {{text}}")
    change = CatalogueChange.objects.latest("id")
    assert (change.action, change.actor, change.why) == ("published", seeded.root, "looked at")
    assert AuditEvent.objects.filter(action="catalogue.published", actor=seeded.root).exists()


def test_draft_is_edited_in_its_own_form_and_discarded(root: Client, seeded: Seed) -> None:
    root.post(_edit(seeded), OWN | DRAFT)
    draft = Draft.objects.get()
    plain = root.get(_edit(seeded))
    assert plain.context["adminform"].form["title"].value() == "Summarise a text"
    assert 'name="_draft"' not in plain.content.decode()
    shown = root.get(_edit(seeded, draft))
    assert shown.context["adminform"].form["title"].value() == "Summarise"
    assert 'name="_save"' not in shown.content.decode()
    root.post(_edit(seeded, draft), OWN | DRAFT | {"title": "Sum"} | _token(shown))
    draft.refresh_from_db()
    assert (draft.values["title"], draft.version) == ("Sum", 2)
    said = root.post(page("draft", "discard", draft.pk), {"version": 1}, follow=True).content.decode()
    assert "Nothing was changed: root saved this draft again meanwhile. Review it." in said
    said = root.post(page("draft", "discard", draft.pk), {"version": 2}, follow=True).content.decode()
    assert "Discarded the draft of summarise." in said
    assert not Draft.objects.exists()


def test_draft_errors_appear_beside_the_field(root: Client, seeded: Seed) -> None:
    for address in (_edit(seeded), page("prompt", "add")):
        answer = root.post(address, PROMPT | DRAFT | {"template": "{{nobody}}"})
        assert "is not among the arguments" in str(answer.context["adminform"].form.errors["template"])
        assert 'value="shorter"' in answer.content.decode()
    assert not Draft.objects.exists()


def test_draft_of_a_new_entry_creates_it_when_published(root: Client, seeded: Seed) -> None:
    answer = root.post(page("prompt", "add"), PROMPT | DRAFT, follow=True)
    draft = Draft.objects.get()
    assert answer.redirect_chain[-1][0] == page("draft", "change", draft.pk)
    assert "Unpublished prompt" in answer.content.decode()
    assert not Prompt.objects.filter(name="hello").exists()
    edit = f"{page('prompt', 'add')}?draft={draft.pk}"
    shown = root.get(edit)
    assert shown.context["adminform"].form["name"].value() == "hello"
    root.post(edit, PROMPT | DRAFT | {"title": "Hi"} | _token(shown))
    listed = root.get(page("draft", "changelist")).content.decode()
    assert "hello" in listed
    assert "template, arguments, title" in listed or "title" in listed
    assert "Published: hello." in _publish(root, draft).content.decode()
    assert Prompt.objects.get(name="hello").title == "Hi"


def test_browser_line_endings_are_not_a_change(root: Client, seeded: Seed) -> None:
    own = seeded.own_prompt
    same = {name: getattr(own, name) for name in ("title", "description", "position")}
    typed = same | {"enabled": "on", "icons": "[]", "meta": "{}", "arguments": json.dumps(own.arguments)}
    typed["template"] = own.template.replace("\n", "\r\n")
    answer = root.post(_edit(seeded), typed | DRAFT)
    assert "No changes: the draft equals the published entry." in answer.content.decode()
    root.post(_edit(seeded), typed | DRAFT | {"title": "T"})
    assert Draft.objects.get().values == {"title": "T"}


def test_preset_draft_keeps_its_tool(root: Client, seeded: Seed) -> None:
    preset = (
        COMMON | LIMITS | {"name": "shout", "preset_of": seeded.echo.pk, "fixed_arguments": '{"text": "HI"}'}
    )
    root.post(page("tool", "add"), preset | DRAFT)
    draft = Draft.objects.get()
    form = root.get(f"{page('tool', 'add')}?draft={draft.pk}").context["adminform"].form
    assert form["preset_of"].value() == seeded.echo.pk
    _publish(root, draft)
    assert Tool.objects.get(name="shout").preset_of == seeded.echo


def test_draft_keeps_its_upload(root: Client, seeded: Seed) -> None:
    upload = SimpleUploadedFile("a.txt", b"kept", "text/plain")
    root.post(page("resource", "add"), RESOURCE | DRAFT | {"text": "", "file": upload})
    draft = Draft.objects.get()
    edit = f"{page('resource', 'add')}?draft={draft.pk}"
    root.post(edit, RESOURCE | DRAFT | {"text": "", "title": "T"} | _token(root.get(edit)))
    _publish(root, draft)
    made = Resource.objects.get(uri="notes://a")
    with made.file.open("rb") as content:
        assert (made.title, content.read()) == ("T", b"kept")


def test_draft_of_code_entry_keeps_only_editable_fields(root: Client, seeded: Seed) -> None:
    posted = COMMON | LIMITS | DRAFT | {"title": "Again", "name": "evil", "input_schema": "{}"}
    root.post(page("tool", "change", seeded.echo.pk), posted)
    draft = Draft.objects.get()
    assert draft.values == {"title": "Again"}
    _publish(root, draft)
    seeded.echo.refresh_from_db()
    assert (seeded.echo.name, seeded.echo.title) == ("echo", "Again")


def test_draft_over_a_newer_change_needs_a_fresh_review(root_with_history: Client, seeded: Seed) -> None:
    root = root_with_history
    root.post(_edit(seeded), OWN | DRAFT)
    draft = Draft.objects.get()
    old = {"version": 1, "seen": draft.revision}
    services.save_prompt(entry=seeded.own_prompt, actor=seeded.root, position=7, why="urgent")
    answer = root.post(page("draft", "publish", draft.pk), old, follow=True)
    text = answer.content.decode()
    assert "Nothing was changed: Changed by root after you opened it." in text
    assert "The published prompt changed after this draft was saved." in text
    assert "urgent" in text
    assert '<bdi class="mcp-text">7</bdi></ins>' in text
    assert "Publish over these changes" in text
    assert "Published" in _publish(root, draft).content.decode()
    seeded.own_prompt.refresh_from_db()
    assert (seeded.own_prompt.title, seeded.own_prompt.position) == ("Summarise", 7)


def test_invalid_draft_cannot_be_published(root: Client, seeded: Seed) -> None:
    root.post(page("prompt", "add"), PROMPT | DRAFT)
    services.save_prompt(actor=None, name="hello", template="x")
    draft = Draft.objects.get()
    text = root.get(page("draft", "change", draft.pk)).content.decode()
    assert "Cannot be published: name: There is already a prompt hello." in text
    assert (
        "Nothing was changed: name: There is already a prompt hello."
        in _publish(root, draft).content.decode()
    )


def test_concurrent_edits_are_detected(root_with_history: Client, seeded: Seed) -> None:
    root = root_with_history
    first = _token(root.get(_edit(seeded)))
    assert root.post(_edit(seeded), OWN | first).status_code == 302
    late = root.post(_edit(seeded), OWN | first | {"title": "Late"})
    assert "Changed by root after you opened it" in late.content.decode()
    assert "changed while you edited it." in late.content.decode()
    assert '<bdi class="mcp-text">Sum up</bdi></del>' in late.content.decode()
    assert root.post(_edit(seeded), OWN | _token(late) | {"title": "Late"}).status_code == 302
    root.post(_edit(seeded), OWN | DRAFT | {"title": "One"})
    late = root.post(_edit(seeded), OWN | DRAFT | {"title": "Two"})
    text = late.content.decode()
    assert "root saved a draft meanwhile" in text
    assert "Replace the draft" in text
    root.post(_edit(seeded), OWN | DRAFT | {"title": "Two"} | _token(late))
    assert Draft.objects.get().values["title"] == "Two"


def test_deleting_an_entry_deletes_its_draft(root: Client, seeded: Seed) -> None:
    root.post(_edit(seeded), OWN | DRAFT)
    asked = root.get(page("prompt", "delete", seeded.own_prompt.pk)).content.decode()
    assert 'Draft: <bdi class="mcp-text">summarise</bdi>' in asked
    root.post(page("prompt", "delete", seeded.own_prompt.pk), {"post": "yes"})
    assert not Draft.objects.exists()


def test_list_marks_and_filters_entries_with_a_draft(root: Client, seeded: Seed) -> None:
    root.post(_edit(seeded), OWN | DRAFT)
    for value, names in (("yes", {"summarise"}), ("no", {"code_review", HOSTILE["image"]})):
        answer = root.get(page("prompt", "changelist") + f"?draft={value}")
        assert {row.name for row in answer.context["cl"].result_list} == names
        assert ('<span class="mcp-badge mcp-badge-warn">draft</span>' in answer.content.decode()) == (
            value == "yes"
        )
    text = root.get(page("prompt", "changelist")).content.decode()
    assert '<span class="mcp-badge mcp-badge-warn">1</span>' in text


# Rolling back.


def _back(entry: Any, number: int) -> str:
    change = CatalogueChange.objects.filter(entry_id=entry.pk).order_by("id")[number]
    return page("prompt", "roll_back", change.pk)


def test_roll_back_restores_a_former_state_after_review(root: Client, seeded: Seed) -> None:
    root.post(page("prompt", "add"), PROMPT | {"why": "we need it"})
    made = Prompt.objects.get(name="hello")
    root.post(page("prompt", "change", made.pk), PROMPT | {"title": "New"})
    text = root.get(page("prompt", "history", made.pk)).content.decode()
    assert "we need it" in text
    assert text.count("Roll back to this revision…") == 1
    assert text.count(">current<") == 1
    asked = root.get(_back(made, 0))
    assert '<bdi class="mcp-text">New</bdi></del>' in asked.content.decode()
    seen = {"seen": asked.context["plan"].revision}
    stale = root.post(_back(made, 0), {"seen": 0, "why": "broke"}).content.decode()
    assert "Changed after you opened this page" in stale
    answer = root.post(_back(made, 0), seen | {"why": "broke"}, follow=True)
    assert "Rolled back: hello." in answer.content.decode()
    event = AuditEvent.objects.filter(action="catalogue.rolled_back").latest("id")
    assert "Prompt rolled back: hello" in root.get(page("auditevent", "change", event.pk)).content.decode()
    made.refresh_from_db()
    assert made.title == ""
    assert "broke" in root.get(page("prompt", "history", made.pk)).content.decode()


def test_deleted_entry_is_listed_and_restored(root: Client, seeded: Seed) -> None:
    root.post(page("prompt", "add"), PROMPT)
    made = Prompt.objects.get(name="hello")
    pk = made.pk
    root.post(page("prompt", "delete", pk), {"post": "yes"})
    change = CatalogueChange.objects.latest("id")
    listed = root.get(page("prompt", "deleted")).content.decode()
    assert page("prompt", "past", change.pk) in listed
    past = root.get(page("prompt", "past", change.pk)).content.decode()
    assert past.count("Restore the deleted version…") == 1
    assert len(re.findall(r"Restore revision \d+…", past)) == 1
    assert "You can restore it as it was before its deletion, or an earlier revision." in past
    asked = root.get(page("prompt", "roll_back", change.pk))
    assert asked.context["title"] == "Restore hello"
    assert "as it was before its deletion" in asked.content.decode()
    answer = root.post(page("prompt", "roll_back", change.pk), {"why": "by mistake"}, follow=True)
    assert "Restored: hello." in answer.content.decode()
    event = AuditEvent.objects.filter(action="catalogue.rolled_back").latest("id")
    shown = root.get(page("auditevent", "change", event.pk)).content.decode()
    assert "Deleted prompt restored: hello" in shown
    restored = Prompt.objects.get(name="hello")
    assert (restored.template, restored.pk != pk) == ("Hello {{who}}", True)
    assert page("prompt", "past", change.pk) not in root.get(page("prompt", "deleted")).content.decode()
    assert root.get(page("prompt", "past", change.pk))["Location"] == page("prompt", "history", restored.pk)


def test_deleted_entry_offers_no_restore_without_the_permission(
    root: Client, viewer: Client, seeded: Seed
) -> None:
    root.post(page("prompt", "add"), PROMPT)
    root.post(page("prompt", "delete", Prompt.objects.get(name="hello").pk), {"post": "yes"})
    past = viewer.get(page("prompt", "past", CatalogueChange.objects.latest("id").pk)).content.decode()
    assert "was deleted." in past
    assert "estore" not in past


def test_impossible_roll_back_is_explained_without_a_button(root: Client, seeded: Seed) -> None:
    preset = services.save_tool_preset(
        actor=None, name="shout", preset_of=seeded.echo, fixed_arguments={"text": "HI"}
    )
    services.save_tool_preset(actor=None, entry=preset, fixed_arguments={})
    Tool.objects.filter(pk=seeded.echo.pk).update(input_schema={"type": "object", "properties": {}})
    first = CatalogueChange.objects.filter(key="shout").earliest("id")
    address = page("tool", "roll_back", first.pk)
    for answer in (root.get(address), root.post(address, {"why": "x"})):
        text = answer.content.decode()
        assert "Cannot be rolled back: fixed arguments: The tool has no argument &#x27;text&#x27;." in text
        assert 'id="mcp-why"' not in text


def test_roll_back_of_unknown_change_returns_404(root: Client, seeded: Seed) -> None:
    change = CatalogueChange.objects.filter(kind="tool").earliest("id")
    for view in ("roll_back", "past"):
        for pk in (change.pk, 9999, 2**70):
            assert root.get(page("prompt", view, pk)).status_code == 404


# Permissions.


def test_editor_without_publish_permission_gets_draft_buttons_only(editor: Client, seeded: Seed) -> None:
    for address in (_edit(seeded), page("prompt", "add")):
        text = editor.get(address).content.decode()
        assert 'name="_draft"' in text
        for button in ("_save", "_continue", "_addanother"):
            assert f'name="{button}"' not in text
    listed = editor.get(page("tool", "changelist")).content.decode()
    for offered in (
        "mcp-switch",
        "enable_entries",
        "disable_entries",
        "duplicate_entries",
        "delete_selected",
    ):
        assert offered not in listed
    editor.post(_edit(seeded), OWN | DRAFT)
    text = editor.get(_edit(seeded)).content.decode()
    assert 'form="mcp-publish"' not in text
    assert 'form="mcp-discard"' in text
    assert "A user with the permission to publish has to review this draft." in text


def test_editor_without_publish_permission_cannot_change_entries_directly(
    editor: Client, seeded: Seed
) -> None:
    own = seeded.own_prompt
    services.save_prompt(entry=own, actor=None, title="Now")
    draft = drafts.save_draft(kind=Prompt, actor=None, entry=own, title="Draft")
    change = CatalogueChange.objects.latest("id")
    before = (CatalogueChange.objects.count(), Prompt.objects.count())
    for address, data in {
        _edit(seeded): OWN,
        page("prompt", "add"): PROMPT,
        page("prompt", "delete", own.pk): {"post": "yes"},
        page("prompt", "switch", own.pk): {"mcp-enabled": "0"},
        page("draft", "publish", draft.pk): {"version": 1, "seen": draft.revision},
        page("prompt", "roll_back", change.pk): {"why": "x"},
    }.items():
        assert editor.post(address, data).status_code == 403, address
    for action in ("disable_entries", "duplicate_entries", "delete_selected"):
        chosen = {"action": action, "_selected_action": [own.pk], "post": "yes"}
        editor.post(page("prompt", "changelist"), chosen)
    assert editor.get(page("prompt", "roll_back", change.pk)).status_code == 403
    assert (CatalogueChange.objects.count(), Prompt.objects.count()) == before
    assert editor.post(page("draft", "discard", draft.pk), {"version": 1}).status_code == 302


def test_viewers_may_only_read_drafts_and_others_see_no_drafts(
    client_of: Any, root: Client, seeded: Seed
) -> None:
    root.post(_edit(seeded), OWN | DRAFT)
    root.post(page("prompt", "add"), PROMPT | DRAFT)
    viewer, outsider = client_of("viewer"), client_of("outsider")
    changes = drafts.Draft.objects.values_list("pk", flat=True)
    services.save_prompt(entry=seeded.own_prompt, actor=None, title="Now")
    change = CatalogueChange.objects.latest("id")
    looked_at = [
        page("draft", "changelist"),
        *(page("draft", "change", pk) for pk in changes),
        page("prompt", "deleted"),
        page("prompt", "past", change.pk),
    ]
    for address in looked_at:
        answer = viewer.get(address, follow=True)
        assert answer.status_code == 200, address
        text = answer.content.decode()
        assert "mcp-publish" not in text
        assert "mcp-discard" not in text
        assert "Roll back to this" not in text
        assert outsider.get(address).status_code == 403, address
        assert Client().get(address)["Location"].startswith("/admin/login/"), address
    acted_on = [page("draft", name, pk) for name in ("publish", "discard") for pk in changes]
    for address in [*acted_on, page("prompt", "roll_back", change.pk)]:
        for client in (viewer, outsider):
            assert client.post(address, {"why": "x"}).status_code == 403, address
    for address in acted_on:
        assert root.get(address).status_code == 405, address
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(seeded.root)
    for address in [*acted_on, page("prompt", "roll_back", change.pk)]:
        assert strict.post(address, {"why": "x"}).status_code == 403, address
    assert Draft.objects.count() == 2


def test_drafts_are_visible_by_the_permission_of_their_kind(
    client_of: Any, root: Client, seeded: Seed
) -> None:
    root.post(_edit(seeded), OWN | DRAFT)
    draft = Draft.objects.get()
    seeded.viewer.user_permissions.remove(*Permission.objects.filter(codename="view_prompt"))
    viewer = client_of("viewer")
    assert "summarise" not in viewer.get(page("draft", "changelist")).content.decode()
    assert viewer.get(page("draft", "change", draft.pk)).status_code == 302  # As for a missing draft.
    assert viewer.post(page("draft", "publish", draft.pk)).status_code in (302, 403)
    assert Draft.objects.exists()


def test_drafts_and_history_escape_hostile_text(root: Client, seeded: Seed) -> None:
    hostile = {"title": ALL_HOSTILE[:200], "description": ALL_HOSTILE, "meta": HOSTILE}
    echo = seeded.echo
    services.update_entry(entry=echo, actor=None, why=ALL_HOSTILE[:400], **hostile)
    changed = {"title": HOSTILE["bidi"], "description": HOSTILE["image"] + "\n" + ALL_HOSTILE, "meta": {}}
    drafts.save_draft(kind=Tool, actor=seeded.root, entry=echo, note=ALL_HOSTILE[:400], **changed)
    given = {"name": "fresh", "template": ALL_HOSTILE.replace("{{7*7}}", ""), "title": HOSTILE["script"]}
    new = drafts.save_draft(kind=Prompt, actor=seeded.root, note=HOSTILE["ansi"], **given)
    services.update_entry(entry=echo, actor=None, why=HOSTILE["breakout"], title=HOSTILE["attribute"])
    doomed = services.save_prompt(actor=None, name="doomed", template="x", description=ALL_HOSTILE)
    services.delete_entry(entry=doomed, actor=None, why=ALL_HOSTILE[:400])
    gone = CatalogueChange.objects.latest("id").pk
    first = CatalogueChange.objects.filter(kind="tool", key="echo", why__gt="").earliest("id").pk
    marks = 0
    for address in (
        page("tool", "change", echo.pk), page("tool", "history", echo.pk), page("draft", "changelist"),
        page("draft", "change", new.pk), page("prompt", "deleted"), page("prompt", "past", gone),
        page("prompt", "roll_back", gone), page("tool", "roll_back", first),
    ):  # fmt: skip
        text = root.get(address).content.decode()
        seen = Page(text)
        assert not [raw for raw in RAW_MARKUP if raw in text], address
        assert not [handler for handler in seen.handlers if "pwned" in handler], address
        read = "".join(seen.read)
        assert not [f"U+{ord(letter):04X}" for letter in RAW_HIDDEN if letter in read], address
        marks += text.count('class="mcp-mark"')
    assert marks > 50


UPSTREAM = {"upstream": "crm", "tool": "search", "definition": "a1", "parts": {"title": "b2"}}
IMPORTED = {"url": "https://api.example.com", "document": {"name": "shop", "parts": {"title": "b2"}}}


@pytest.mark.parametrize("request_of", [UPSTREAM, IMPORTED], ids=["upstream", "document"])
def test_difference_has_no_digests(request_of: dict[str, Any]) -> None:
    newer = json.loads(json.dumps(request_of).replace("a1", "a2").replace("b2", "b3"))
    assert field_differences({"request": request_of}, {"request": newer}) == []
    (whole,) = field_differences(None, {"request": request_of})
    text = json.dumps([str(line) for line in whole.lines or []])
    assert "b2" not in text
    assert "a1" not in text
