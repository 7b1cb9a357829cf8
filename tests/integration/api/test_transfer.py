"""The catalogue as a file over the API: exported, compared, imported as one revision, with permissions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.catalogue.transfer import MAX_BYTES, export_catalogue
from mcp_app.models import AuditEvent, CatalogueChange, Prompt, Tool
from tests.integration.api.conftest import ClientOf
from tests.samples.admin_seed import Seed

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]
PATH = "/api/catalogue/import/"
MEDIA_TYPES = {"json": "application/json", "yaml": "application/yaml"}


@pytest.fixture
def fit(seeded: Seed) -> Seed:
    """Return the seeded rows without a prompt that the services refuse."""
    Prompt.objects.filter(pk=seeded.own_prompt.pk).update(template="Hello", arguments=[])
    return seeded


def _edited() -> dict[str, Any]:
    """Return the catalogue with an entry added, an entry changed, and an entry removed."""
    document: dict[str, Any] = json.loads(export_catalogue())
    document["prompts"] = [each for each in document["prompts"] if each["name"] != "summarise"]
    document["prompts"] += [{"name": "brand_new", "source": "admin", "template": "Hi\nthere"}]
    for tool in document["tools"]:
        if tool["name"] == "greet_world":
            tool["title"] = "Changed"
    return document


def _post(client: Client, document: Any, query: str = "") -> Any:
    return client.post(f"{PATH}?{query}", json.dumps(document), content_type="application/json")


@pytest.mark.parametrize("notation", ["json", "yaml"])
def test_exported_file_imports_without_changes(notation: str, root: Client, fit: Seed) -> None:
    exported = root.get(f"/api/catalogue/export/?notation={notation}")
    assert exported["Content-Type"].startswith(MEDIA_TYPES[notation])
    assert exported["Content-Disposition"] == f'attachment; filename="catalogue.{notation}"'
    assert exported.content.decode() == export_catalogue(notation)
    answer = root.post(PATH, exported.content, content_type=MEDIA_TYPES[notation])
    assert answer.status_code == 200, answer.content
    assert answer.json()["revision"] == 0
    assert answer.json()["differences"] == []


def test_dry_run_reports_differences_and_changes_nothing(root: Client, fit: Seed) -> None:
    before = CatalogueChange.objects.count()
    told = _post(root, _edited(), "dry_run=true&prune=true").json()
    assert told["counted"] == {
        "added": 1,
        "changed": 1,
        "removed": 1,
        "unchanged": told["counted"]["unchanged"],
    }
    changed = next(each for each in told["differences"] if each["action"] == "changed")
    assert changed == {
        "action": "changed",
        "kind": "tool",
        "key": "greet_world",
        "fields": [{"name": "title", "old": "Greet the world", "new": "Changed"}],
        "warnings": [],
    }
    assert '    title: "Greet the world" → "Changed"' in told["text"]
    assert CatalogueChange.objects.count() == before


def test_import_is_one_audited_revision(root: Client, fit: Seed) -> None:
    told = _post(root, _edited(), "prune=1").json()
    assert told["revision"] > 0
    assert Tool.objects.get(name="greet_world").title == "Changed"
    assert not Prompt.objects.filter(name="summarise").exists()
    event = AuditEvent.objects.get(action="catalogue.imported")
    assert event.actor_name == "the-superuser"
    assert event.detail["revision"] == told["revision"]


def test_import_is_refused_at_another_revision_than_planned(root: Client, fit: Seed) -> None:
    planned = _post(root, _edited(), "dry_run=1").json()["planned_at"]
    root.post(f"/api/tools/{fit.echo.pk}/disable/")
    refused = _post(root, _edited(), f"at_revision={planned}")
    assert refused.status_code == 409
    assert Tool.objects.get(name="greet_world").title == "Greet the world"
    now = _post(root, _edited(), "dry_run=1").json()["planned_at"]
    assert _post(root, _edited(), f"at_revision={now}").status_code == 200


@pytest.mark.parametrize("lacking", ["add_prompt", "change_tool", "delete_prompt", "publish_entries"])
def test_import_requires_every_permission_for_its_changes(
    lacking: str, client_of: ClientOf, fit: Seed
) -> None:
    for row in Permission.objects.filter(content_type__app_label="mcp_app").exclude(codename=lacking):
        fit.outsider.user_permissions.add(row)
    _, secret = issue_api_key(user=fit.outsider, name="mine")
    client = Client(headers={"authorization": f"Bearer {secret}"})
    assert _post(client, _edited(), "prune=1&dry_run=1").json()["missing_permissions"] == [
        f"mcp_app.{lacking}"
    ]
    refused = _post(client, _edited(), "prune=1")
    assert refused.status_code == 403
    assert refused.json()["missing"] == [f"mcp_app.{lacking}"]
    assert not AuditEvent.objects.filter(action="catalogue.imported").exists()


def test_import_reports_every_problem_and_changes_nothing(root: Client, fit: Seed) -> None:
    document = _edited()
    document["tools"].append({"name": "nowhere", "source": "code"})
    document["prompts"].append({"name": "", "source": "admin"})
    refused = _post(root, document)
    assert refused.status_code == 422
    assert [problem["entry"] for problem in refused.json()["problems"]] == ["tool nowhere", "prompts[2]"]
    assert not Prompt.objects.filter(name="brand_new").exists()


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b"", "application/json", 400),
        (b"[]", "application/json", 422),
        (b"{", "application/json", 422),
        (b"a: &a [*a]", "application/yaml", 422),
        (b"!!python/object:os.system {}", "application/yaml", 422),
        (b"x", "text/plain", 415),
        (b" " * (MAX_BYTES + 1), "application/json", 413),
    ],
)
def test_invalid_import_body_is_refused(body: bytes, media_type: str, status: int, root: Client) -> None:
    answer = root.post(PATH, body, content_type=media_type)
    assert answer.status_code == status, answer.content[:500]


@pytest.mark.parametrize("query", ["dry_run=perhaps", "at_revision=-1", "purge=1", "at_revision=x"])
def test_invalid_import_query_is_refused(query: str, root: Client, fit: Seed) -> None:
    assert _post(root, _edited(), query).status_code == 400
    assert not Prompt.objects.filter(name="brand_new").exists()
