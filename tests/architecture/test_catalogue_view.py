"""The catalogue is an argument: requests use the view they are given, few modules reach for the snapshot."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.test_source import SOURCES, name_of, tree_of

SNAPSHOT = "mcp_app.catalogue.serving.current_snapshot"
MOST_READERS = 4
# What serves requests. It may know the type of what gives it views, and nothing else of the snapshot in use.
SERVES = ("dispatcher.py", "execution/running/", "handlers/", "sessions/", "transports/")


def imported(path: Path) -> Iterator[str]:
    """The names that a module takes from the one that holds the snapshot in use; attributes of it, too."""
    aliases: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module == SNAPSHOT:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == SNAPSHOT.rpartition(".")[0]:
            aliases |= {each.asname or each.name for each in node.names if each.name == "current_snapshot"}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in aliases:
            yield node.attr


def test_few_modules_reach_for_the_snapshot_in_use() -> None:
    readers = [name_of(path) for path in SOURCES if "current" in imported(path)]
    assert len(readers) <= MOST_READERS, readers


def test_what_serves_requests_uses_the_view_it_was_given() -> None:
    found = {
        name_of(path): names
        for path in SOURCES
        if name_of(path).startswith(tuple(f"mcp_app/{each}" for each in SERVES))
        and (names := set(imported(path)) - {"Views"})
    }
    assert found == {}
