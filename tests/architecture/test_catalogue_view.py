"""The catalogue is an argument: requests use the view they are given, and few modules use the snapshot."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import ROOT, SOURCES, name_of, nodes_of, tree_of

SNAPSHOT = "mcp_app.catalogue.snapshots.current_snapshot"
# Modules that may import each public name of the current snapshot's module. Everything else is given a view.
USERS = {
    "current": {"mcp_app/catalogue/snapshots/catalogue_refresher.py"},
    "loaded": {
        # Pages of limits show the tags of tools, which only the served entries have.
        "mcp_app/admin/entries/catalogue.py",
        "mcp_app/admin/limits/limit_admin.py",
        # Calls per minute belong to tools, and limits are of the whole installation.
        "mcp_app/catalogue/snapshots/limit_rules.py",
        "mcp_app/execution/call_log.py",
    },
    "refresh": {
        "mcp_app/catalogue/snapshots/catalogue_refresher.py",
        "mcp_app/execution/background/ended_log.py",
    },
    "refresh_now": {
        "mcp_app/api/calls.py",
        "mcp_app/catalogue/toolsets/contents.py",
        "mcp_app/catalogue/toolsets/meter.py",
        "mcp_app/doctor/toolsets.py",
        "mcp_app/execution/worker/worker.py",
        "mcp_app/testing/client.py",
    },
    "refreshed_view": {
        "mcp_app/catalogue/reach.py",
        "mcp_app/execution/services.py",
        "mcp_app/management/commands/mcp_stdio.py",
    },
    "replace": {"mcp_app/testing/client.py"},
    "Views": {
        "mcp_app/catalogue/toolsets/meter.py",
        "mcp_app/execution/worker/worker.py",
        "mcp_app/handlers/context.py",
        "mcp_app/process.py",
    },
}
ENDPOINTS = ("/mcp", "/sse", "/messages")
# The module with these paths, and the settings of the server's identity.
SPELLED = "mcp_app/protocol/messages/server.py"
IDENTITY = {"instructions", "server_name", "server_title", "server_version"}
READS = "mcp_app/conf.py"
# Code that serves requests. It may import the type of the views, and nothing else of the current snapshot.
SERVES = ("dispatcher.py", "execution/calls/", "handlers/", "sessions/", "transports/")


def imported(path: Path) -> Iterator[str]:
    """Yield the names that a module imports from the module of the current snapshot, and attributes of it."""
    aliases: set[str] = set()
    for node in nodes_of(path, ast.ImportFrom):
        if node.module == SNAPSHOT:
            yield from (alias.name for alias in node.names)
        elif node.module == SNAPSHOT.rpartition(".")[0]:
            aliases |= {each.asname or each.name for each in node.names if each.name == "current_snapshot"}
    if aliases:
        yield from (node.attr for node in nodes_of(path, ast.Attribute) if ast.unparse(node.value) in aliases)


def test_few_modules_use_the_current_snapshot() -> None:
    """Every public name counts, because each is a way to the snapshot."""
    found: dict[str, set[str]] = {}
    for path in SOURCES:
        for name in imported(path):
            found.setdefault(name, set()).add(name_of(path))
    assert found == USERS
    module = next(path for path in SOURCES if name_of(path) == f"{SNAPSHOT.replace('.', '/')}.py")
    defined = {
        node.name
        for node in tree_of(module).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assert {name for name in defined if not name.startswith("_")} == set(USERS)


def test_request_code_uses_the_given_view() -> None:
    found = {
        name_of(path): names
        for path in SOURCES
        if name_of(path).startswith(tuple(f"mcp_app/{each}" for each in SERVES))
        and (names := set(imported(path)) - {"Views"})
    }
    assert found == {}


def test_endpoint_paths_are_defined_once() -> None:
    spelled = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        for node in nodes_of(path, ast.Constant)
        if _is_endpoint(node.value)
    ]
    assert [where.partition(":")[0] for where in spelled] == [SPELLED] * len(ENDPOINTS), spelled


def _is_endpoint(value: object) -> bool:
    """Return True if a constant is the path, or a piece of an f-string that ends with it."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return isinstance(text, str) and text.rstrip("/") in ENDPOINTS


def test_server_identity_is_read_from_settings_once() -> None:
    """Other code gets a ``Server``; apps in contrib know the public settings only."""
    readers = {
        name_of(path)
        for path in SOURCES
        for node in nodes_of(path, ast.Attribute)
        if node.attr in IDENTITY
        and not ast.unparse(node.value).endswith("server")
        # The row of a toolset has own instructions.
        and ast.unparse(node.value) != "row"
        and "contrib" not in path.parts
    }
    assert readers == {READS, SPELLED}


# Each turns paths of one kind into servers: those of requests, stored calls, routes, OAuth, people or limits.
LOOKS_UP = {
    "mcp_app/asgi.py",
    "mcp_app/auth/own_addresses.py",
    "mcp_app/catalogue/snapshots/current_snapshot.py",
    "mcp_app/connect/address.py",
    "mcp_app/limits/current.py",
    "mcp_app/sessions/exchange.py",
}
DECISION = ROOT / "docs" / "decisions" / "0037-catalogue-views.md"
MOST_FILES = 12


def test_few_modules_look_servers_up_by_path() -> None:
    found = {
        name_of(path)
        for path in SOURCES
        for node in nodes_of(path, ast.Attribute)
        if ast.unparse(node.value) == "servers"
    }
    assert found == LOOKS_UP


def test_decision_lists_few_files_that_exist() -> None:
    """The list is made by hand. Tests that register a server or a section show that nothing else changes."""
    rows = re.findall(r"^\| (`[^|]+`) \|", DECISION.read_text(), re.MULTILINE)
    files = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert 5 <= len(files) <= MOST_FILES
    assert [name for name in files if not (ROOT / name).exists()] == []
