"""Rows of the tables of limits: what is used, who was refused, and which limits hold for whom."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse

from mcp_app.admin.callers import limit_words
from mcp_app.admin.markup import relative
from mcp_app.auth.principal import LOOPBACK
from mcp_app.catalogue.snapshots.limit_rules import all_rules
from mcp_app.catalogue.snapshots.limit_rules import of_tools as tool_rules
from mcp_app.limits import report
from mcp_app.limits.answers import amount_of
from mcp_app.limits.matching import Caller, choices
from mcp_app.limits.notation import amounts_text
from mcp_app.limits.report import Fill
from mcp_app.limits.rules import Rule

VIEW: Final = "mcp_app.view_limitrule"
# The limits that the page of a tool lists.
MOST_RULES: Final = 100
# The rows of the table of used limits.
MOST_USED: Final = 30


def names_of(subjects: Iterable[str]) -> dict[str, str]:
    """Return the texts of subjects for pages. Callers without a login have the name that the log shows."""
    return {**report.names_of(subjects), LOOPBACK.key: LOOPBACK.name}


def usage(fills: Iterable[Fill]) -> list[dict[str, Any]]:
    """Return the rows of a table of used limits."""
    found = list(fills)
    names = names_of(each.bucket.subject for each in found)
    return [
        {
            "rule": each.bucket.rule.id,
            "limit": each.bucket.rule.name,
            "url": rule_url(each.bucket.rule),
            "subject": each.bucket.subject,
            "name": names[each.bucket.subject],
            "measure": each.bucket.measure,
            "amount": amount_of(each.bucket),
            "used": each.used,
            "most": each.limit,
            "percent": each.percent,
            "resets": each.resets,
            "next_call": each.next_call,
            "refused": each.refused,
            "refused_at": relative(each.refused_at) if each.refused_at else "",
            "observe": each.bucket.rule.observe,
        }
        for each in found
    ]


def of_caller(request: HttpRequest, caller: Caller) -> list[dict[str, Any]]:
    """Return the rows of what a caller has used, or [] if the user may not view limits."""
    if not request.user.has_perm(VIEW):
        return []
    return usage(report.of_caller(all_rules(), caller))


def used_now() -> list[dict[str, Any]]:
    """Return the rows of the fullest limits, with a used part."""
    found = report.of_rules(all_rules())
    return usage([each for each in found if each.used or each.refused][:MOST_USED])


def of_tool(request: HttpRequest, tool: str, tags: Collection[str]) -> list[dict[str, Any]]:
    """Return the limits of a tool with their fullest use, or [] if the user may not view limits."""
    if not request.user.has_perm(VIEW):
        return []
    rules = [rule for rule in all_rules() if rule.takes(tool, tags, "")][:MOST_RULES]
    fullest: dict[int, dict[str, Any]] = {}
    for row in usage(report.of_rules(rules)):
        fullest.setdefault(row["rule"], row)
    return [
        {
            "name": rule.name,
            "url": rule_url(rule),
            "who": who,
            "amounts": amounts_text(rule),
            "observe": rule.observe,
            "fill": fullest.get(rule.id),
        }
        for rule, who in zip(rules, limit_words.callers(rules), strict=True)
    ]


def of_tools(*, is_linked: bool) -> list[dict[str, str]]:
    """Return the first tools with calls per minute and their amounts, and their pages if ``is_linked``."""
    return [
        {"tool": rule.what_value, "url": rule_url(rule) if is_linked else "", "amounts": amounts_text(rule)}
        for rule in tool_rules()[: MOST_RULES + 1]
    ]


def refused_lately() -> list[dict[str, Any]]:
    """Return the rows of a table of subjects that a limit refused in the last day."""
    rows = report.lately_refused()
    names = names_of(each.subject for each in rows)
    return [
        {
            "limit": each.limit,
            "url": _url(each.number),
            "subject": each.subject,
            "name": names[each.subject],
            "measure": each.measure,
            "refused": each.refused,
            "at": relative(each.refused_at),
            "observe": each.rule is not None and each.rule.mode == "observe",
        }
        for each in rows
    ]


def holding(rule: Rule, rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Return all limits for the same callers and tools, and which of them hold. A single one is left out.

    The limits are compared for a call of the most specific tool and caller that ``rule`` names.
    """
    person = next(iter(rule.users), "user:0") if rule.who in ("user", "member", "group") else "user:0"
    key = rule.who_value if rule.who == "key" and rule.who_value != "*" else "0"
    client = rule.who_value if rule.who == "client" and rule.who_value != "*" else "0"
    address = rule.who_value.partition("/")[0] if rule.who == "address" else ""
    caller = Caller(person, key, client, "192.0.2.1" if address == "*" else address)
    tool = rule.what_value if rule.what == "tool" else ""
    tags = (rule.what_value,) if rule.what == "tag" else ()
    toolset = rule.what_value if rule.what == "toolset" else ""
    others = [each for each in rules if each.id != rule.id]
    found = choices([*others, rule], caller, tool, tags, toolset)
    if all(each.rule.id == rule.id for each in found):
        return []
    return [
        {
            "limit": each.rule.name,
            "url": rule_url(each.rule),
            "who": who,
            "what": limit_words.tools(each.rule),
            "amount": amounts_text(each.rule),
            "measure": each.measure,
            "instead": each.instead.name if each.instead is not None else "",
            "is_this": each.rule.id == rule.id,
        }
        for each, who in zip(found, limit_words.callers(each.rule for each in found), strict=True)
    ]


def rule_url(rule: Rule) -> str:
    """Return the address of a limit's page or its tool's, or "" for a limit that is not stored."""
    return _url(rule.id) if rule.id else ""


def _url(number: int) -> str:
    return reverse(f"admin:mcp_app_{'tool' if number < 0 else 'limitrule'}_change", args=[abs(number)])
