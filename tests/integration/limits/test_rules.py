"""Changes of limits: what is accepted, audited and applied."""

from __future__ import annotations

from importlib import import_module
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.catalogue.changes.services import save_entry
from mcp_app.catalogue.sources.http.source import HTTP
from mcp_app.checks.rows import subjects_of_limits_exist
from mcp_app.database import clock
from mcp_app.doctor.finding import Level
from mcp_app.doctor.installation import Installation
from mcp_app.doctor.toolsets import limiting
from mcp_app.limits import current, exemptions, usage
from mcp_app.limits.rules import BUDGET, Bucket
from mcp_app.limits.services import delete_rule, reset_rule, save_rule
from mcp_app.limits.subjects import without_effect
from mcp_app.models import AuditEvent, LimitRule, LimitUsage, Tool
from tests.unit.limits.rules import tool

pytestmark = pytest.mark.django_db
RATE = {"rate": 5, "rate_period": "minute"}


@pytest.fixture
def ada() -> Any:
    user = get_user_model().objects.create_user("ada")
    user.groups.add(Group.objects.create(name="analysts"))
    return user


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("mcp_limit", *arguments, stdout=out)
    return out.getvalue()


def test_change_is_applied_and_audited(ada: Any, django_capture_on_commit_callbacks: Any) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        row = save_rule(actor=ada, name="calm", who="user", who_value="ada", **RATE)
    assert [each.users for each in current.holder.rules.rules] == [frozenset({f"user:{ada.pk}"})]
    with django_capture_on_commit_callbacks(execute=True):
        save_rule(actor=ada, rule=row, rate=7)
    assert current.holder.rules.rules[0].rate == 7
    with django_capture_on_commit_callbacks(execute=True):
        delete_rule(rule=row, actor=ada)
    assert not current.holder.active
    changes = AuditEvent.objects.filter(object_kind="limit", object_key="calm").order_by("pk")
    assert [each.action for each in changes] == ["limit.created", "limit.changed", "limit.deleted"]
    assert changes[1].detail == {"changed": {"rate": [5, 7]}}


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"who": "user", "who_value": "nobody"}, "who_value"),
        ({"who": "user", "who_value": ""}, "who_value"),
        ({"who": "group", "who_value": "nobody"}, "who_value"),
        ({"who": "member", "who_value": "*"}, "who_value"),
        ({"who": "key", "who_value": "1"}, "who_value"),
        ({"who": "client", "who_value": "\u0661"}, "who_value"),
        ({"who": "address", "who_value": "300.0.0.1"}, "who_value"),
        ({"who": "moon"}, "who"),
        ({"exempt": ["user:nobody"]}, "exempt"),
        ({"exempt": ["key:\u0661"]}, "exempt"),
        ({"exempt": ["moon"]}, "exempt"),
        ({"exempt": [f"key:{number}" for number in range(101)]}, "exempt"),
        ({"what": "tool"}, "what_value"),
        ({"rate": None}, "rate"),
        ({"rate": 0}, "rate"),
        ({"rate": 1_000_001}, "rate"),
        ({"rate": None, "budget": 5, "burst": 3}, "burst"),
        ({"rate_period": "year"}, "rate_period"),
        ({"budget": 5, "budget_period": "minute"}, "budget_period"),
        ({"name": "Not a name"}, "name"),
        ({"name": "wrong\n"}, "name"),
        ({"name": ""}, "name"),
        ({"secret": 1}, "secret"),
    ],
)
def test_wrong_rule_is_refused_at_its_field(values: dict[str, Any], field: str, ada: Any) -> None:
    given = {"name": "wrong", "who": "installation", **RATE, **values}
    with pytest.raises(ValidationError) as refused:
        save_rule(actor=ada, **given)
    assert field in refused.value.message_dict
    assert not LimitRule.objects.exists()


def test_name_is_unique_and_stays(ada: Any) -> None:
    row = save_rule(actor=ada, name="calm", who="installation", **RATE)
    for change in ({"name": "calm", "who": "installation", **RATE}, {"rule": row, "name": "other"}):
        with pytest.raises(ValidationError) as refused:
            save_rule(actor=ada, **change)
        assert "name" in refused.value.message_dict


def test_member_who_leaves_a_group_is_no_longer_limited(ada: Any) -> None:
    save_rule(actor=None, name="team", who="member", who_value="analysts", **RATE)
    current.load()
    key = f"user:{ada.pk}/key:1"
    assert current.buckets_of(key, tool(), "/mcp")
    ada.groups.clear()
    current.load()
    assert not current.buckets_of(key, tool(), "/mcp")


@pytest.mark.parametrize("who", ["user:ada", "member:analysts", "group:analysts"])
def test_limit_follows_a_rename(who: str, ada: Any) -> None:
    run("add", "calm", "--who", who, "--budget", "9/month")
    current.load()
    principal = f"user:{ada.pk}/key:1"
    (before,) = current.buckets_of(principal, tool(), "/mcp")
    get_user_model().objects.filter(pk=ada.pk).update(username="ada.lovelace")
    Group.objects.update(name="data team")
    get_user_model().objects.create_user("ada")
    Group.objects.create(name="analysts")
    current.load()
    (after,) = current.buckets_of(principal, tool(), "/mcp")
    assert after.key == before.key
    renamed = who.replace("ada", "ada.lovelace").replace("analysts", "data team")
    assert run("list").startswith(f"calm  {renamed}  everything")
    row = LimitRule.objects.get()
    save_rule(actor=None, rule=row, budget=8)
    current.load()
    (changed,) = current.buckets_of(principal, tool(), "/mcp")
    assert (changed.key, changed.rule.budget) == (before.key, 8)


@pytest.mark.parametrize("exempt", ["user:ada", "group:analysts", "key:{}"])
def test_exempt_callers_are_not_limited_even_after_a_rename(exempt: str, ada: Any) -> None:
    key = issue_api_key(user=ada, name="laptop")[0]
    exempt = exempt.format(key.pk)
    run("add", "calm", "--who", "user:*", "--rate", "1/day", "--except", exempt)
    assert f"user:* except {exempt}" in run("list")
    get_user_model().objects.filter(pk=ada.pk).update(username="ada.lovelace")
    Group.objects.update(name="data team")
    current.load()
    assert not current.buckets_of(f"user:{ada.pk}/key:{key.pk}", tool(), "/mcp")
    assert current.buckets_of(f"user:{ada.pk + 1}/key:{key.pk + 1}", tool(), "/mcp")
    row = LimitRule.objects.get()
    (renamed,) = exemptions.names(row.exempt)
    assert (renamed != exempt) is not exempt.startswith("key:")
    save_rule(actor=ada, rule=row, exempt=[])
    changed = AuditEvent.objects.filter(object_kind="limit").latest("pk").detail["changed"]
    assert changed == {"exempt": [[renamed], []]}


def test_migration_stores_the_users_and_groups_of_limits(ada: Any) -> None:
    named = {
        "ada": ("user", "ada"),
        "each": ("user", "*"),
        "gone": ("user", "eve"),
        "team": ("group", "analysts"),
    }
    for name, (who, value) in named.items():
        LimitRule.objects.create(name=name, who=who, who_value=value, budget=9)
    start = clock.utcnow()
    team = LimitRule.objects.get(name="team")
    LimitUsage.objects.create(
        rule=team, subject="group:analysts", measure=BUDGET, period_start=start, units=4
    )
    import_module("mcp_app.migrations.0068_users_and_groups_of_limits").store_users_and_groups(apps, None)
    assert [row.name for row in LimitRule.objects.all() if row.is_orphaned] == ["gone"]
    assert LimitRule.objects.get(name="ada").user == ada
    team.refresh_from_db()
    assert usage.spent(Bucket(current.rule_of(team), BUDGET, f"group:{team.group_id}"), start) == 4


def test_limit_follows_a_renamed_tool(django_capture_on_commit_callbacks: Any) -> None:
    values = {"origin": "http://127.0.0.1:1", "method": "GET", "path": "/"}
    row = save_entry(actor=None, kind=Tool, source=HTTP, name="search", request=values)
    save_rule(actor=None, name="calm", who="installation", what="tool", what_value="search", **RATE)
    with django_capture_on_commit_callbacks(execute=True):
        save_entry(actor=None, kind=Tool, source=HTTP, entry=row, name="find", request=values)
    assert [each.what_value for each in current.holder.rules.rules] == ["find"]


def test_limit_without_effect_is_reported(ada: Any) -> None:
    key = issue_api_key(user=ada, name="laptop")[0]
    named = ("user:ada", "member:analysts", "group:analysts", f"key:{key.pk}")
    for number, who in enumerate(named):
        run("add", f"who-{number}", "--who", who, "--rate", "5/hour")
    for number, what in enumerate(("tool:gone", "toolset:gone")):
        run("add", f"what-{number}", "--who", "installation", "--what", what, "--rate", "5/hour")
    run("add", "each", "--who", "user:*", "--rate", "5/hour")
    assert set(without_effect(LimitRule.objects.all()).values()) == {
        "there is no tool gone", "there is no toolset gone"
    }  # fmt: skip
    ada.delete()
    Group.objects.all().delete()
    get_user_model().objects.create_user("ada")
    Group.objects.create(name="analysts")
    rows = {row.pk: row.name for row in LimitRule.objects.all()}
    reasons = {rows[pk]: reason for pk, reason in without_effect(LimitRule.objects.all()).items()}
    assert reasons == {
        "who-0": "the user ada was deleted",
        "who-1": "the group analysts was deleted",
        "who-2": "the group analysts was deleted",
        "who-3": f"there is no API key {key.pk}",
        "what-0": "there is no tool gone",
        "what-1": "there is no toolset gone",
    }
    current.load()
    assert all(not rule.users for rule in current.holder.rules.rules)
    found = [each.level for each in limiting(Installation())]
    assert found == [Level.WARNING] * 6
    assert len(subjects_of_limits_exist(databases=["default"])) == 6
    orphan = LimitRule.objects.get(name="who-0")
    assert save_rule(actor=None, rule=orphan, enabled=False).who_value == "ada"
    with pytest.raises(ValidationError):
        save_rule(actor=None, rule=orphan, who="user", who_value="nobody")


def test_disabled_rule_has_no_effect() -> None:
    save_rule(actor=None, name="off", who="installation", enabled=False, **RATE)
    current.load()
    assert not current.holder.active


def test_usage_is_stored_and_reset(ada: Any) -> None:
    row = save_rule(actor=None, name="monthly", who="user", who_value="*", budget=9)
    bucket = Bucket(current.rule_of(row), BUDGET, f"user:{ada.pk}")
    usage.note_refused(bucket)
    usage.note_refused(bucket)
    usage.store()
    (stored,) = LimitUsage.objects.all()
    assert (stored.subject, stored.refused) == (bucket.subject, 2)
    usage.note_spent(bucket, stored.period_start, 4)
    usage.store()
    assert usage.spent(bucket, stored.period_start) == 4
    usage.note_spent(bucket, stored.period_start, 3)
    usage.store()
    assert usage.spent(bucket, stored.period_start) == 4
    reset_rule(rule=row, actor=ada)
    assert usage.spent(bucket, stored.period_start) == 0
    assert AuditEvent.objects.filter(action="limit.reset", actor=ada).exists()


def test_notes_about_a_deleted_rule_are_dropped() -> None:
    row = save_rule(actor=None, name="gone", who="installation", budget=9)
    usage.note_refused(Bucket(current.rule_of(row), BUDGET, "all"))
    row.delete()
    usage.store()
    assert not LimitUsage.objects.exists()
    assert not usage.is_noted()


def test_command_adds_lists_and_removes_a_limit(ada: Any) -> None:
    run(
        "add", "calm", "--who", "user:ada", "--what", "tool:search", "--rate", "100/hour",
        "--budget", "5000/month", "--observe",
    )  # fmt: skip
    row = LimitRule.objects.get()
    assert (row.who, row.who_value, row.what, row.what_value) == ("user", "ada", "tool", "search")
    assert (row.rate, row.rate_period, row.budget, row.budget_period) == (100, "hour", 5000, "month")
    assert row.mode == "observe"
    assert run("list").startswith(
        "calm  user:ada  tool:search  100 calls per hour, budget of 5,000 calls per month  observe\n"
    )
    run("remove", "calm")
    assert not LimitRule.objects.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "x", "--who", "user:nobody", "--rate", "1/hour"),
        ("add", "x", "--who", "moon", "--rate", "1/hour"),
        ("add", "x", "--who", "installation", "--rate", "1/month"),
        ("add", "x", "--who", "installation", "--rate", "many"),
        ("add", "x", "--who", "installation"),
        ("add", "x", "--who", "installation", "--what", "tool", "--rate", "1/day"),
        ("remove", "x"),
    ],
)
def test_command_states_why_a_limit_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        run(*arguments)
    assert not LimitRule.objects.exists()


def test_thousand_rules_are_loaded_with_two_queries_and_kept_while_unchanged(
    ada: Any, django_assert_num_queries: Any
) -> None:
    analysts = ada.groups.get()
    people: list[dict[str, Any]] = [{"who": "user", "user": ada}, {"who": "member", "group": analysts}]
    rules = [LimitRule(name=f"rule-{at}", rate=at + 1, **people[at % 2]) for at in range(1_000)]
    LimitRule.objects.bulk_create(rules)
    with django_assert_num_queries(2):
        current.load()
    first = current.holder.rules
    assert len(current.buckets_of(f"user:{ada.pk}", tool(), "/mcp")) == 1
    current.load()
    assert current.holder.rules is first
