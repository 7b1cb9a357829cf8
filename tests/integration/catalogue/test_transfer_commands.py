"""``manage.py mcp_export`` and ``mcp_import``: their output, and its escaping for terminals."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.transfer import export_catalogue
from mcp_app.interface.text import has_hidden
from mcp_app.models import CatalogueChange, Prompt, Tool
from tests.integration.catalogue.transfers import HEAD

UNKNOWN = "Unknown to this installation: install the app that defines it, or take it out of the file."
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _mirrored() -> None:
    mirror()


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def file_with(folder: Path, **sections: Any) -> str:
    path = folder / "catalogue.json"
    path.write_text(json.dumps(HEAD | sections))
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        ((), '{\n  "format": "django-mcp-catalogue",\n  "version": 1,\n  "tools": [\n'),
        (
            ("--format", "yaml"),
            "format: django-mcp-catalogue\nversion: 1\ntools:\n- name: add\n  source: code\n",
        ),
    ],
)
def test_export_writes_to_stdout_or_a_file(arguments: tuple[str, ...], begins: str, tmp_path: Path) -> None:
    services.update_entry(entry=Tool.objects.get(name="add"), actor=None, title="Sum")
    printed = run("mcp_export", *arguments)
    assert printed.startswith(begins)
    path = tmp_path / "catalogue"
    assert run("mcp_export", "--output", str(path), *arguments) == ""
    assert path.read_text() == printed


def test_file_suffix_selects_the_notation(tmp_path: Path) -> None:
    path = str(tmp_path / "catalogue.yaml")
    services.save_prompt(actor=None, name="p", template="a\nb")
    run("mcp_export", "--output", path)
    assert Path(path).read_text() == export_catalogue("yaml")
    Prompt.objects.all().delete()
    assert run("mcp_import", path).endswith(
        "Imported as revision 3: 1 added, 0 changed, 0 removed, 0 unchanged.\n"
    )


def test_dry_run_prints_the_changes(tmp_path: Path) -> None:
    services.save_prompt(actor=None, name="greet", template="Hi\nyou\nthere", title="T" * 150 + "a")
    services.save_prompt(actor=None, name="old", template="Hi")
    greet = {"name": "greet", "source": "admin", "template": "Hi\nme\nthere", "title": "T" * 150 + "b"}
    new = {"name": "new", "source": "admin", "template": "Hi", "arguments": [{"name": "a"}]}
    path = file_with(
        tmp_path, tools=[{"name": "add", "source": "code", "timeout_seconds": 2}], prompts=[greet, new]
    )
    tail = "T" * 100
    wanted = f"""\
~ tool add (changed)
    timeout_seconds: null → 2.0
~ prompt greet (changed)
    title: …{tail}a" → …{tail}b"
    template:
      …
       Hi
      -you
      +me
       there
+ prompt new (added)
    arguments: [{{"name": "a"}}]
    template: "Hi"
- prompt old (removed)
Dry run, nothing was changed: 1 added, 2 changed, 1 removed, 3 unchanged.
"""
    before = export_catalogue()
    assert run("mcp_import", path, "--dry-run", "--prune") == wanted
    assert export_catalogue() == before
    told = run("mcp_import", path, "--prune")
    assert told.startswith(wanted.rpartition("Dry")[0])
    assert told.endswith(": 1 added, 2 changed, 1 removed, 3 unchanged.\n")
    again = run("mcp_import", path, "--prune")
    counted = "0 added, 0 changed, 0 removed, 6 unchanged"
    assert again == f"No changes: the catalogue already matches this file ({counted}).\n"


def test_output_escapes_control_and_hidden_characters(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x9b31m\u202e\u200b\r"
    shapes: list[Any] = [
        {"name": "p", "source": "admin", "template": f"Hi\n{evil}", "title": evil, "meta": {"a": evil}},
        {"name": "q", "source": "admin", "template": "Hi", "arguments": [{"name": "a", "title": evil * 40}]},
    ]
    printed = run("mcp_import", file_with(tmp_path, prompts=shapes), "--dry-run")
    assert not has_hidden(printed)
    assert "⟦U+001B⟧]0;owned⟦U+0007⟧⟦U+009B⟧31m⟦U+202E⟧" in printed
    faulty: list[Any] = [
        {evil: 1},
        {"name": evil, "source": "admin"},
        {"name": "p", "source": "admin", evil: 1},
    ]
    with pytest.raises(CommandError) as refused:
        run("mcp_import", file_with(tmp_path, prompts=faulty))
    assert not has_hidden(str(refused.value))
    path = tmp_path / "x.yaml"
    path.write_text(f'"{evil[-3:-1]}": 1\n"{evil[-3:-1]}": 2\n')
    with pytest.raises(CommandError, match="occurs twice") as refused:
        run("mcp_import", str(path))
    assert not has_hidden(str(refused.value))


def test_problems_are_printed_one_a_line_with_exit_status_1(tmp_path: Path) -> None:
    path = file_with(tmp_path, prompts=[{"name": "p", "source": "code"}, {"name": "q", "source": "admin"}])
    with pytest.raises(CommandError) as refused:
        run("mcp_import", path)
    assert refused.value.returncode == 1
    assert str(refused.value).splitlines() == [
        "Nothing was changed. Problems: 2",
        f"prompt p: source: {UNKNOWN}",
        "prompt q: template: A prompt needs a template.",
    ]


def test_import_reads_stdin_and_records_the_actor(monkeypatch: pytest.MonkeyPatch, someone: Any) -> None:
    text = "{format: django-mcp-catalogue, version: 1, prompts: [{name: p, source: admin, template: Hi}]}"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert "+ prompt p (added)" in run("mcp_import", "-", "--format", "yaml", "--actor", "someone")
    assert CatalogueChange.objects.get(key="p").actor == someone


def test_actor_without_publish_permission_imports_nothing(tmp_path: Path, django_user_model: Any) -> None:
    django_user_model.objects.create_user("editor", is_staff=True)
    path = file_with(tmp_path, prompts=[{"name": "p", "source": "admin", "template": "Hi"}])
    with pytest.raises(CommandError, match=r"Nothing was changed\. editor needs mcp_app\.publish_entries"):
        run("mcp_import", path, "--actor", "editor")
    assert not Prompt.objects.filter(name="p").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("mcp_import", "no-such-file"), "no-such-file cannot be read: No such file"),
        (("mcp_import", "/"), "/ cannot be read: Is a directory"),
        (("mcp_import", __file__, "--actor", "nobody"), "There is no user 'nobody'"),
        (("mcp_import", __file__), "Not valid JSON"),
        (("mcp_export", "--output", "/no/such/folder"), "/no/such/folder cannot be written: No such file"),
    ],
)
def test_command_error_is_one_line(arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(CommandError) as refused:
        run(*arguments)
    assert says in str(refused.value)
