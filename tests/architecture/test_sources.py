"""Only a source knows the origin of its entries: all other code asks the source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, SOURCES, name_of, nodes_of

HOME = ROOT / "mcp_app" / "catalogue" / "sources"
# Columns with the origin of a row, and Django methods that query them.
ORIGIN = ("source", "preset_of")
QUERIES = {"filter", "exclude", "get", "get_or_create", "Q", "When"}
INSTANCES = {"CODE", "PRESET", "CONTENT", "UPSTREAM"}
HOMES = {"tools", "prompts", "resources", "templates"}


def is_origin(node: ast.AST) -> bool:
    """Return True for ``row.source``, ``state["source"]`` and ``state.get("source")``."""
    if isinstance(node, ast.Attribute):
        return node.attr == "source"
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value == "source"
    return isinstance(node, ast.Call) and bool(node.args) and ast.unparse(node).endswith(".get('source')")


def compares(node: ast.AST) -> bool:
    """Return True for a comparison of a source, or of a stored name of one."""
    if isinstance(node, ast.Match):
        return is_origin(node.subject)
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    return any(is_origin(side) or (isinstance(side, ast.Name) and side.id in INSTANCES) for side in sides)


def queries(node: ast.AST) -> bool:
    """Return True for a query of rows of one source."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] not in QUERIES:
        return False
    return any((word.arg or "").partition("__")[0] in ORIGIN for word in node.keywords)


def reads(node: ast.AST) -> bool:
    """Return True for members that only rows of one source have."""
    if isinstance(node, ast.Attribute):
        return node.attr in {"preset_of", "preset_of_id", "get_source_display"}
    return isinstance(node, ast.Name) and node.id in {"KIND_OF", "KEY_OF"}


def names(node: ast.AST) -> bool:
    """Return True for an import of the stored names, or of the class of one source."""
    if not isinstance(node, ast.ImportFrom):
        return False
    found = {alias.name for alias in node.names}
    if (node.module or "").startswith("mcp_app.catalogue.sources."):
        return any(name.endswith("Source") and name != "Source" for name in found)
    return "StoredSource" in found


RULES = [compares, queries, reads, names]
KINDS: tuple[type[ast.AST], ...] = (ast.Match, ast.Compare, ast.Call, ast.Attribute, ast.Name, ast.ImportFrom)


def outside() -> Iterator[Path]:
    models = ROOT / "mcp_app" / "models"
    return (path for path in SOURCES if not path.is_relative_to(HOME) and not path.is_relative_to(models))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_code_outside_sources_does_not_distinguish_them(rule: Callable[[ast.AST], bool]) -> None:
    found = {
        f"{name_of(path)}:{getattr(node, 'lineno', 0)}"
        for path in outside()
        for node in nodes_of(path, *KINDS)
        if rule(node)
    }
    assert found == set()


def test_code_definitions_are_looked_up_by_their_source() -> None:
    folders = (
        "admin",
        "api",
        "console",
        "execution",
        "handlers",
        "catalogue/changes",
        "catalogue/snapshots",
    )
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in outside()
        if any(path.is_relative_to(ROOT / "mcp_app" / each) for each in (*folders, "catalogue/transfer"))
        for node in nodes_of(path, ast.Attribute)
        if node.attr in HOMES and ast.unparse(node.value) == "registry"
    ]
    assert found == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (compares, "row.source == x"),
        (compares, "row.source in (x, y)"),
        (compares, "state.get('source') != x"),
        (compares, "state['source'] == x"),
        (compares, "source_of(row) is CODE"),
        (compares, "match row.source:\n case 'code': pass"),
        (queries, "rows.filter(source='code')"),
        (queries, "Q(source__in=x)"),
        (queries, "rows.exclude(preset_of=None)"),
        (reads, "row.preset_of"),
        (reads, "row.get_source_display()"),
        (names, "from mcp_app.models.catalogue import StoredSource"),
        (names, "from mcp_app.catalogue.sources.code import CodeSource"),
    ],
)
def test_each_way_to_distinguish_sources_is_detected(rule: Callable[[ast.AST], bool], code: str) -> None:
    assert any(map(rule, ast.walk(ast.parse(code))))
