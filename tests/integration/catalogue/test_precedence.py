"""Values from code apply, and are not treated as overrides by export and import."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_app import tool
from mcp_app.catalogue.access import permission_of
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.definitions.tool_limits import COLUMNS, SWITCHES
from mcp_app.catalogue.snapshots import snapshot_loader
from mcp_app.catalogue.sources.code import CODE
from mcp_app.catalogue.transfer import export_catalogue
from mcp_app.catalogue.transfer.plan import plan
from mcp_app.models import Tool
from tests.integration.catalogue.transfers import HEAD

pytestmark = pytest.mark.django_db(transaction=True)
IN_CODE: dict[str, Any] = {
    "timeout": 7.5,
    "calls_per_minute": 3,
    "background": True,
    "retries": 2,
    "queue": "slow",
    "priority": 4,
    "max_running": 5,
    "max_result_tokens": 9_000,
    "max_result_bytes": 50_000,
    "cost": 3,
    "needs_approval": True,
    "approval_minutes": 6,
    "four_eyes": True,
}
# Other options that code needs with some limits.
BESIDE = {
    **{name: {"background": True} for name in ("retries", "queue", "priority", "max_running")},
    **{name: {"needs_approval": True} for name in ("approval_minutes", "four_eyes")},
}
STATED = [{**BESIDE.get(name, {}), name: value} for name, value in IN_CODE.items()]


def test_every_limit_is_in_the_table() -> None:
    assert IN_CODE.keys() == COLUMNS.keys()
    assert set(SWITCHES) < IN_CODE.keys()


@pytest.mark.parametrize("options", [*STATED, IN_CODE], ids=lambda options: "-".join(options))
def test_limit_stated_in_code_is_neither_exported_nor_pruned(options: dict[str, Any]) -> None:
    def limited() -> str:
        return ""

    tool(idempotent=True, **options)(limited)
    mirror()
    row = Tool.objects.get(name="limited")
    stated = CODE.in_force(row)
    assert {name: stated[COLUMNS[name]] for name in options} == options
    served = snapshot_loader.load().tools["limited"]
    assert {name: getattr(served, name) for name in options} == options
    assert json.loads(export_catalogue())["tools"] == []
    planned = plan(HEAD, prune=True)
    assert (planned.differences, planned.changes, planned.removed) == ([], [], [])


def test_cleared_permission_falls_back_to_the_code() -> None:
    def guarded() -> str:
        return ""

    tool(permission="auth.add_user")(guarded)
    mirror()
    Tool.objects.filter(name="guarded").update(permission="")
    row = Tool.objects.get(name="guarded")
    services.save_tool_preset(actor=None, name="preset", preset_of=row)
    loaded = snapshot_loader.load()
    for name in ("guarded", "preset"):
        served = loaded.tools[name].permission
        assert permission_of(Tool.objects.get(name=name)) == served == "auth.add_user"


@pytest.mark.parametrize("switch", SWITCHES)
def test_switch_set_by_an_administrator_is_exported_and_pruned(switch: str) -> None:
    mirror()
    Tool.objects.filter(name="add").update(**{switch: True})
    (found,) = json.loads(export_catalogue())["tools"]
    assert found == {"name": "add", "source": "code", switch: True}
    (difference,) = plan(HEAD, prune=True).differences
    assert [(field.name, field.old, field.new) for field in difference.fields] == [(switch, True, False)]
