"""Transfer of a catalogue between installations as a file: complete, validated first, as one revision."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_app import tool
from mcp_app.auth.api_keys import issue_api_key
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.definitions.registry import Registry
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.sources.content.source import CONTENT
from mcp_app.catalogue.sources.preset.source import PRESET
from mcp_app.catalogue.transfer import NOTATIONS, TransferRefused, export_catalogue
from mcp_app.catalogue.transfer.report import difference_lines
from mcp_app.models import AuditEvent, CatalogueChange, Prompt, Resource, Tool
from tests.integration.catalogue.transfers import HEAD, bring, exported, fill, start_afresh

pytestmark = pytest.mark.django_db(transaction=True)
NOBODY: frozenset[str] = frozenset()


@pytest.fixture(autouse=True)
def _mirrored(announced: list[int]) -> None:
    mirror()
    announced.clear()


@pytest.fixture(autouse=True)
def uploads(tmp_path: Path, settings: Any) -> Path:
    """Set an empty upload directory, and limit the content of an entry to 3,000 bytes."""
    folder = tmp_path / "uploads"
    folder.mkdir()
    settings.MEDIA_ROOT = str(folder)
    settings.MCP = {**settings.MCP, "UPLOAD_DIRECTORY": str(folder), "MAX_RESULT_BYTES": 4000}
    return folder


def problems(document: dict[str, Any] | str, **options: Any) -> list[str]:
    with pytest.raises(TransferRefused) as refused:
        bring(document, **options)
    return [str(problem) for problem in refused.value.problems]


def prompt(**values: Any) -> dict[str, Any]:
    return {"name": "p", "source": "admin", "template": "Hi", **values}


def code(**values: Any) -> dict[str, Any]:
    return {"name": "add", "source": "code", **values}


def preset(**values: Any) -> dict[str, Any]:
    return {"name": "x", "source": "admin", **values}


def test_untouched_catalogue_exports_an_empty_file() -> None:
    assert exported() == {
        **HEAD,
        "tools": [],
        "prompts": [],
        "resources": [],
        "templates": [],
        "toolsets": [],
        "limits": [],
    }


def test_export_contains_only_overrides_of_code_entries() -> None:
    services.update_entry(entry=Tool.objects.get(name="add"), actor=None, title="Sum", retries=None)
    services.set_enabled(entries=[Prompt.objects.get()], enabled=False, actor=None)
    document = exported()
    assert document["tools"] == [{"name": "add", "source": "code", "title": "Sum"}]
    assert document["prompts"] == [{"name": "code_review", "source": "code", "enabled": False}]


def test_export_contains_admin_entries_whole_and_in_order() -> None:
    fill()
    document = exported()
    assert [entry["name"] for entry in document["tools"]] == ["add", "five", "same"]
    assert list(document["prompts"][1]) == ["name", "source", "enabled", "title", "description", "permission",
                                            "icons", "meta", "tags", "position", "arguments",
                                            "template"]  # fmt: skip
    assert document["tools"][1]["preset_of"] == "add"
    assert document["resources"][0]["file"] is None
    assert document["resources"][1]["file"]["name"] == "a_b.tar.gz"


def test_code_changes_are_not_exported_as_overrides(registered: Registry) -> None:
    registered.tools.clear()
    tool(name="early", permission="app.use")(lambda: None)
    tool(name="add")(lambda: None)
    mirror()
    assert exported()["tools"] == []


def test_export_contains_no_users_keys_or_paths(someone: Any, uploads: Path) -> None:
    _, key = issue_api_key(user=someone, name="secret-key-name")
    fill()
    services.save_prompt(actor=someone, name="mine", template="x")
    text = export_catalogue()
    for hidden in (
        key,
        "secret-key-name",
        "someone",
        str(uploads),
        "resources/a",
        "conftest",
        '"id"',
        "_hash",
    ):
        assert hidden not in text


def test_missing_code_entry_is_neither_exported_nor_imported(registered: Registry) -> None:
    services.update_entry(entry=Tool.objects.get(name="add"), actor=None, title="Sum")
    registered.tools.clear()
    mirror()
    assert exported()["tools"] == []
    assert "Unknown to this installation" in problems({"tools": [code(title="x")]})[0]
    assert bring({}, prune=True).differences == ()


def test_unreadable_upload_stops_the_export(uploads: Path) -> None:
    fill()
    (uploads / "resources" / "a_b.tar.gz").unlink()
    with pytest.raises(TransferRefused, match=r"memo://2: file: .* Upload it again"):
        export_catalogue()


@pytest.mark.parametrize("notation", NOTATIONS)
def test_import_recreates_the_exported_catalogue(notation: str, uploads: Path) -> None:
    fill()
    before = export_catalogue(notation)
    assert not any(sign in before for sign in ("\x1b", "\u202e"))
    for kept in (uploads / "resources").iterdir():
        kept.unlink()
    start_afresh()
    bring(before, notation)
    assert export_catalogue(notation) == before
    read = current_snapshot.refreshed_view(NOBODY).resource("memo://2")
    assert read is not None
    assert read[0].static is not None
    assert read[0].static("memo://2")[0]["blob"]


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize("prune", [False, True])
def test_importing_an_unchanged_export_changes_nothing(
    notation: str, prune: bool, announced: list[int]
) -> None:
    fill()
    announced.clear()
    counts = AuditEvent.objects.count(), CatalogueChange.objects.count()
    imported = bring(export_catalogue(notation), notation, prune=prune)
    assert (imported.revision, imported.differences, imported.unchanged) == (0, (), 10)
    assert (AuditEvent.objects.count(), CatalogueChange.objects.count()) == counts
    assert announced == []


LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NAMES = st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True).map(lambda name: f"x{name}")
APPEARANCE = st.fixed_dictionaries(
    {},
    optional={
        "title": LINES,
        "description": LINES,
        "enabled": st.booleans(),
        "position": st.integers(0, 2**31 - 1),
        "meta": st.dictionaries(
            NAMES.filter(lambda name: name[-1].isalnum()), LINES | st.floats(0, 1), max_size=2
        ),
    },
)
TEXT = LINES.map(lambda text: "x" + text.replace("{", ""))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dressed=APPEARANCE,
    prompts=st.dictionaries(NAMES, st.tuples(TEXT, APPEARANCE), max_size=3),
    presets=st.dictionaries(NAMES, st.tuples(st.integers(), APPEARANCE), max_size=3),
    memos=st.dictionaries(NAMES, st.tuples(TEXT, APPEARANCE), max_size=3),
    notation=st.sampled_from(NOTATIONS),
)
def test_any_catalogue_round_trips_through_a_file(
    dressed: Any, prompts: Any, presets: Any, memos: Any, notation: str
) -> None:
    start_afresh()
    add = services.update_entry(entry=Tool.objects.get(name="add"), actor=None, **dressed)
    for name, (text, dress) in prompts.items():
        services.save_prompt(actor=None, name=name, template=text, **dress)
    for name, (number, dress) in presets.items():
        services.save_tool_preset(
            actor=None, name=name, preset_of=add, fixed_arguments={"b": number}, **dress
        )
    for name, (text, dress) in memos.items():
        services.save_resource(actor=None, uri=f"memo://{name}", name=name, text=text, **dress)
    before = export_catalogue(notation)
    assert bring(before, notation).revision == 0
    start_afresh()
    bring(before, notation)
    assert export_catalogue(notation) == before


def test_import_is_one_announced_and_audited_revision(announced: list[int], someone: Any) -> None:
    imported = bring({"prompts": [prompt(), prompt(name="q")], "tools": [code(title="Sum")]}, actor=someone)
    assert announced == [imported.revision] == [2]
    changes = CatalogueChange.objects.filter(revision=2).order_by("id")
    told = [(change.action, change.key, change.actor) for change in changes]
    assert told == [("changed", "add", someone), ("created", "p", someone), ("created", "q", someone)]
    audited = AuditEvent.objects.filter(actor=someone).order_by("id").values_list("action", flat=True)
    created = "catalogue.created"
    assert list(audited) == ["catalogue.changed", created, created, "catalogue.imported"]
    entry = current_snapshot.refreshed_view(NOBODY).tool("add")
    assert entry is not None
    assert entry.wire["title"] == "Sum"


def test_dry_run_returns_the_same_plan_and_writes_nothing(announced: list[int], uploads: Path) -> None:
    fill()
    before, audited = export_catalogue(), AuditEvent.objects.count()
    announced.clear()
    upload = {"name": "n.txt", "base64": "aGk="}
    document = {
        "prompts": [prompt()],
        "resources": [{"uri": "memo://3", "source": "admin", "name": "3", "file": upload}],
    }
    planned = bring(document, prune=True, dry_run=True)
    assert export_catalogue() == before
    assert (announced, AuditEvent.objects.count()) == ([], audited)
    assert not (uploads / "resources" / "n.txt").exists()
    assert bring(document, prune=True).differences == planned.differences
    assert [(each.action, each.key) for each in planned.differences] == [
        ("added", "p"), ("added", "memo://3"),
        ("changed", "add"), ("removed", "five"), ("removed", "same"),
        ("changed", "code_review"), ("removed", "greet"), ("removed", "no"),
        ("removed", "memo://1"), ("removed", "memo://2"), ("changed", "notes://today"),
        ("changed", "notes://{slug}"),
    ]  # fmt: skip


def test_import_keeps_missing_entries_unless_pruned() -> None:
    fill()
    entries = exported()
    assert bring({"prompts": entries["prompts"][:1]}).revision == 0
    bring({"prompts": entries["prompts"][:1]}, prune=True)
    assert exported() == {
        **HEAD,
        "tools": [],
        "prompts": entries["prompts"][:1],
        "resources": [],
        "templates": [],
        "toolsets": [],
        "limits": [],
    }
    assert list(Tool.objects.values_list("name", flat=True)) == ["add"]


def test_fields_missing_in_the_file_are_reset() -> None:
    services.update_entry(entry=Tool.objects.get(name="add"), actor=None, title="Sum", enabled=False)
    services.save_prompt(actor=None, name="p", template="Hi", title="T")
    bring({"tools": [code(description="D")], "prompts": [prompt()]})
    assert exported()["tools"] == [code(description="D")]
    assert Prompt.objects.get(name="p").title == ""


@pytest.mark.parametrize("kept", ["same bytes", "other bytes"])
def test_upload_is_replaced_only_by_other_bytes(kept: str, uploads: Path) -> None:
    row = services.save_resource(
        actor=None, uri="memo://1", name="m", file=SimpleUploadedFile("a.txt", b"same bytes")
    )
    entry = exported()["resources"][0]
    entry["file"] = {"name": "another.txt", "base64": b64encode(kept.encode()).decode()}
    assert bool(bring({"resources": [entry]}).revision) == (kept == "other bytes")
    row.refresh_from_db()
    assert (uploads / str(row.file.name)).read_bytes() == kept.encode()
    assert len(list((uploads / "resources").iterdir())) == 1


DEEP: Any = 1
for _ in range(70):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("section", "entry", "says"),
    [
        ("prompts", "p", "prompts[0]: An entry must be an object."),
        ("prompts", {"source": "admin"}, "prompts[0]: name: Must be text"),
        ("prompts", prompt(name="a\0b"), "prompts[0]: name: Text may not contain NUL"),
        ("prompts", prompt(name="a b"), "prompt a b: name: The name 'a b' is not allowed"),
        ("prompts", {"name": "p", "template": "x"}, "prompt p: source: Must be one of: code, admin"),
        ("prompts", prompt(source=["admin"]), "prompt p: source: Must be one of"),
        ("prompts", prompt(name="code_review"), "prompt code_review: source: Here its source is 'code'"),
        ("prompts", prompt(source="code"), "prompt p: source: Unknown to this installation: install the app"),
        ("tools", code(template="x"), "tool add: template: There is no such field; there are: enabled"),
        ("tools", code(preset_of="add"), "tool add: preset_of: This is defined in code"),
        ("tools", code(id=1), "tool add: id: There is no such field"),
        ("tools", code(enabled="yes"), "tool add: enabled: Must be true or false."),
        ("tools", code(enabled=1), "tool add: enabled: Must be true or false."),
        ("tools", code(title=5), "tool add: title: Must be text."),
        ("tools", code(title=None), "tool add: title: Must be text."),
        ("tools", code(title="x" * 201), "tool add: title: Ensure this value has at most 200"),
        ("tools", code(title="\0"), "tool add: title: Text may not contain NUL"),
        ("tools", code(title="\ud800"), "tool add: title: Text may not contain NUL or lone surrogate"),
        ("tools", code(position=-1), "tool add: position: Ensure this value is greater"),
        ("tools", code(position=10**30), "tool add: position: Ensure this value is less"),
        ("tools", code(position=1.5), "tool add: position: Must be a whole number."),
        ("tools", code(timeout_seconds=True), "tool add: timeout_seconds: Must be a number or null."),
        ("tools", code(timeout_seconds=10**400), "tool add: timeout_seconds: Must be a number or null."),
        ("tools", code(timeout_seconds=0), "tool add: timeout_seconds: This must be more than 0"),
        ("tools", code(retries=1), "tool add: retries: Only a tool that its source declares idempotent"),
        ("tools", code(icons={}), "tool add: icons: Must be a list."),
        ("tools", code(icons=["x"]), "tool add: icons: An icon must be an object"),
        ("tools", code(meta=[]), "tool add: meta: Must be an object."),
        ("tools", code(meta={"io.mcp/x": 1}), "tool add: meta: The _meta key 'io.mcp/x' is reserved"),
        ("tools", code(meta={"x": DEEP}), "tool add: meta: Nested more than 64 levels deep."),
        ("tools", code(meta={"x": "y" * 300_000}), "tool add: meta: Too long"),
        ("tools", code(permission="add"), "tool add: permission: A permission looks like"),
        ("tools", code(permission="no.such"), "tool add: permission: There is no permission 'no.such' here"),
        ("tools", preset(), "tool x: preset_of: Choose the tool"),
        ("tools", preset(preset_of="y"), "tool x: preset_of: There is no tool 'y'"),
        ("tools", preset(preset_of=[1]), "tool x: preset_of: Must be text or null."),
        ("tools", preset(preset_of="add", fixed_arguments={"c": 1}), "The tool has no argument 'c'."),
        ("prompts", prompt(template=""), "prompt p: template: A prompt needs a template."),
        ("prompts", prompt(template="{{x}}"), "prompt p: template: {{x}} is not among the arguments"),
        ("prompts", prompt(arguments=[{"name": "a"}] * 2), "arguments: The argument 'a' is listed twice."),
        ("templates", {"uri_template": "x://{a}", "source": "admin"}, "source: Resource templates"),
        ("resources", {"uri": "no-scheme", "source": "admin", "name": "x"}, "resource no-scheme: uri: "),
        ("resources", {"uri": "file:///etc/passwd", "source": "admin", "name": "x"}, "RESOURCE_DIRECTORIES"),
    ],
)  # fmt: skip
def test_invalid_entry_is_refused_with_its_location(
    section: str, entry: Any, says: str, announced: list[int]
) -> None:
    told = problems({section: [entry]})
    assert len(told) == 1
    assert says in told[0]
    assert announced == []


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("x", "Must be null or an object"),
        ({"name": "a.txt"}, "Must be null or an object"),
        ({"name": "../a.txt", "base64": ""}, "letters, digits and _.- only"),
        ({"name": "..", "base64": ""}, "letters, digits and _.- only"),
        ({"name": "a.txt", "base64": "*"}, "is not base64"),
        ({"name": "a.txt", "base64": 5}, "is not base64"),
        ({"name": "a.txt", "base64": "QUJD" * 1001}, "at most 3000 can be offered"),
    ],
)
def test_invalid_upload_is_refused(file: Any, says: str, uploads: Path) -> None:
    entry = {"uri": "memo://1", "source": "admin", "name": "x", "file": file}
    told = problems({"resources": [entry]})
    assert len(told) == 1
    assert told[0].startswith("resource memo://1: file: ")
    assert says in told[0]
    assert not list(uploads.iterdir())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "format: This is not a catalogue file"),
        ("{}", "format: This is not a catalogue file"),
        (json.dumps(HEAD | {"version": 2}), "version: Must be 1"),
        (json.dumps(HEAD | {"version": True}), "version: Must be 1"),
        (
            json.dumps(HEAD | {"users": []}),
            "users: Unknown: a file has tools, prompts, resources, templates, toolsets, limits.",
        ),
        (json.dumps(HEAD | {"tools": {}}), "tools: Must be a list of entries; [] when there are none."),
        (json.dumps(HEAD | {"tools": [None] * 10_001}), "more than 10000 entries"),
    ],
)
def test_invalid_catalogue_file_is_refused(text: str, says: str) -> None:
    told = problems(text)
    assert len(told) == 1
    assert says in told[0]


def test_all_problems_are_reported_and_nothing_is_changed(announced: list[int]) -> None:
    told = problems(
        {
            "tools": [code(title=1, meta=[], position=-1), code()],
            "prompts": [prompt(), prompt(name="q", template="", permission="no.such")],
        },
        prune=True,
    )
    assert [line.split(": ")[:2] for line in told] == [
        ["tool add", "title"], ["tool add", "meta"], ["tool add", "position"],
        ["tool add", "It is in the file twice"], ["prompt q", "template"], ["prompt q", "permission"],
    ]  # fmt: skip
    assert not Prompt.objects.filter(name="p").exists()
    assert announced == []


def test_code_without_mirrored_row_is_reported_with_the_remedy() -> None:
    tool(name="late")(lambda: None)
    assert "run `manage.py mcp_prepare` first" in problems({"tools": [{"name": "late", "source": "code"}]})[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted(PRESET.editable(Tool) | CONTENT.editable(Prompt) | CONTENT.editable(Resource))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    section=st.sampled_from(["tools", "prompts", "resources", "templates"]),
    entry=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4),
    source=st.sampled_from(["admin", "code"]),
)
def test_any_entry_is_imported_or_reported(section: str, entry: dict[str, Any], source: str) -> None:
    keys = {
        "tools": "add",
        "prompts": "code_review",
        "resources": "notes://today",
        "templates": "notes://{slug}",
    }
    name = {"resources": "uri", "templates": "uri_template"}.get(section, "name")
    key = keys[section] if source == "code" else "new:1"
    document = HEAD | {section: [{"preset_of": "add", **entry, name: key, "source": source}]}
    text = json.dumps(document).replace("Infinity", "1e999").replace("NaN", "0")
    try:
        brought = bring(text, dry_run=True)
        told = [brought.revision == 0, len(brought.differences) + brought.unchanged == 1]
    except TransferRefused as refused:
        told = [bool(problem.text) for problem in refused.problems]
    assert told
    assert all(told)


def test_differences_compare_effective_values() -> None:
    in_code = Tool.objects.get(name="add").definition["description"]
    (changed,) = bring({"tools": [code(description="Pay back")]}, dry_run=True).differences
    assert [(each.name, each.old, each.new) for each in changed.fields] == [
        ("description", in_code, "Pay back")
    ]
    bring({"tools": [code(description="Pay back")]})
    (undone,) = bring({"tools": [code()]}, dry_run=True).differences
    assert [(each.old, each.new) for each in undone.fields] == [("Pay back", in_code)]


def test_dry_run_warns_about_names_in_single_braces() -> None:
    imported = bring({"prompts": [prompt(template="Order {order}")]}, dry_run=True)
    warning = "template: {order} is plain text. Did you mean {{order}}?"
    assert [each.warnings for each in imported.differences] == [(warning,)]
    assert f"    Warning: {warning}" in list(difference_lines(imported.differences))
