"""The catalogue is an argument: requests use the view they are given, few modules reach for the snapshot."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.test_source import SOURCES, name_of, tree_of

SNAPSHOT = "mcp_app.catalogue.snapshots.current_snapshot"
MOST_READERS = 4
# Where the endpoint's path is spelled, and what is read of the settings to make the server's identity.
SPELLED = "mcp_app/protocol/messages/server.py"
IDENTITY = {"instructions", "server_name", "server_title", "server_version"}
READS = "mcp_app/conf.py"
# What serves requests. It may know the type of what gives it views, and nothing else of the snapshot in use.
SERVES = ("dispatcher.py", "execution/calls/", "handlers/", "sessions/", "transports/")


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


def test_the_path_of_the_endpoint_is_spelled_once() -> None:
    spelled = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and _is_endpoint(node.value)
    ]
    assert [where.partition(":")[0] for where in spelled] == [SPELLED], spelled


def _is_endpoint(value: object) -> bool:
    """Whether a constant is the path, or a piece of an f-string that ends an address with it."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return isinstance(text, str) and text.rstrip("/") == "/mcp"


def test_the_identity_of_the_server_is_read_from_settings_once() -> None:
    """Others are given a ``Server``; apps in contrib know the public settings only."""
    readers = {
        name_of(path)
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
        and node.attr in IDENTITY
        and not ast.unparse(node.value).endswith("server")
        and "contrib" not in path.parts
    }
    assert readers == {READS, SPELLED}
