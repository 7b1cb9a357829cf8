"""Mirroring: the code's entries become rows, and overrides of administrators stay."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app import tool
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import Mirrored, mirror
from mcp_app.catalogue.definitions.registry import Registry
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
from tests.racing import at_once
from tests.views import seen

pytestmark = pytest.mark.django_db(transaction=True)
NOBODY: frozenset[str] = frozenset()


def test_first_mirror_creates_a_row_per_entry_and_one_revision(announced: list[int]) -> None:
    assert mirror() == Mirrored(revision=1, changed=4)
    row = Tool.objects.get(name="add")
    assert (row.source, row.enabled, row.missing, row.title, row.drifted) == ("code", True, False, "", False)
    assert row.definition["description"] == "Add two numbers."
    assert row.input_schema == row.definition["inputSchema"]
    assert row.code_path.endswith("conftest.add")
    assert Prompt.objects.get().arguments == [{"name": "code", "required": True}]
    assert Resource.objects.get().uri == "notes://today"
    assert ResourceTemplate.objects.get().uri_template == "notes://{slug}"
    stored = CatalogueRevision.objects.get()
    assert (stored.number, stored.tools, stored.prompts, stored.resources) == (1, 1, 1, 1)
    assert announced == [1]
    assert CatalogueChange.objects.filter(revision=1, action="mirrored").count() == 4


def test_second_mirror_changes_nothing(announced: list[int]) -> None:
    mirror()
    audited = AuditEvent.objects.count()
    assert mirror() == Mirrored()
    assert announced == [1]
    assert AuditEvent.objects.count() == audited


def test_concurrent_mirrors_agree() -> None:
    results = at_once([mirror] * 3)
    assert sorted(result.changed for result in results) == [0, 0, 4]


@pytest.mark.requirement("TOOL-04")
def test_code_entries_are_listed_in_code_order_before_admin_entries(
    registered: Registry,
) -> None:
    for name in ("zebra", "ant"):
        tool(name=name)(lambda: None)
    mirror()
    services.save_tool_preset(
        actor=None, name="aaa", preset_of=Tool.objects.get(name="add"), fixed_arguments={"b": 1}
    )
    held = current_snapshot.refresh_now()
    listed = seen(held, NOBODY).page("tools", "2025-11-25").decode()
    places = [listed.index(f'"name":"{name}"') for name in ("add", "zebra", "ant", "aaa")]
    assert places == sorted(places)


def test_removed_code_entry_is_marked_missing_and_restored_unchanged(registered: Registry) -> None:
    mirror()
    services.update_entry(entry=Tool.objects.get(name="add"), actor=None, title="Mine")
    gone = registered.tools.pop("add")
    assert mirror().changed == 1
    assert Tool.objects.get(name="add").missing
    assert current_snapshot.refreshed_view(NOBODY).tool("add") is None
    registered.tools["add"] = gone
    assert mirror().changed == 1
    entry = current_snapshot.refreshed_view(NOBODY).tool("add")
    assert entry is not None
    assert entry.wire["title"] == "Mine"


def test_changed_code_is_drift_until_accepted(registered: Registry) -> None:
    mirror()
    services.update_entry(entry=Tool.objects.get(name="add"), actor=None, description="Mine")
    registered.tools.clear()
    tool(name="add")(lambda: None)
    assert mirror().changed == 1
    row = Tool.objects.get(name="add")
    assert row.drifted
    assert row.description == "Mine"
    assert row.definition["inputSchema"] == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    services.accept_definition(entry=row, actor=None)
    assert not Tool.objects.get(name="add").drifted
    history = CatalogueChange.objects.filter(kind="tool", key="add", action="mirrored").first()
    assert history is not None
    assert history.before["definition"]["inputSchema"]["required"] == ["a"]


def test_admin_entry_keeps_its_name_when_code_claims_it(registered: Registry) -> None:
    mirror()
    services.save_prompt(actor=None, name="taken", template="Hi")
    from mcp_app import prompt

    prompt(name="taken")(lambda: "code")
    assert mirror() == Mirrored(refused=("taken",))
    entry = current_snapshot.refreshed_view(NOBODY).prompt("taken")
    assert entry is not None
    assert entry.render({}) == "Hi"


def test_permission_from_code_can_be_replaced_but_not_cleared(registered: Registry) -> None:
    tool(name="guarded", permission="app.use")(lambda: None)
    mirror()
    row = Tool.objects.get(name="guarded")
    assert row.permission == "app.use"
    services.update_entry(entry=row, actor=None, permission="")
    held: Any = current_snapshot.refresh_now()
    assert seen(held, NOBODY).tool("guarded") is None
    services.update_entry(entry=row, actor=None, permission="app.other")
    assert current_snapshot.refreshed_view({"app.other"}).tool("guarded") is not None
