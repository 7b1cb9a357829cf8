"""Catalogue services: every write is validated, stored in history, audited, and announced after commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction

from mcp_app.auth.membership import membership_of
from mcp_app.auth.permissions import permissions_of
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.models import (
    AuditEvent,
    CatalogueChange,
    CatalogueRevision,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)
from mcp_app.protocol.errors import ResourceNotFound
from tests.integration.catalogue.transfers import bring
from tests.samples.media_samples import FOR_MODELS
from tests.views import seen

pytestmark = pytest.mark.django_db(transaction=True)
NOBODY: frozenset[str] = frozenset()


@pytest.fixture(autouse=True)
def _mirrored(announced: list[int]) -> None:
    mirror()
    announced.clear()


@pytest.fixture
def uploads(tmp_path: Path, settings: Any) -> Path:
    """Create an upload directory, and beside it a resource directory with a file and a link that leads
    outside.
    """
    uploads, shelf = tmp_path / "uploads", tmp_path / "shelf"
    uploads.mkdir()
    shelf.mkdir()
    (shelf / "a.md").write_text("# A")
    (shelf / "link.md").symlink_to("/etc/hostname")
    settings.MEDIA_ROOT = str(uploads)
    settings.MCP = {
        **settings.MCP, "UPLOAD_DIRECTORY": str(uploads), "RESOURCE_DIRECTORIES": [str(shelf)],
        "MAX_RESULT_BYTES": 4000,
    }  # fmt: skip
    return uploads


def add_tool() -> Tool:
    return Tool.objects.get(name="add")


def save_prompt(**values: Any) -> Prompt:
    return services.save_prompt(actor=None, **{"name": "p", "template": "Hi", **values})


def save_preset(**values: Any) -> Tool:
    given = {"name": "add-five", "preset_of": add_tool(), "fixed_arguments": {"b": 5}, **values}
    return services.save_tool_preset(actor=None, **given)


def save_resource(**values: Any) -> Resource:
    return services.save_resource(actor=None, **{"uri": "memo://1", "name": "memo", **values})


def read(uri: str) -> Any:
    found = current_snapshot.refreshed_view(NOBODY).resource(uri)
    assert found is not None
    assert found[0].static is not None
    return found[0].static(uri)


@pytest.mark.requirement("TOOL-23")
def test_change_is_announced_after_commit_only(announced: list[int]) -> None:
    with transaction.atomic():
        save_prompt()
        transaction.set_rollback(True)
    assert announced == []
    with transaction.atomic():
        save_prompt()
        assert announced == []
    assert announced == [2]
    assert CatalogueRevision.objects.get().number == 2


def test_change_records_actor_action_and_former_state(someone: Any) -> None:
    row = services.save_prompt(actor=someone, name="p", template="Old")
    services.save_prompt(actor=someone, entry=row, template="New")
    services.delete_entry(entry=row, actor=someone)
    changes = list(CatalogueChange.objects.filter(kind="prompt", key="p").order_by("id"))
    assert [change.action for change in changes] == ["created", "changed", "deleted"]
    assert changes[0].before is None
    assert (changes[1].before["template"], changes[1].after["template"]) == ("Old", "New")
    assert changes[2].after is None
    assert {change.actor for change in changes} == {someone}
    events = AuditEvent.objects.filter(object_key="p").order_by("id")
    assert [event.action for event in events] == [
        "catalogue.created",
        "catalogue.changed",
        "catalogue.deleted",
    ]
    assert events[1].detail["changed"] == ["template"]
    assert events[1].actor_name == "someone"


def test_saving_without_a_difference_creates_no_revision(announced: list[int]) -> None:
    row = save_prompt()
    services.save_prompt(actor=None, entry=row, template="Hi")
    assert announced == [2]


def test_only_the_changed_list_gets_the_new_revision() -> None:
    assert set(current_snapshot.refresh_now().revisions.values()) == {1}
    save_prompt()
    after = current_snapshot.refresh_now()
    assert after.revisions == {"tools": 1, "prompts": 2, "resources": 1}


@pytest.mark.requirement("PROMPT-01", "PROMPT-05")
def test_admin_prompt_is_served_and_rendered() -> None:
    save_prompt(template="Review {{code}} {{7*7}}", arguments=[{"name": "code", "required": True}], title="T")
    entry = current_snapshot.refreshed_view(NOBODY).prompt("p")
    assert entry is not None
    assert entry.function is None
    assert entry.wire == {"name": "p", "title": "T", "arguments": [{"name": "code", "required": True}]}
    assert entry.render(entry.accept({"code": "{{code}}"})) == "Review {{code}} {{7*7}}"


@pytest.mark.requirement("TOOL-06", "ICON-02")
@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "no spaces"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "code_review"}, "name"),
        ({"template": " "}, "template"),
        ({"template": "{{missing}}"}, "template"),
        ({"template": "x" * 100_001}, "template"),
        ({"arguments": {"a": 1}}, "arguments"),
        ({"arguments": [{"name": "a b"}]}, "arguments"),
        ({"arguments": [{"name": "a"}, {"name": "a"}]}, "arguments"),
        ({"arguments": [{"name": "a", "required": "yes"}]}, "arguments"),
        ({"arguments": [{"name": "a", "description": 1}]}, "arguments"),
        ({"arguments": [{"name": "a", "type": "int"}]}, "arguments"),
        ({"arguments": [{"name": f"a{n}"} for n in range(51)]}, "arguments"),
        ({"icons": [{"src": "javascript:alert(1)"}]}, "icons"),
        ({"meta": {"mcp.dev/x": 1}}, "meta"),
        ({"meta": []}, "meta"),
        ({"permission": "nonsense"}, "permission"),
        ({"description": "x" * 100_001}, "description"),
        ({"position": -1}, "position"),
        ({"source": "code"}, "source"),
    ],
)
def test_invalid_prompt_is_refused_at_its_field(
    values: dict[str, Any], field: str, announced: list[int]
) -> None:
    with pytest.raises(ValidationError) as caught:
        save_prompt(**values)
    assert field in caught.value.message_dict
    assert not Prompt.objects.filter(source="admin").exists()
    assert announced == []


@pytest.mark.requirement("TOOL-21")
def test_preset_hides_and_sends_its_fixed_arguments() -> None:
    save_preset(timeout_seconds=5, calls_per_minute=3, description="Adds five.")
    entry = current_snapshot.refreshed_view(NOBODY).tool("add-five")
    assert entry is not None
    assert entry.wire["inputSchema"]["properties"] == {"a": {"type": "integer"}}
    assert entry.wire["description"] == "Adds five."
    assert entry.wire["outputSchema"]["required"] == ["result"]
    assert (entry.timeout, entry.calls_per_minute) == (5, 3)
    assert entry.check({"a": 1}) is None
    assert entry.check({"a": 1, "b": 6}) == "b: expected no such argument, got 6"
    assert entry.function.call(**entry.function.bind({"a": 1})) == 6


def test_preset_is_disabled_with_its_tool() -> None:
    save_preset()
    services.set_enabled(entries=[add_tool()], enabled=False, actor=None)
    assert current_snapshot.refreshed_view(NOBODY).tool("add-five") is None


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"preset_of": None}, "preset_of"),
        ({"fixed_arguments": {"c": 1}}, "fixed_arguments"),
        ({"fixed_arguments": {"b": "five"}}, "fixed_arguments"),
        ({"fixed_arguments": [1]}, "fixed_arguments"),
        ({"name": "add"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": 10_000}, "timeout_seconds"),
        ({"calls_per_minute": 0}, "calls_per_minute"),
    ],
)
def test_invalid_preset_is_refused_at_its_field(values: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        save_preset(**values)
    assert field in caught.value.message_dict


def test_preset_of_a_preset_is_refused() -> None:
    with pytest.raises(ValidationError, match="another preset"):
        save_preset(name="again", preset_of=save_preset())


@pytest.mark.requirement("TOOL-25")
@pytest.mark.parametrize(
    ("name", "data", "mime_type"),
    [
        ("a.png", FOR_MODELS["image/png"], "image/png"),
        ("a.png", FOR_MODELS["image/jpeg"], "image/jpeg"),
        ("a.png", b"<html>", "text/html"),
        ("a.png", b"?", "application/octet-stream"),
        ("a.wav", FOR_MODELS["image/gif"], "image/gif"),
    ],
)
@pytest.mark.usefixtures("uploads")
def test_uploaded_media_has_the_type_of_its_bytes(name: str, data: bytes, mime_type: str) -> None:
    save_resource(file=SimpleUploadedFile(name, data))
    assert [each["mimeType"] for each in read("memo://1")] == [mime_type]


@pytest.mark.requirement("RES-02")
def test_text_resource_is_read() -> None:
    save_resource(text="hello", mime_type="text/markdown", annotations={"priority": 0.5})
    assert read("memo://1") == [{"uri": "memo://1", "mimeType": "text/markdown", "text": "hello"}]


@pytest.mark.requirement("RES-02", "RES-14")
def test_uploaded_file_is_read_and_deleted_when_replaced(uploads: Path) -> None:
    row = save_resource(file=SimpleUploadedFile("../../a b.txt", b"hello"))
    assert read("memo://1") == [{"uri": "memo://1", "mimeType": "text/plain", "text": "hello"}]
    first = uploads / str(row.file.name)
    assert first.is_file()
    assert first.parent == uploads / "resources"
    services.save_resource(actor=None, entry=row, file=SimpleUploadedFile("a.ttf", b"\x89PNG"))
    assert read("memo://1") == [{"uri": "memo://1", "mimeType": "font/ttf", "blob": "iVBORw=="}]
    assert not first.exists()
    services.save_resource(actor=None, entry=row, file=False, text="now text")
    assert read("memo://1")[0]["text"] == "now text"
    assert not list((uploads / "resources").iterdir())


@pytest.mark.requirement("RES-05", "RES-06")
def test_stored_file_name_outside_uploads_is_not_found(uploads: Path) -> None:
    row = save_resource(file=SimpleUploadedFile("a.txt", b"hello"))
    (uploads / "link").symlink_to("/etc")
    for name in ("../secret", "/etc/passwd", "link/passwd", "resources/missing"):
        Resource.objects.filter(pk=row.pk).update(file=name)
        current_snapshot.refresh_now(force=True)
        with pytest.raises(ResourceNotFound):
            read("memo://1")


@pytest.mark.requirement("RES-05")
def test_file_of_a_resource_directory_is_served_by_its_uri(uploads: Path) -> None:
    shelf = uploads.parent / "shelf"
    uri = f"file://{shelf}/a.md"
    save_resource(uri=uri)
    assert read(uri) == [{"uri": uri, "mimeType": "text/markdown", "text": "# A"}]
    for refused in (f"file://{shelf}/link.md", f"file://{shelf}/../uploads", "file:///etc/passwd"):
        with pytest.raises(ValidationError, match="RESOURCE_DIRECTORIES"):
            save_resource(uri=refused)


@pytest.mark.requirement("RES-07")
@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"uri": "no-scheme"}, "uri"),
        ({"uri": "memo://{x}"}, "uri"),
        ({"uri": "memo://a b"}, "uri"),
        ({"uri": "notes://today"}, "uri"),
        ({"mime_type": "text"}, "mime_type"),
        ({"annotations": {"priority": 2}}, "annotations"),
        ({"annotations": {"audience": "user"}}, "annotations"),
        ({"annotations": {"other": 1}}, "annotations"),
        ({"text": "x", "file": SimpleUploadedFile("a.txt", b"x")}, "file"),
        ({"file": SimpleUploadedFile("a.txt", b"x" * 3001)}, "file"),
        ({"text": "x" * 3001}, "text"),
    ],
)
def test_invalid_resource_is_refused_at_its_field(values: dict[str, Any], field: str, uploads: Path) -> None:
    with pytest.raises(ValidationError) as caught:
        save_resource(**values)
    assert field in caught.value.message_dict
    assert not list(uploads.rglob("*.txt"))


def test_administrator_overrides_but_does_not_redefine_a_code_entry() -> None:
    row = services.update_entry(
        entry=add_tool(), actor=None, title="Sum", description="Mine", timeout_seconds=2, enabled=True,
        meta={"example.com/a": 1}, icons=[{"src": "https://example.com/i.png"}],
    )  # fmt: skip
    entry = current_snapshot.refreshed_view(NOBODY).tool("add")
    assert entry is not None
    assert (entry.wire["title"], entry.wire["description"], entry.timeout) == ("Sum", "Mine", 2)
    assert entry.wire["_meta"] == {"example.com/a": 1}
    assert row.reviewed_hash == row.definition_hash
    services.update_entry(entry=row, actor=None, name="add")
    for values in ({"name": "plus"}, {"input_schema": {}}, {"source": "admin"}, {"nonsense": 1}):
        with pytest.raises(ValidationError, match="defined in code"):
            services.update_entry(entry=row, actor=None, **values)
    with pytest.raises(ValidationError, match="use update_entry"):
        services.save_tool_preset(actor=None, entry=row, title="x")


def test_group_gets_permission_set_by_update_save_or_import(someone: Any) -> None:
    groups = [Group.objects.create(name=name) for name in ("Cashiers", "Editors", "Guests")]
    first, second, third = (membership_of(group) for group in groups)
    row = services.update_entry(entry=add_tool(), actor=None, permission=first)
    save_prompt(permission=second)
    bring({"prompts": [{"name": "q", "source": "admin", "template": "Hi", "permission": third}]})
    someone.is_superuser = False
    assert permissions_of(someone) == frozenset()
    someone.groups.set(groups)
    assert permissions_of(someone) == {first, second, third}
    # Saving the entry restores a permission that was removed from the group.
    groups[0].permissions.clear()
    services.update_entry(entry=row, actor=None, permission=first)
    assert first in permissions_of(someone)


@pytest.mark.parametrize("kind", [Tool, Prompt, Resource, ResourceTemplate])
def test_every_kind_can_be_disabled_and_enabled(kind: Any, announced: list[int]) -> None:
    row = kind.objects.get()
    assert services.set_enabled(entries=[row], enabled=False, actor=None) == 1
    assert services.set_enabled(entries=[row], enabled=False, actor=None) == 0
    held = current_snapshot.refresh_now()
    lists = ["tools", "prompts", "resources", "templates"]
    empty = [name for name in lists if b'"name"' not in seen(held, NOBODY).page(name, "2025-11-25")]
    assert len(empty) == 1
    assert services.set_enabled(entries=[row], enabled=True, actor=None) == 1
    assert announced == [2, 3]


def test_bulk_action_is_one_revision(announced: list[int]) -> None:
    rows: list[Any] = [save_prompt(name="a"), save_prompt(name="b"), add_tool()]
    announced.clear()
    assert services.set_enabled(entries=rows, enabled=False, actor=None) == 3
    assert services.delete_entries(entries=rows[:2], actor=None) == 2
    assert len(announced) == 2


def test_bulk_change_is_stored_as_one_revision_or_not_at_all(uploads: Path, announced: list[int]) -> None:
    upload = {"uri": "memo://1", "name": "m", "file": SimpleUploadedFile("a.txt", b"x")}
    old = save_prompt(name="old")
    announced.clear()
    changes = [
        services.EntryChange(kind=Resource, entry=None, values=upload),
        services.EntryChange(kind=Tool, entry=add_tool(), values={"title": "Sum"}),
    ]
    refused = services.EntryChange(kind=Tool, entry=add_tool(), values={"name": "plus"})
    with pytest.raises(ValidationError, match="defined in code"):
        services.change_entries(changes=[*changes, refused], removed=[old], actor=None)
    assert (Resource.objects.count(), add_tool().title, announced) == (1, "", [])
    assert not list((uploads / "resources").iterdir())
    upload["file"] = SimpleUploadedFile("a.txt", b"x")
    assert [services.change_entries(changes=changes, removed=[old], actor=None)] == announced == [3]
    assert [path.name for path in (uploads / "resources").iterdir()] == ["a.txt"]
    assert services.change_entries(changes=changes[1:], actor=None) == 0
    assert not Prompt.objects.filter(name="old").exists()


def test_code_entry_is_deleted_only_without_code_and_presets(registered: Any) -> None:
    with pytest.raises(ValidationError, match="disable it instead"):
        services.delete_entry(entry=add_tool(), actor=None)
    preset = save_preset()
    registered.tools.clear()
    mirror()
    with pytest.raises(ValidationError, match="has presets"):
        services.delete_entry(entry=add_tool(), actor=None)
    services.delete_entries(entries=[preset], actor=None)
    services.delete_entry(entry=add_tool(), actor=None)
    assert not Tool.objects.exists()
