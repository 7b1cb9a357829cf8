"""Selection of the rules that hold for a call."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mcp_app.limits.matching import Caller, RuleSet, choices
from mcp_app.limits.rules import Period
from tests.unit.limits.rules import rule, tool

ADA, BOB = "user:1/key:7", "user:2/client:9"
ANALYSTS = frozenset({"user:1"})
RATE = {"rate": 10}
WHO = (
    ({"who": "installation"}, "all", "all"),
    ({"who": "user", "who_value": "ada", "users": ANALYSTS}, "user:1", ""),
    ({"who": "user", "who_value": "*"}, "user:1", "user:2"),
    ({"who": "member", "who_value": "analysts", "users": ANALYSTS}, "user:1", ""),
    ({"who": "group", "who_value": "analysts", "users": ANALYSTS, "group": "5"}, "group:5", ""),
    ({"who": "key", "who_value": "7"}, "key:7", ""),
    ({"who": "key", "who_value": "*"}, "key:7", ""),
    ({"who": "client", "who_value": "9"}, "", "client:9"),
    ({"who": "client", "who_value": "8"}, "", ""),
    ({"who": "address", "who_value": "192.0.2.0/24"}, "192.0.2.0/24", "192.0.2.0/24"),
    ({"who": "address", "who_value": "*"}, "192.0.2.7", "192.0.2.7"),
    ({"who": "address", "who_value": "198.51.100.1"}, "", ""),
)


@pytest.mark.parametrize(("who", "ada", "bob"), WHO)
def test_rule_counts_calls_of_its_callers_for_their_subject(who: Any, ada: str, bob: str) -> None:
    rules = RuleSet([rule(**who, **RATE)])
    for principal, subject in ((ADA, ada), (BOB, bob)):
        found = [each.subject for each in rules.buckets(principal, tool(), "/mcp", "192.0.2.7")]
        assert found == ([subject] if subject else [])


@pytest.mark.parametrize(
    ("what", "is_limited"),
    [
        ({"what": "everything"}, True),
        ({"what": "tool", "what_value": "search"}, True),
        ({"what": "tool", "what_value": "other"}, False),
        ({"what": "tag", "what_value": "billing"}, True),
        ({"what": "tag", "what_value": "search"}, False),
        ({"what": "toolset", "what_value": "team"}, True),
        ({"what": "toolset", "what_value": "mcp"}, False),
    ],
)
def test_rule_limits_calls_of_its_tools(what: Any, is_limited: bool) -> None:
    found = RuleSet([rule(**what, **RATE)]).buckets(ADA, tool("search", "billing"), "/mcp/team")
    assert bool(found) is is_limited


def test_new_tag_of_a_tool_is_limited_at_its_next_call() -> None:
    rules = RuleSet([rule(what="tag", what_value="billing", **RATE)])
    assert not rules.buckets(ADA, tool(), "/mcp")
    assert rules.buckets(ADA, tool("search", "billing"), "/mcp")
    assert not rules.buckets(ADA, tool(), "/mcp")


@pytest.mark.parametrize("network", ["192.0.2.0/24", "::ffff:192.0.2.0/120", "192.0.2.7"])
@pytest.mark.parametrize("address", ["192.0.2.7", "::ffff:192.0.2.7"])
def test_address_of_a_socket_for_both_protocols_is_in_its_network(network: str, address: str) -> None:
    rules = RuleSet([rule(who="address", who_value=network, **RATE)])
    assert rules.buckets(ADA, tool(), "/mcp", address)
    assert not rules.buckets(ADA, tool(), "/mcp", "::ffff:198.51.100.1")


@pytest.mark.parametrize("exempt", ["user:1", "key:7"])
def test_exempt_caller_is_limited_by_less_specific_rules_only(exempt: str) -> None:
    calm = rule("calm", who="user", who_value="*", what="tool", what_value="search", rate=1, exempt={exempt})
    each = rule("each", who="user", who_value="*", rate=9)
    rules = RuleSet([calm, each])
    found = [rules.buckets(principal, tool(), "/mcp")[0].rule.name for principal in (ADA, BOB)]
    assert found == ["each", "calm"]


def test_user_who_acts_as_another_counts_as_the_acting_user() -> None:
    rules = RuleSet([rule(who="user", who_value="*", rate=1)])
    assert [each.subject for each in rules.buckets("user:5/bench/by:1", tool("t"), "/mcp")] == ["user:1"]


# The rules that fit, by name, in the order of what they beat.
PRECEDENCE = (
    {
        "each": {"who": "user", "who_value": "*"},
        "ada": {"who": "user", "who_value": "ada", "users": ANALYSTS},
    },
    {
        "each": {"who": "user", "who_value": "*"},
        "members": {"who": "member", "who_value": "analysts", "users": ANALYSTS},
    },
    {
        "group": {"who": "group", "who_value": "analysts", "users": ANALYSTS},
        "members": {"who": "member", "who_value": "analysts", "users": ANALYSTS},
    },
    {"everything": {}, "toolset": {"what": "toolset", "what_value": "team"}},
    {
        "toolset": {"what": "toolset", "what_value": "team"},
        "tag": {"what": "tag", "what_value": "billing"},
        "tool": {"what": "tool", "what_value": "search"},
    },
    {"looser": {"rate": 20}, "tighter": {"rate": 2}},
    {"minute": {"rate": 60, "rate_period": "minute"}, "hour": {"rate": 60, "rate_period": "hour"}},
)


@pytest.mark.parametrize("fitting", PRECEDENCE, ids="-".join)
def test_most_specific_rule_of_a_level_holds(fitting: dict[str, dict[str, Any]]) -> None:
    rules = [rule(name, **{**RATE, **values}) for name, values in fitting.items()]
    found = choices(rules, Caller.of(ADA), "search", ("billing",), "team")
    held = [each.rule.name for each in found if each.instead is None]
    assert held == list(fitting)[-1:]
    assert {each.instead.name for each in found if each.instead is not None} == set(held)


def test_rules_of_all_levels_hold_with_four_counts_at_most() -> None:
    kinds: list[dict[str, Any]] = [
        {"who": "installation"},
        {"who": "user", "who_value": "*"},
        {"who": "group", "who_value": "g", "users": ANALYSTS},
        {"who": "key", "who_value": "*"},
        {"who": "address", "who_value": "*"},
    ]
    rules = [rule(f"{at}-{kind['who']}", **kind, rate=1_000 + at) for at in range(200) for kind in kinds]
    found = RuleSet(rules).buckets(ADA, tool(), "/mcp", "192.0.2.7")
    assert [each.rule.who for each in found] == ["address", "key", "group", "installation"]


def test_observing_rule_replaces_no_enforced_rule() -> None:
    rules = [rule("all", rate=10), rule("watch", what="tool", what_value="search", rate=1, observe=True)]
    found = RuleSet(rules).buckets(ADA, tool(), "/mcp")
    assert [each.rule.name for each in found] == ["all", "watch"]


def test_measures_of_rules_are_chosen_apart() -> None:
    rules = [rule("all", rate=10, budget=5), rule("tool", what="tool", what_value="search", concurrent=2)]
    found = RuleSet(rules).buckets(ADA, tool(), "/mcp")
    assert {(each.rule.name, each.measure) for each in found} == {
        ("all", "rate"), ("all", "budget"), ("tool", "concurrent"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("hour", datetime(2026, 12, 31, 23, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        ("day", datetime(2026, 12, 31, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        ("month", datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_period_is_of_the_calendar(name: str, start: datetime, end: datetime) -> None:
    assert Period.at(name, datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)) == (start, end)
