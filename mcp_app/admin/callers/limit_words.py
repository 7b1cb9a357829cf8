"""Callers and tools of limits in the words of pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcp_app.limits import report
from mcp_app.limits.rules import EACH, What, Who

_EACH: Final = {
    Who.USER: "each user",
    Who.KEY: "each API key",
    Who.CLIENT: "each OAuth client",
    Who.ADDRESS: "each network address",
}
_ONE: Final = {
    Who.INSTALLATION: "all callers together",
    Who.GROUP: "members of {} together",
    Who.MEMBER: "each member of {}",
    Who.USER: "user {}",
    Who.KEY: "API key {}",
    Who.CLIENT: "OAuth client {}",
    Who.ADDRESS: "address {}",
}
_TOOLS: Final = {
    What.EVERYTHING: "all tools",
    What.TOOLSET: "tools of the toolset {}",
    What.TAG: "tools with the tag {}",
    What.TOOL: "tool {}",
}


def callers(rules: Iterable[Any]) -> list[str]:
    """Return the callers of each limit, such as ``each member of analysts``. API keys have their names."""
    found = list(rules)
    names = report.names_of(_key(each) for each in found if each.who == Who.KEY)
    return [_callers(each, names) for each in found]


def tools(rule: Any) -> str:
    """Return the tools of a limit, such as ``tools with the tag billing``."""
    return _TOOLS[rule.what].format(rule.what_value)


def _callers(rule: Any, names: Mapping[str, str]) -> str:
    if rule.who_name == EACH:
        return _EACH.get(rule.who, EACH)
    name = names.get(_key(rule), rule.who_name).removeprefix("key:")
    return _ONE[rule.who].format(name)


def _key(rule: Any) -> str:
    return f"{Who.KEY}:{rule.who_name}"
