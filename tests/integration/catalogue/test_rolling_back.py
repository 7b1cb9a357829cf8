"""Rolling back: every state in history can be restored by a new, validated change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile

from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.changes.rolling_back import plan_roll_back, roll_back
from mcp_app.catalogue.changes.services import ChangedMeanwhile
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.models import AuditEvent, CatalogueChange, Prompt, Resource, Tool

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
    settings.MCP = {**settings.MCP, "UPLOAD_DIRECTORY": str(tmp_path)}
    return tmp_path


def save_prompt(entry: Prompt | None = None, **values: Any) -> Prompt:
    return services.save_prompt(actor=None, entry=entry, **values)


def change(number: int, key: str = "p") -> CatalogueChange:
    """Return the ``number``-th change of an entry."""
    return CatalogueChange.objects.filter(key=key).order_by("id")[number]


def back(number: int, key: str = "p", **more: Any) -> Any:
    return roll_back(**{"to": change(number, key), "actor": None, "why": "it broke", **more})


def test_roll_back_is_a_new_change_with_actor_state_and_reason(announced: list[int], someone: Any) -> None:
    row = save_prompt(name="p", template="One", title="A")
    save_prompt(row, template="Two", title="B", enabled=False)
    announced.clear()
    assert back(0, actor=someone).pk == row.pk
    entry = current_snapshot.refreshed_view(NOBODY).prompt("p")
    assert entry is not None
    assert (entry.render({}), entry.wire["title"]) == ("One", "A")
    assert announced == [4]
    newest = change(2)
    assert (newest.action, newest.actor, newest.why) == ("rolled_back", someone, "it broke")
    assert (newest.before["template"], newest.after["template"]) == ("Two", "One")
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.actor_name) == ("catalogue.rolled_back", "someone")
    assert event.detail == {
        "revision": 4, "to": 2, "changed": ["enabled", "template", "title"], "why": "it broke"
    }  # fmt: skip
    # Roll forward by the same means.
    assert back(1).template == "Two"


def test_renamed_entry_is_rolled_back_by_either_name() -> None:
    row = save_prompt(name="p", template="One")
    save_prompt(row, name="q")
    assert back(0).name == "p"
    save_prompt(row, name="q")
    save_prompt(name="p", template="Another")
    with pytest.raises(ValidationError) as caught:
        back(0)
    assert "name" in caught.value.message_dict


def test_deleted_entry_is_restored_whole() -> None:
    row = save_prompt(name="p", template="{{a}}", arguments=[{"name": "a"}], title="T", enabled=False)
    services.delete_entry(entry=row, actor=None)
    plan = plan_roll_back(change(1))
    assert (plan.before, plan.after["template"], plan.notes) == (None, "{{a}}", ())
    restored = back(1)
    assert (restored.name, restored.template, restored.title, restored.enabled, restored.source) == (
        "p", "{{a}}", "T", False, "admin"
    )  # fmt: skip
    assert change(2).before is None
    with pytest.raises(ValidationError, match="already has these values"):
        back(1)
    save_prompt(restored, title="Later")
    assert back(0).title == "T"


def test_preset_is_restored_only_with_its_tool(registered: Any) -> None:
    add = Tool.objects.get(name="add")
    given: dict[str, Any] = {"name": "five", "preset_of": add, "fixed_arguments": {"b": 5}}
    preset = services.save_tool_preset(actor=None, **given)
    services.save_tool_preset(actor=None, entry=preset, fixed_arguments={"b": 6})
    assert back(0, "five").fixed_arguments == {"b": 5}
    services.delete_entry(entry=preset, actor=None)
    definition = registered.tools.pop("add")
    mirror()
    services.delete_entry(entry=add, actor=None)
    with pytest.raises(ValidationError, match="'add' is no longer here"):
        back(0, "five")
    with pytest.raises(ValidationError, match="Its code is gone"):
        back(0, "add")
    registered.tools["add"] = definition
    mirror()
    # The tool has another row now; the preset finds it by name.
    assert back(0, "five").preset_of == Tool.objects.get(name="add")


def test_state_without_a_stored_tool_name_is_rolled_back() -> None:
    add = Tool.objects.get(name="add")
    preset = services.save_tool_preset(actor=None, name="five", preset_of=add, fixed_arguments={"b": 5})
    old = change(0, "five")
    state = {name: value for name, value in old.after.items() if name != "preset_of"}
    CatalogueChange.objects.filter(pk=old.pk).update(after=state, entry_id=None)
    services.delete_entry(entry=preset, actor=None)
    assert back(0, "five").preset_of == add


def test_invalid_former_state_is_refused_with_the_reason(registered: Any) -> None:
    add = Tool.objects.get(name="add")
    preset = services.save_tool_preset(actor=None, name="five", preset_of=add, fixed_arguments={"b": 5})
    services.save_tool_preset(actor=None, entry=preset, fixed_arguments={})
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    Tool.objects.filter(pk=add.pk).update(input_schema=schema)
    with pytest.raises(ValidationError, match="no argument 'b'"):
        back(0, "five")
    assert CatalogueChange.objects.filter(action="rolled_back").count() == 0


def test_roll_back_of_a_code_entry_restores_overrides_only(registered: Any) -> None:
    add = Tool.objects.get(name="add")
    services.update_entry(entry=add, actor=None, title="One", calls_per_minute=3)
    services.update_entry(entry=add, actor=None, title="Two", calls_per_minute=None)
    assert plan_roll_back(change(1, "add")).notes == ()
    Tool.objects.filter(pk=add.pk).update(definition={"name": "add", "description": "new code"})
    plan = plan_roll_back(change(1, "add"))
    assert plan.notes == ("The definition in code does not change.",)
    assert "definition" not in plan.after
    row = back(1, "add")
    assert (row.title, row.calls_per_minute, row.definition["description"]) == ("One", 3, "new code")


def test_entry_that_changed_source_is_not_rolled_back(registered: Any) -> None:
    row = save_prompt(name="p", template="x")
    services.delete_entry(entry=row, actor=None)
    Prompt.objects.filter(name="code_review").update(name="p")
    with pytest.raises(ValidationError, match="The source was admin then and is code now"):
        back(0)


def test_missing_upload_is_reported_and_other_fields_are_rolled_back(uploads: Path) -> None:
    given: dict[str, Any] = {"uri": "memo://1", "name": "m"}
    row = services.save_resource(actor=None, file=SimpleUploadedFile("a.txt", b"1"), title="A", **given)
    services.save_resource(actor=None, entry=row, title="B")
    assert plan_roll_back(change(0, "memo://1")).notes == ()
    assert back(0, "memo://1").title == "A"
    services.save_resource(actor=None, entry=row, file=SimpleUploadedFile("b.txt", b"2"), title="C")
    # Another upload of the same name is not the missing one.
    services.save_resource(actor=None, entry=row, file=SimpleUploadedFile("a.txt", b"3"))
    row.refresh_from_db()
    assert row.file.name == change(0, "memo://1").after["file"]
    plan = plan_roll_back(change(0, "memo://1"))
    assert plan.notes == ("The uploaded file a.txt was deleted. Text and file keep their current values.",)
    restored = back(0, "memo://1")
    with restored.file.open("rb") as kept:
        assert (restored.title, kept.read()) == ("A", b"3")
    services.delete_entry(entry=row, actor=None)
    with pytest.raises(ValidationError, match="Create the resource again"):
        back(0, "memo://1")
    assert not Resource.objects.filter(uri="memo://1").exists()


def test_text_replaced_by_a_file_is_restored(uploads: Path) -> None:
    row = services.save_resource(actor=None, uri="memo://1", name="m", text="words")
    services.save_resource(actor=None, entry=row, text="", file=SimpleUploadedFile("a.txt", b"1"))
    restored = back(0, "memo://1")
    assert (restored.text, restored.file.name) == ("words", "")
    assert not list((uploads / "resources").iterdir())


def test_roll_back_requires_a_review_of_the_current_state() -> None:
    row = save_prompt(name="p", template="One")
    save_prompt(row, template="Two")
    seen = plan_roll_back(change(0)).revision
    save_prompt(row, template="Three")
    with pytest.raises(ChangedMeanwhile):
        back(0, seen=seen)
    with pytest.raises(ValidationError, match="at most 500"):
        back(0, why="x" * 501)
    row.refresh_from_db()
    assert row.template == "Three"
    assert back(0, why=" ", seen=plan_roll_back(change(0)).revision).template == "One"
