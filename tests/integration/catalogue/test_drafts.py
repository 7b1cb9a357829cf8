"""Drafts are invisible to clients, validated on save and on publish, and never overwrite newer changes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction

from mcp_app.catalogue.changes import drafts, services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.changes.rolling_back import roll_back
from mcp_app.catalogue.changes.services import ChangedMeanwhile
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.models import (
    AuditEvent,
    CatalogueChange,
    Draft,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)
from tests.racing import at_once
from tests.views import seen

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
NOBODY: frozenset[str] = frozenset()


@pytest.fixture(autouse=True)
def _mirrored(announced: list[int]) -> None:
    mirror()
    announced.clear()


@pytest.fixture
def uploads(tmp_path: Path, settings: Any) -> Path:
    """Set an empty upload directory."""
    settings.MEDIA_ROOT = str(tmp_path)
    settings.MCP = {**settings.MCP, "UPLOAD_DIRECTORY": str(tmp_path), "MAX_RESULT_BYTES": 4000}
    return tmp_path


@pytest.fixture
def editor(db: None, django_user_model: Any) -> Any:
    """Create a user who may change prompts and not publish."""
    user = django_user_model.objects.create_user("editor", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["change_prompt", "add_prompt"]))
    return user


def save_prompt(**values: Any) -> Prompt:
    return services.save_prompt(actor=None, **{"name": "p", "template": "Hi", **values})


def draft_of(row: Any, draft: Draft | None = None, **values: Any) -> Draft:
    return drafts.save_draft(kind=type(row), actor=None, entry=row, draft=draft, **values)


def new_prompt(**values: Any) -> Draft:
    given = {"name": "new", "template": "Hello", **values}
    return drafts.save_draft(kind=Prompt, actor=None, **given)


def audited() -> list[str]:
    return list(AuditEvent.objects.order_by("id").values_list("action", flat=True))


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_draft_is_invisible_and_creates_no_revision(announced: list[int]) -> None:
    row = save_prompt()
    announced.clear()
    before = current_snapshot.refresh_now()
    draft = draft_of(row, template="Draft", note="shorter")
    new_prompt()
    assert announced == []
    assert current_snapshot.refresh_now() is before
    assert seen(before, NOBODY).prompt("new") is None
    assert Prompt.objects.get(name="p").template == "Hi"
    assert (draft.values, draft.note, draft.revision, draft.version) == (
        {"template": "Draft"},
        "shorter",
        2,
        1,
    )
    assert audited()[-2:] == ["catalogue.draft_saved"] * 2


def test_published_draft_is_served_with_history_and_audit(
    announced: list[int], someone: Any, editor: Any
) -> None:
    row = save_prompt()
    draft = drafts.save_draft(kind=Prompt, actor=editor, entry=row, template="Draft", title="T")
    announced.clear()
    drafts.publish_draft(draft=draft, actor=someone, why="  asked for by sales ")
    assert announced == [3]
    entry = current_snapshot.refreshed_view(NOBODY).prompt("p")
    assert entry is not None
    assert entry.render({}) == "Draft"
    change = CatalogueChange.objects.latest("id")
    assert (change.action, change.actor, change.why, change.entry_id) == (
        "published", someone, "asked for by sales", row.pk
    )  # fmt: skip
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.actor_name) == ("catalogue.published", "someone")
    assert event.detail == {
        "revision": 3, "changed": ["template", "title"], "drafted_by": "editor", "why": "asked for by sales"
    }  # fmt: skip
    assert not Draft.objects.exists()


def test_draft_note_is_the_default_reason_of_publishing() -> None:
    drafts.publish_draft(draft=draft_of(save_prompt(), title="T", note="typo"), actor=None)
    assert CatalogueChange.objects.latest("id").why == "typo"


def test_publishing_a_draft_creates_a_new_entry() -> None:
    draft = new_prompt(title="T")
    row = drafts.publish_draft(draft=draft, actor=None)
    assert (row.name, row.title, row.template, row.source) == ("new", "T", "Hello", "admin")
    change = CatalogueChange.objects.latest("id")
    assert (change.action, change.before, change.entry_id) == ("published", None, row.pk)


def test_presets_and_overrides_of_code_entries_can_be_drafted() -> None:
    add = Tool.objects.get(name="add")
    draft = drafts.save_draft(
        kind=Tool, actor=None, name="add-five", preset_of=add, fixed_arguments={"b": 5}, timeout_seconds=2.5
    )
    assert draft.values["preset_of"] == "add"
    assert drafts.publish_draft(draft=draft, actor=None).preset_of == add
    for kind in (Tool, Prompt, Resource, ResourceTemplate):
        row: Any = kind._default_manager.filter(source="code").get()
        drafts.publish_draft(draft=draft_of(row, title="Mine", enabled=False), actor=None)
        row.refresh_from_db()
        assert (row.title, row.enabled) == ("Mine", False)
    with pytest.raises(ValidationError, match="defined in code"):
        draft_of(add, input_schema={})


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "no spaces"}, "name"),
        ({"name": "code_review"}, "name"),
        ({"template": "{{missing}}"}, "template"),
        ({"icons": [{"src": "javascript:alert(1)"}]}, "icons"),
        ({"meta": {"a": "\ud800"}}, "__all__"),
        ({"nonsense": 1}, "nonsense"),
        ({"note": "x" * 501}, "why"),
    ],
)
def test_invalid_draft_is_refused_on_save(values: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        new_prompt(**values)
    told = caught.value.message_dict if hasattr(caught.value, "error_dict") else {"__all__": 1}
    assert field in told
    assert not Draft.objects.exists()


def test_draft_that_became_invalid_is_refused_on_publish() -> None:
    draft = new_prompt()
    save_prompt(name="new")
    with pytest.raises(ValidationError) as caught:
        drafts.publish_draft(draft=draft, actor=None)
    assert "name" in caught.value.message_dict
    assert Draft.objects.get() == draft
    add = Tool.objects.get(name="add")
    preset = drafts.save_draft(kind=Tool, actor=None, name="x", preset_of=add, fixed_arguments={"b": 1})
    Tool.objects.filter(pk=add.pk).update(name="renamed")
    with pytest.raises(ValidationError, match="'add' is no longer here"):
        drafts.publish_draft(draft=preset, actor=None)


def test_draft_without_differences_is_refused() -> None:
    row = save_prompt()
    with pytest.raises(ValidationError, match="equals the published"):
        draft_of(row, template="Hi", title="")
    draft = draft_of(row, template="New")
    services.save_prompt(actor=None, entry=row, template="New")
    with pytest.raises(ValidationError, match="already has these values"):
        drafts.publish_draft(draft=draft, actor=None, seen=3)


def test_draft_over_a_newer_change_needs_a_fresh_review(someone: Any) -> None:
    row = save_prompt()
    draft = draft_of(row, template="Draft")
    services.save_prompt(actor=someone, entry=row, title="Between")
    with pytest.raises(ChangedMeanwhile, match="Changed by someone"):
        drafts.publish_draft(draft=draft, actor=None)
    with pytest.raises(ChangedMeanwhile):
        drafts.publish_draft(draft=draft, actor=None, seen=2)
    drafts.publish_draft(draft=draft, actor=None, seen=3)
    row.refresh_from_db()
    assert (row.template, row.title) == ("Draft", "Between")


def test_saving_a_reviewed_draft_resolves_the_conflict() -> None:
    row = save_prompt()
    draft = draft_of(row, template="Draft")
    services.save_prompt(actor=None, entry=row, title="Between")
    with pytest.raises(ChangedMeanwhile):
        draft_of(row, draft, template="Draft 2", seen=2)
    again = draft_of(row, draft, template="Draft 2", seen=3)
    assert (again.version, again.revision, again.pk) == (2, 3, draft.pk)
    drafts.publish_draft(draft=again, actor=None)


def test_two_editors_never_overwrite_each_others_draft(someone: Any) -> None:
    row = save_prompt()
    first = drafts.save_draft(kind=Prompt, actor=someone, entry=row, title="One")
    with pytest.raises(ChangedMeanwhile, match="someone saved a draft"):
        draft_of(row, title="Two")
    again = draft_of(row, first, title="Three")
    stale = Draft(pk=first.pk, version=1)
    for act in (
        lambda: draft_of(row, stale, title="Four"),
        lambda: drafts.publish_draft(draft=stale, actor=None),
        lambda: drafts.discard_draft(draft=stale, actor=None),
    ):
        with pytest.raises(ChangedMeanwhile, match="again meanwhile"):
            act()
    drafts.discard_draft(draft=again, actor=None)
    with pytest.raises(ChangedMeanwhile, match="published or discarded"):
        draft_of(row, again, title="Five")
    assert not Draft.objects.exists()
    assert audited()[-1] == "catalogue.draft_discarded"


def test_saved_form_does_not_overwrite_an_unseen_change() -> None:
    row = save_prompt()
    services.save_prompt(actor=None, entry=row, title="One", seen=2)
    with pytest.raises(ChangedMeanwhile):
        services.save_prompt(actor=None, entry=row, title="Two", seen=2)
    add = Tool.objects.get(name="add")
    services.update_entry(actor=None, entry=add, title="One", seen=1)
    with pytest.raises(ChangedMeanwhile):
        services.update_entry(actor=None, entry=add, title="Two", seen=1)


def test_concurrent_publish_succeeds_once(someone: Any) -> None:
    draft = draft_of(save_prompt(), template="Draft")
    publish = partial(drafts.publish_draft, draft=draft, actor=someone)
    refused = [outcome for outcome in at_once([publish] * 2) if isinstance(outcome, Exception)]
    assert [type(each) for each in refused] == [ChangedMeanwhile]
    assert CatalogueChange.objects.filter(action="published").count() == 1


def test_new_entry_has_at_most_one_draft() -> None:
    draft = new_prompt()
    with pytest.raises(ValidationError, match="exists already"):
        new_prompt()
    renamed = drafts.save_draft(kind=Prompt, actor=None, draft=draft, name="other", template="x")
    assert (renamed.key, renamed.version) == ("other", 2)
    new_prompt()


def test_draft_is_renamed_and_deleted_with_its_entry() -> None:
    row = save_prompt()
    draft_of(row, title="T")
    services.save_prompt(actor=None, entry=row, name="q")
    assert Draft.objects.get().key == "q"
    services.delete_entry(entry=row, actor=None)
    assert not Draft.objects.exists()
    assert audited()[-2:] == ["catalogue.draft_discarded", "catalogue.deleted"]


def test_upload_is_stored_and_deleted_with_its_draft(uploads: Path) -> None:
    given = {"uri": "memo://1", "name": "m"}
    upload = SimpleUploadedFile("../a b.txt", b"one")
    draft = drafts.save_draft(kind=Resource, actor=None, file=upload, **given)
    assert files(uploads) == ["drafts/a_b.txt"]
    # Saved again without choosing a file, as a form does.
    form_file = Resource().file
    draft = drafts.save_draft(kind=Resource, actor=None, draft=draft, file=form_file, title="T", **given)
    row = drafts.publish_draft(draft=draft, actor=None)
    assert files(uploads) == ["resources/a_b.txt"]
    entry = current_snapshot.refreshed_view(NOBODY).resource("memo://1")
    assert entry is not None
    assert entry[0].static is not None
    assert entry[0].static("memo://1")[0]["text"] == "one"
    other = draft_of(row, file=SimpleUploadedFile("b.txt", b"two"))
    other = draft_of(row, other, file=SimpleUploadedFile("c.txt", b"three"))
    assert files(uploads) == ["drafts/c.txt", "resources/a_b.txt"]
    drafts.discard_draft(draft=other, actor=None)
    assert files(uploads) == ["resources/a_b.txt"]
    to_text = draft_of(row, file=False, text="words")
    assert drafts.publish_draft(draft=to_text, actor=None).text == "words"
    assert files(uploads) == []


def test_refused_draft_leaves_no_file_and_lost_file_is_reported(uploads: Path) -> None:
    given = {"uri": "memo://1", "name": "m"}
    with transaction.atomic():
        drafts.save_draft(kind=Resource, actor=None, file=SimpleUploadedFile("a.txt", b"x"), **given)
        (uploads / "drafts" / "a.txt").unlink()
        draft = Draft.objects.get()
        with pytest.raises(ValidationError, match="can no longer be read"):
            drafts.publish_draft(draft=draft, actor=None)
        transaction.set_rollback(True)
    with pytest.raises(ValidationError, match="at most 3000"):
        drafts.save_draft(kind=Resource, actor=None, file=SimpleUploadedFile("a.txt", b"x" * 3001), **given)
    assert files(uploads) == []


def test_user_without_publish_permission_only_saves_and_discards_drafts(
    editor: Any, announced: list[int]
) -> None:
    row = save_prompt()
    announced.clear()
    draft = drafts.save_draft(kind=Prompt, actor=editor, entry=row, title="T")
    change = CatalogueChange.objects.latest("id")
    edit = services.EntryChange(kind=Prompt, entry=row, values={"title": "x"})
    for act in (
        lambda: services.save_prompt(actor=editor, name="mine", template="x"),
        lambda: services.save_prompt(actor=editor, entry=row, title="x"),
        lambda: services.save_tool_preset(actor=editor, name="x"),
        lambda: services.save_resource(actor=editor, uri="memo://1", name="x"),
        lambda: services.update_entry(actor=editor, entry=row, title="x"),
        lambda: services.set_enabled(entries=[row], enabled=False, actor=editor),
        lambda: services.delete_entry(entry=row, actor=editor),
        lambda: services.change_entries(changes=[edit], actor=editor),
        lambda: services.change_entries(changes=[], removed=[row], actor=editor),
        lambda: drafts.publish_draft(draft=draft, actor=editor),
        lambda: roll_back(to=change, actor=editor, why="x"),
    ):
        with pytest.raises(PermissionDenied, match="publish_entries"):
            act()
    assert announced == []
    drafts.discard_draft(draft=draft, actor=editor)
