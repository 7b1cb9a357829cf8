"""The catalogue as a file in the admin: exported, reviewed, and imported if unchanged since the review."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from mcp_app.admin.entries.transfer import packed
from mcp_app.catalogue.changes.services import set_enabled
from mcp_app.catalogue.transfer import export_catalogue
from mcp_app.interface.text import visible
from mcp_app.models import AuditEvent, Prompt, Tool
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import ALL_HOSTILE, RAW_HIDDEN, RAW_MARKUP, Seed

pytestmark = pytest.mark.postgres
IMPORT = "/admin/mcp_app/tool/import/"
EXPORT = "/admin/mcp_app/tool/export/"


@pytest.fixture(autouse=True)
def _fit(seeded: Seed) -> None:
    Prompt.objects.filter(pk=seeded.own_prompt.pk).update(template="Hello", arguments=[])


def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(export_catalogue())
    document["prompts"].append({"name": "brand_new", "source": "admin", "template": "Hi\nthere"})
    return document


def _fields(answer: Any) -> dict[str, str]:
    """Return the hidden fields of the confirmation form."""
    inputs = re.findall(r'<input type="hidden" name="([\w-]+)" value="([^"]*)"', answer.content.decode())
    found = {name: html.unescape(value) for name, value in inputs if name != "csrfmiddlewaretoken"}
    assert {"packed", "notation", "at_revision"} <= found.keys(), found.keys()
    return found


@pytest.mark.parametrize("notation", ["json", "yaml"])
def test_export_button_downloads_the_whole_catalogue(notation: str, root: Client) -> None:
    listed = root.get(page("tool", "changelist")).content.decode()
    assert f"{EXPORT}?notation={notation}" in listed
    answer = root.get(f"{EXPORT}?notation={notation}")
    assert answer["Content-Disposition"] == f'attachment; filename="catalogue.{notation}"'
    assert answer.content.decode() == export_catalogue(notation)


@pytest.mark.parametrize("model", ["tool", "prompt", "resource", "resourcetemplate"])
def test_import_and_export_buttons_require_permissions(model: str, root: Client, viewer: Client) -> None:
    assert IMPORT in root.get(page(model, "changelist")).content.decode()
    seen = viewer.get(page(model, "changelist")).content.decode()
    assert EXPORT in seen
    assert IMPORT not in seen


@pytest.mark.parametrize("way", ["file", "text"])
def test_import_is_reviewed_before_it_is_applied(way: str, root: Client) -> None:
    text = json.dumps(_document())
    given = {"file": SimpleUploadedFile("c.json", text.encode())} if way == "file" else {"text": text}
    looked = root.post(IMPORT, given)
    shown = looked.content.decode()
    assert "Preview of the import" in shown
    assert "brand_new" in shown
    assert not Prompt.objects.filter(name="brand_new").exists()
    done = root.post(IMPORT, _fields(looked))
    assert (done.status_code, done["Location"]) == (302, page("tool", "changelist"))
    assert Prompt.objects.get(name="brand_new").template == "Hi\nthere"
    assert AuditEvent.objects.get(action="catalogue.imported").actor_name == "root"


def test_yaml_import_keeps_line_endings(root: Client) -> None:
    Prompt.objects.filter(name="summarise").update(template="one\ntwo\n")
    file = SimpleUploadedFile("c.yaml", export_catalogue("yaml").encode())
    Prompt.objects.filter(name="summarise").update(template="other")
    root.post(IMPORT, _fields(root.post(IMPORT, {"file": file})))
    assert Prompt.objects.get(name="summarise").template == "one\ntwo\n"


def test_outdated_import_plan_is_shown_again(root: Client, seeded: Seed) -> None:
    looked = root.post(IMPORT, {"text": json.dumps(_document())})
    set_enabled(entries=[seeded.preset], enabled=False, actor=seeded.root)
    again = root.post(IMPORT, _fields(looked))
    assert again.status_code == 200
    assert "The catalogue changed after this preview." in again.content.decode()
    assert not Prompt.objects.filter(name="brand_new").exists()
    assert "greet_world" in again.content.decode()
    assert root.post(IMPORT, _fields(again)).status_code == 302
    assert Prompt.objects.filter(name="brand_new").exists()


def test_pruning_missing_entries_is_opt_in(root: Client) -> None:
    document = {**_document(), "prompts": []}
    kept = root.post(IMPORT, {"text": json.dumps(document)}).content.decode()
    assert "summarise" not in kept
    looked = root.post(IMPORT, {"text": json.dumps(document), "prune": "on"})
    assert "summarise" in looked.content.decode()
    root.post(IMPORT, _fields(looked))
    assert not Prompt.objects.filter(name="summarise").exists()


def test_import_requires_permissions_for_its_changes(client_of: ClientOf, seeded: Seed) -> None:
    rows = Permission.objects.filter(content_type__app_label="mcp_app")
    seeded.viewer.user_permissions.add(rows.get(codename="change_tool"))
    client = client_of("viewer")
    looked = client.post(IMPORT, {"text": json.dumps(_document())}).content.decode()
    assert "mcp_app.add_prompt" in looked
    assert "Import all changes" not in looked
    forced = {"packed": packed(json.dumps(_document()).encode()), "notation": "json"}
    revision = re.search(r"evision (\d+)", looked)
    refused = client.post(IMPORT, {**forced, "at_revision": revision[1] if revision else "0"})
    assert refused.status_code == 200
    assert not Prompt.objects.filter(name="brand_new").exists()


def test_import_and_export_require_permissions_and_csrf_token(
    viewer: Client, client_of: ClientOf, client: Client, seeded: Seed
) -> None:
    assert viewer.get(EXPORT).status_code == 200
    assert viewer.get(IMPORT).status_code == 403
    outsider = client_of("outsider")
    assert outsider.get(EXPORT).status_code == outsider.post(IMPORT, {}).status_code == 403
    assert client.get(EXPORT).status_code == client.get(IMPORT).status_code == 302
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(seeded.root)
    assert strict.post(IMPORT, {"text": "{}"}).status_code == 403


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "Choose a file or paste its text"),
        ({"text": "{"}, "Not valid JSON"),
        ({"text": "a: [", "notation": "yaml"}, "Not valid YAML"),
        ({"text": "{}"}, "This is not a catalogue file"),
        ({"text": "{}", "notation": "xml"}, "not one of the available choices"),
        ({"packed": "x", "notation": "json", "at_revision": "0"}, "was not submitted completely"),
        (
            {"packed": b64encode(b"x").decode(), "notation": "json", "at_revision": "0"},
            "was not submitted completely",
        ),
        ({"packed": packed(b"{}"), "notation": "json"}, "was not submitted completely"),
    ],
)
def test_invalid_import_is_explained(given: dict[str, str], told: str, root: Client) -> None:
    answer = root.post(IMPORT, given)
    assert answer.status_code == 200
    assert told in html.unescape(answer.content.decode())


def test_large_import_file_is_rejected_with_advice(root: Client, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 11_000
    file = SimpleUploadedFile("c.json", json.dumps([str(number) * 9 for number in range(9000)]).encode())
    assert "too large for a page" in root.post(IMPORT, {"file": file}).content.decode()


def test_import_preview_escapes_hostile_text(root: Client) -> None:
    document = _document()
    document["prompts"][-1] |= {"name": "hostile", "title": "x", "description": ALL_HOSTILE}
    document["prompts"].append({"name": "<script>window.pwned", "source": "admin", "template": "x"})
    document["tools"].append({"name": ALL_HOSTILE[:100], "source": "code"})
    for text in (json.dumps(document), json.dumps({**_document(), ALL_HOSTILE: 1})):
        shown = root.post(IMPORT, {"text": text}).content.decode()
        body = shown.partition('class="mcp-import"')[0]
        assert not [markup for markup in RAW_MARKUP if markup in shown]
        assert not [letter for letter in RAW_HIDDEN if letter in body]
    assert Tool.objects.filter(source="admin").count() == 1


def test_preview_shows_effective_values_line_by_line(root: Client, seeded: Seed) -> None:
    document = _document()
    document["tools"].append({"name": "echo", "source": "code", "description": "Repeats a text."})
    document["prompts"][-1]["template"] = "Hi {who}"
    entries = root.post(IMPORT, {"text": json.dumps(document)}).context["entries"]
    shown = {each.key: each for each in entries}
    (field,) = (each for each in shown["echo"].fields if each.name == "description")
    in_code = seeded.echo.definition["description"]
    assert (field.old, field.new) == (visible(in_code), visible("Repeats a text."))
    assert shown["brand_new"].warnings == ("template: {who} is plain text. Did you mean {{who}}?",)
    assert all(isinstance(each.name, str) for entry in entries for each in entry.fields)
