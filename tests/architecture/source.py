"""The source of the packages as syntax trees, each read once for all tests of a process."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for package in ("mcp_app", "mcpsite")
    for path in (ROOT / package).rglob("*.py")
    if "migrations" not in path.parts
)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = TypeVar("Node", bound=ast.AST)


def name_of(path: Path) -> str:
    """Return the path below the root of the project."""
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text())


@cache
def _by_type(path: Path) -> dict[type[ast.AST], list[ast.AST]]:
    nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    for node in ast.walk(tree_of(path)):
        nodes[type(node)].append(node)
    return dict(nodes)


def nodes_of(path: Path, *types: type[Node]) -> Iterator[Node]:
    """Yield the nodes of these types in a file, those of the first type first."""
    for each in types:
        yield from _by_type(path).get(each, ())  # type: ignore[misc]


def functions_of(path: Path) -> Iterator[Function]:
    """Yield the functions and methods of a file."""
    return nodes_of(path, ast.FunctionDef, ast.AsyncFunctionDef)
