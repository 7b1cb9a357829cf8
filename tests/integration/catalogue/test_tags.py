"""Tags of entries: from code and administrators to clients, filters and catalogue files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from mcp_app import prompt, resource, tool
from mcp_app.catalogue.changes import rolling_back, services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.tags import MAX_TAG, MAX_TAGS
from mcp_app.catalogue.snapshots import snapshot_loader
from mcp_app.catalogue.sources.tagged import rows_tagged, tags_by_row
from mcp_app.models import CatalogueChange, Prompt, Resource, ResourceTemplate, Tool
from tests.integration.catalogue.transfers import HEAD, bring, exported

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


def tagged(uri: str = "") -> str:
    return uri


@pytest.fixture(autouse=True)
def _tagged() -> None:
    tool(tags=("billing", "Pet Store"))(tagged)
    prompt(tags=["billing"])(tagged)
    resource("notes://tagged", tags={"billing"})(lambda: "")
    resource("tagged://{uri}", tags=["billing"])(tagged)
    mirror()


def test_tags_from_code_reach_entries_and_clients() -> None:
    loaded = snapshot_loader.load()
    assert loaded.tools["tagged"].tags == ("billing", "pet-store")
    assert loaded.tools["tagged"].wire["_meta"] == {"tags": ["billing", "pet-store"]}
    assert loaded.tools["add"].tags == ()
    shared = (loaded.prompts["tagged"], loaded.resources["notes://tagged"], loaded.templates[1])
    assert [entry.tags for entry in shared] == [("billing",)] * 3


def test_administrators_tags_override_those_from_code_and_reach_presets() -> None:
    row = Tool.objects.get(name="tagged")
    services.save_tool_preset(actor=None, name="preset", preset_of=row)
    for wanted in (["sales"], []):
        services.update_entry(entry=row, actor=None, tags=wanted)
        loaded = snapshot_loader.load()
        tags = tuple(wanted or ("billing", "pet-store"))
        assert loaded.tools["tagged"].tags == loaded.tools["preset"].tags == tags
        assert loaded.tools["tagged"].wire["_meta"] == {"tags": list(tags)}
    services.save_tool_preset(actor=None, entry=Tool.objects.get(name="preset"), tags=["own"])
    assert snapshot_loader.load().tools["preset"].tags == ("own",)
    first = CatalogueChange.objects.filter(key="preset").order_by("id").first()
    assert first is not None
    assert rolling_back.roll_back(to=first, actor=None).tags == []


@pytest.mark.parametrize(
    "tags",
    [["Capital"], ["a b"], [""], ["-a"], ["a" * (MAX_TAG + 1)], ["a", "a"], [1], "billing", {"a": 1},
     [str(number) for number in range(MAX_TAGS + 1)]],
)  # fmt: skip
def test_unfit_tags_are_refused(tags: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        services.update_entry(entry=Tool.objects.get(name="add"), actor=None, tags=tags)
    assert "tags" in refused.value.message_dict


@pytest.mark.parametrize("tags", [["é!", "§"], [1], "billing", [str(each) for each in range(MAX_TAGS + 1)]])
def test_unfit_tags_in_code_are_refused(tags: Any) -> None:
    def other() -> None: ...

    with pytest.raises(DefinitionError, match="tag"):
        tool(tags=tags)(other)


def test_rows_are_found_by_the_tags_that_clients_see() -> None:
    row = Tool.objects.get(name="add")
    services.update_entry(entry=row, actor=None, meta={"tags": ["old", 7, "No Tag"]})
    preset = services.save_tool_preset(actor=None, name="preset", preset_of=Tool.objects.get(name="tagged"))
    loaded = snapshot_loader.load()
    for kind, entries in ((Tool, loaded.tools), (Prompt, loaded.prompts), (Resource, loaded.resources)):
        names = {pk: str(key) for pk, key in kind.objects.values_list("pk", kind.KEY)}
        assert {names[pk]: tags for pk, tags in tags_by_row(kind).items()} == {
            key: entry.tags for key, entry in entries.items()
        }
    assert rows_tagged(Tool, "old") == [row.pk]
    assert preset.pk in rows_tagged(Tool, "pet-store")
    assert len(rows_tagged(ResourceTemplate, "billing")) == 1


def test_catalogue_file_has_the_tags_of_administrators() -> None:
    services.update_entry(entry=Tool.objects.get(name="tagged"), actor=None, tags=["sales"])
    document = exported()
    assert document["tools"] == [{"name": "tagged", "source": "code", "tags": ["sales"]}]
    bring({**HEAD, "tools": [{"name": "add", "source": "code", "tags": ["imported"]}]})
    assert json.loads(json.dumps(Tool.objects.get(name="add").tags)) == ["imported"]
