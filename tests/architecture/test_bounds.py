"""Every limit on callers takes its counter from ``protocol/principal_key.py``, so that it counts users."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from mcp_app.protocol.principal_key import Bound
from tests.architecture.source import ROOT, SOURCES, Function, name_of, tree_of

REFUSALS = {"TooManyRequests", "QuotaExceeded", "Throttled"} | {
    *("RATE_LIMITED", "TOO_MANY_RUNNING", "BACKLOG_FULL", "APPROVALS_FULL")
}
NAMED = {"share_of", "person_of"}
GIVEN = {"Share", "Person", "person"}
COUNTERS = {"hit", "acquire", "count"}
KEYS = {"key", "principal_key"}
# Functions that refuse without counting a principal.
WITHOUT_A_PERSON = {
    "mcp_app/auth/wrong_keys.py count": "an address: nobody is known yet",
    "mcp_app/oauth/connections.py _check_pace": "the renewals of one connection, against a loop in a client",
    "mcp_app/api/throttling.py _count": "its callers name a person or an address",
    "mcp_app/streams/stores/storage_quota.py check": "its callers give what a person holds",
}


def called(node: ast.AST) -> str:
    """Return the last name of a call's function; "" for other nodes."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} | {
        each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)
    }


def refuses(function: Function) -> bool:
    return any(REFUSALS & names_in(each) for each in ast.walk(function) if isinstance(each, ast.Raise))


def without_a_person(module: ast.Module) -> Iterator[str]:
    """Yield the names of functions that refuse for a limit, and count no user."""
    refusing = [each for each in ast.walk(module) if isinstance(each, Function) and refuses(each)]
    helpers = helpers_of(module) if refusing else set()
    for each in refusing:
        if not helpers & {called(node) for node in ast.walk(each)}:
            given = {name for argument in each.args.args for name in (argument.arg, *names_in(argument))}
            if not GIVEN & given:
                yield each.name


def helpers_of(module: ast.Module) -> set[str]:
    """Return the names that give the counter of a user:

    the functions for it, and those of this module that call them.
    """
    functions = (each for each in ast.walk(module) if isinstance(each, Function))
    return NAMED | {each.name for each in functions if NAMED & names_in(each)}


def keys_counted(node: ast.AST, helpers: set[str]) -> bool:
    """Return True if an argument contains the key of a principal."""
    if called(node) in helpers:
        return False
    if isinstance(node, ast.Attribute) and node.attr in KEYS:
        return True
    if isinstance(node, ast.Name) and node.id == "principal_key":
        return True
    return any(keys_counted(child, helpers) for child in ast.iter_child_nodes(node))


def credentials_counted(module: ast.Module) -> Iterator[int]:
    """Yield lines that count by a principal's key, in a window or over rows."""
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call) and called(node) in COUNTERS]
    helpers = helpers_of(module) if calls else set()
    for node in calls:
        rows = [each for each in ast.walk(node.func) if called(each) == "filter"]
        by_key = any(keyword.arg == "principal" for each in rows for keyword in each.keywords)
        if by_key or any(keys_counted(argument, helpers) for argument in node.args):
            yield node.lineno


def test_limits_on_callers_count_users() -> None:
    found = {f"{name_of(path)} {name}" for path in SOURCES for name in without_a_person(tree_of(path))}
    remedy = "take the counter from protocol/principal_key.py: share_of; or delete an exception that is gone"
    assert found == set(WITHOUT_A_PERSON), remedy


def test_no_limit_counts_credentials() -> None:
    found = [f"{name_of(path)}:{line}" for path in SOURCES for line in credentials_counted(tree_of(path))]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(principal, held):\n    if held[principal.key] > 2:\n        raise TooManyRequests('')",
        "def f(self, principal_key):\n    raise TooManyRequests('Too many.')",
        "def f():\n    raise refused(Code.BACKLOG_FULL, '')",
    ],
)
def test_rule_finds_a_refusal_that_counts_no_user(source: str) -> None:
    assert list(without_a_person(ast.parse(source))) == ["f"]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("windows.hit(f'tool/{principal.key}', 2, 60)", [1]),
        ("count(context.principal.key, 2, 60)", [1]),
        ("windows.acquire(principal_key, holder, 2, 60)", [1]),
        ("Call.objects.filter(OPEN, principal=principal).count()", [1]),
        ("windows.hit(share_of(Bound.TURNS, principal.key), 2, 60)", []),
        ("Call.objects.filter(OPEN, person=person).count()", []),
    ],
)
def test_rule_finds_a_counter_of_a_credential(source: str, lines: list[int]) -> None:
    assert list(credentials_counted(ast.parse(source))) == lines


def test_documented_limits_equal_the_code() -> None:
    text = (ROOT / "docs/limits.md").read_text()
    assert re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE) == [bound.value for bound in Bound]
