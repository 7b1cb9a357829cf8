"""The catalogue over the API: validated, stored in history and audited by the services, as for the admin."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from mcp_app.api.entries import PromptViews, ResourceViews, TemplateViews, ToolViews
from mcp_app.auth.membership import membership_of
from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.sources.code import CODE
from mcp_app.catalogue.sources.lookup import makers
from mcp_app.models import AuditEvent, CatalogueChange, Prompt, Resource, ResourceTemplate, Tool
from tests.integration.api.conftest import send
from tests.samples.admin_seed import Seed

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def test_preset_is_created_changed_switched_and_deleted(root: Client, seeded: Seed) -> None:
    made = send(
        root, "POST", "/api/tools/", {"name": "mine", "preset_of": "echo", "fixed_arguments": {"text": "hi"}}
    )
    assert made.status_code == 201
    address = f"/api/tools/{made.json()['id']}/"
    assert made.json()["preset_of"] == "echo"
    assert made.json()["updated_by"] == "the-superuser"
    assert send(root, "PATCH", address, {"title": "Mine"}).json()["title"] == "Mine"
    assert root.post(f"{address}disable/").json()["enabled"] is False
    assert root.post(f"{address}enable/").json()["enabled"] is True
    history = root.get(f"{address}history/").json()["results"]
    assert [change["action"] for change in history] == ["enabled", "disabled", "changed", "created"]
    assert history[2]["after"]["title"] == "Mine"
    assert root.delete(address).status_code == 204
    assert root.get(address).status_code == 404
    done = AuditEvent.objects.filter(object_key="mine").order_by("id")
    assert [(event.action, event.actor_name) for event in done] == [
        (f"catalogue.{action}", "the-superuser")
        for action in ("created", "changed", "disabled", "enabled", "deleted")
    ]


def test_resource_accepts_text_or_a_base64_file(root: Client, seeded: Seed) -> None:
    body = {"uri": "notes://file", "name": "File", "file": {"name": "a.txt", "base64": "aGVsbG8="}}
    made = send(root, "POST", "/api/resources/", body)
    assert made.status_code == 201
    assert made.json()["file"].endswith(".txt")
    row = Resource.objects.get(uri="notes://file")
    with row.file.open("rb") as stored:
        assert stored.read() == b"hello"
    address = f"/api/resources/{row.pk}/"
    assert send(root, "PATCH", address, {"file": None, "text": "now text"}).json()["file"] is None


def test_prompt_with_single_braces_is_stored_with_a_warning(root: Client, seeded: Seed) -> None:
    made = send(root, "POST", "/api/prompts/", {"name": "ship", "template": "Ship {order}"})
    assert made.status_code == 201
    warning = "{order} is plain text. Did you mean {{order}}?"
    assert made.json()["warnings"] == {"template": [warning]}
    changed = send(root, "PATCH", f"/api/prompts/{made.json()['id']}/", {"template": "Ship it"})
    assert changed.json()["warnings"] == {}


def test_tool_is_restricted_to_a_group(root: Client, seeded: Seed) -> None:
    editors = Group.objects.create(name="Editors")
    wanted = {"permission": membership_of(editors)}
    answer = send(root, "PATCH", f"/api/tools/{seeded.echo.pk}/", wanted)
    assert (answer.status_code, answer.json()["permission"]) == (200, wanted["permission"])
    assert [*editors.permissions.values_list("codename", flat=True)] == [f"member_of_editors_{editors.pk}"]


def test_tool_approval_options_are_set_and_returned(root: Client, seeded: Seed) -> None:
    address = f"/api/tools/{seeded.echo.pk}/"
    wanted = {"needs_approval": True, "approval_minutes": 9, "four_eyes": True}
    assert send(root, "PATCH", address, wanted).status_code == 200
    shown = root.get(address).json()
    assert {name: shown[name] for name in wanted} == wanted


@pytest.mark.parametrize("kind", [Tool, Prompt, Resource, ResourceTemplate])
def test_api_accepts_and_returns_every_editable_field(kind: type[Any]) -> None:
    sources = [CODE] if kind is ResourceTemplate else makers(kind)
    editable = frozenset[str]().union(*(each.editable(kind) for each in sources))
    views = {view.queryset.model: view for view in (ToolViews, PromptViews, ResourceViews, TemplateViews)}
    given, shown = views[kind].given(), views[kind].serializer_class()
    assert set(given.fields) == editable
    assert editable <= set(shown.fields)
    # Fields stored in history are those that a roll back restores.
    assert editable <= set(revisions.state_of(sources[0].new(kind)))


def test_code_entry_accepts_only_editable_fields(root: Client, seeded: Seed) -> None:
    address = f"/api/tools/{seeded.echo.pk}/"
    assert send(root, "PATCH", address, {"calls_per_minute": 5}).json()["calls_per_minute"] == 5
    refused = send(root, "PATCH", address, {"fixed_arguments": {"text": "x"}})
    assert refused.json()["errors"] == {
        "fixed_arguments": ["This is defined in code and cannot be changed here."]
    }


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"enabled": "yes"}, "enabled"),
        ({"position": True}, "position"),
        ({"position": -1}, "position"),
        ({"title": None}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"title": "nul\0"}, ""),
        ({"icons": {}}, "icons"),
        ({"meta": []}, "meta"),
        ({"permission": "no dot"}, "permission"),
        ({"permission": "mcp_app.fly"}, "permission"),
        ({"name": "another"}, "name"),
        ({"preset_of": "nobody"}, "preset_of"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"source": "code"}, "source"),
        ({"definition": {}}, "definition"),
        ({"id": 7}, "id"),
        ([1], ""),
        ("text", ""),
    ],
)
def test_invalid_value_is_refused_at_its_field(body: Any, field: str, root: Client, seeded: Seed) -> None:
    before = CatalogueChange.objects.count()
    answer = send(root, "PATCH", f"/api/tools/{seeded.preset.pk}/", body)
    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    if "errors" in answer.json():
        assert set(answer.json()["errors"]) == {field}
    assert CatalogueChange.objects.count() == before


@pytest.mark.parametrize(
    ("kind", "body", "fields"),
    [
        ("tools", {"preset_of": "echo"}, {"name"}),
        ("tools", {"name": "alone"}, {"preset_of"}),
        ("tools", {"name": "echo", "preset_of": "echo"}, {"name"}),
        ("prompts", {}, {"name", "template"}),
        ("resources", {"name": "No URI", "text": "x"}, {"uri"}),
        ("resources", {"uri": "notes://x", "name": "x", "file": "/etc/passwd"}, {"file"}),
        ("resources", {"uri": "notes://x", "name": "x", "file": {"name": "../x", "base64": ""}}, {"file"}),
    ],
)
def test_missing_or_taken_fields_are_reported(
    kind: str, body: Any, fields: set[str], root: Client, seeded: Seed
) -> None:
    answer = send(root, "POST", f"/api/{kind}/", body)
    assert answer.status_code == 400
    assert set(answer.json()["errors"]) == fields


def test_code_entry_is_not_deleted(root: Client, seeded: Seed) -> None:
    answer = root.delete(f"/api/tools/{seeded.echo.pk}/")
    assert answer.status_code == 409
    assert "defined in code" in answer.json()["detail"]
    assert Tool.objects.filter(pk=seeded.echo.pk).exists()


def test_new_definition_is_accepted(root: Client, seeded: Seed) -> None:
    assert root.get(f"/api/tools/{seeded.drifted.pk}/").json()["drifted"] is True
    assert root.post(f"/api/tools/{seeded.drifted.pk}/accept/").json()["drifted"] is False
    assert AuditEvent.objects.filter(action="catalogue.accepted", object_key="web_scrape").exists()


def test_entries_are_filtered_by_name_uri_and_state(root: Client, seeded: Seed) -> None:
    found = root.get("/api/tools/?name=echo").json()["results"]
    assert [tool["id"] for tool in found] == [seeded.echo.pk]
    found = root.get("/api/resources/", {"uri": seeded.own_resource.uri}).json()["results"]
    assert [resource["text"] for resource in found] == [seeded.own_resource.text]
    assert {tool["source"] for tool in root.get("/api/tools/?source=admin").json()["results"]} == {"admin"}
    assert root.get("/api/prompts/?enabled=false").json()["results"] == []
    Prompt.objects.filter(pk=seeded.own_prompt.pk).update(enabled=False)
    assert len(root.get("/api/prompts/?enabled=false").json()["results"]) == 1


def test_hostile_text_is_returned_escaped_as_json(root: Client, seeded: Seed) -> None:
    for kind in ("tools", "prompts", "resources", "sessions", "messages", "calls", "keys", "audit"):
        answer = root.get(f"/api/{kind}/")
        text = answer.content.decode()
        assert answer["Content-Type"] == "application/json"
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert not [letter for letter in "\u202e\u2066\x1b\x07\u200b\ufeff\x9b" if letter in text], kind
    hostile = root.get("/api/tools/?source=upstream").json()["results"][0]
    assert hostile["description"] == Tool.objects.get(source="upstream").description


def test_tags_are_set_and_filter_lists(root: Client, seeded: Seed) -> None:
    address = f"/api/tools/{seeded.echo.pk}/"
    assert send(root, "PATCH", address, {"tags": ["billing"]}).json()["tags"] == ["billing"]
    # The preset of the tool inherits the tags.
    found = [each["name"] for each in root.get("/api/tools/?tag=billing").json()["results"]]
    assert found == ["echo", "greet_world"]
    for kind in ("tools", "prompts", "resources", "templates"):
        assert root.get(f"/api/{kind}/?tag=unknown").json()["results"] == []
    refused = send(root, "PATCH", address, {"tags": ["No Tag"]})
    assert (refused.status_code, [*refused.json()["errors"]]) == (400, ["tags"])
