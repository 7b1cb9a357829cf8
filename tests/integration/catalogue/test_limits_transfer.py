"""Limits in catalogue files."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.transfer import ImportForbidden, TransferRefused
from mcp_app.limits.services import save_rule
from mcp_app.models import LimitRule
from tests.integration.catalogue.transfers import HEAD, bring, exported

pytestmark = pytest.mark.django_db(transaction=True)
RATE = {"rate": 5, "rate_period": "minute"}
CALM = {"name": "calm", "who": "member", "who_value": "analysts", "exempt": ["group:ops"], **RATE}


@pytest.fixture(autouse=True)
def _groups(announced: list[int]) -> None:
    mirror()
    for name in ("analysts", "ops"):
        Group.objects.create(name=name)


def limits(*rows: dict[str, Any]) -> dict[str, Any]:
    return {**HEAD, "limits": list(rows)}


def test_limits_are_exported_imported_changed_and_pruned() -> None:
    save_rule(actor=None, **CALM)
    save_rule(actor=None, name="each", who="user", who_value="*", budget=9, budget_unit="cost")
    file = exported()
    assert [row["name"] for row in file["limits"]] == ["calm", "each"]
    assert file["limits"][0].items() >= CALM.items()
    assert not bring(file).differences
    LimitRule.objects.all().delete()
    Group.objects.filter(name="ops").update(name="operators")
    Group.objects.create(name="ops")
    assert [each.action for each in bring(file).differences] == ["added", "added"]
    assert exported()["limits"] == file["limits"]
    (change,) = bring(limits({**file["limits"][0], "rate": 6})).differences
    assert [(field.name, field.old, field.new) for field in change.fields] == [("rate", 5, 6)]
    assert not bring({**HEAD}, prune=True).differences
    assert LimitRule.objects.count() == 2
    bring(limits(file["limits"][1]), prune=True)
    assert [row.name for row in LimitRule.objects.all()] == ["each"]


def test_limits_of_one_user_or_key_stay_in_their_installation() -> None:
    ada = get_user_model().objects.create_user("ada")
    key = issue_api_key(user=ada, name="laptop")[0]
    save_rule(actor=None, name="ada", who="user", who_value="ada", **RATE)
    save_rule(actor=None, name="laptop", who="key", who_value=str(key.pk), **RATE)
    save_rule(actor=None, name="but-ada", who="installation", exempt=["user:ada"], **RATE)
    save_rule(actor=None, name="orphan", who="group", who_value="analysts", **RATE)
    Group.objects.filter(name="analysts").delete()
    file = exported()
    assert file["limits"] == []
    bring(file, prune=True)
    assert LimitRule.objects.count() == 4


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"who": "user", "who_value": "ada"}, "who"),
        ({"exempt": ["key:1"]}, "who"),
        ({"exempt": "ops"}, "exempt"),
        ({"exempt": ["group:nobody"]}, "exempt"),
        ({"who_value": "nobody"}, "who_value"),
        ({"rate": "5"}, "rate"),
        ({"rate": True}, "rate"),
        ({"rate": None}, "rate"),
        ({"mode": "sometimes"}, "mode"),
        ({"enabled": 1}, "enabled"),
        ({"user": 1}, "user"),
        ({"name": "A b"}, "name"),
    ],
)
def test_faulty_limits_are_refused_with_the_field(values: dict[str, Any], field: str) -> None:
    with pytest.raises(TransferRefused) as refused:
        bring(limits({**CALM, **values}))
    assert field in [problem.field for problem in refused.value.problems]
    assert not LimitRule.objects.exists()


def test_import_of_limits_needs_their_permission() -> None:
    with pytest.raises(ImportForbidden) as forbidden:
        bring(limits(CALM), may=lambda name: name == "mcp_app.publish_entries")
    assert forbidden.value.permissions == ["mcp_app.add_limitrule"]


@pytest.mark.parametrize("who", ["user:ada", "group:gone", "exempt"])
def test_file_cannot_replace_a_limit_that_stays_here(who: str) -> None:
    get_user_model().objects.create_user("ada")
    Group.objects.create(name="gone")
    kind, _, value = who.partition(":")
    values = {"who": kind, "who_value": value} if value else {"who": "installation", "exempt": ["user:ada"]}
    save_rule(actor=None, name="calm", **values, **RATE)
    Group.objects.filter(name="gone").delete()
    before = LimitRule.objects.values().get()
    with pytest.raises(TransferRefused) as refused:
        bring(limits(CALM), may=lambda name: "change" not in name)
    assert [problem.field for problem in refused.value.problems] == ["name"]
    assert LimitRule.objects.values().get() == before
