"""Import rules beyond import-linter: circles of type hints, and the protocol in a bare interpreter."""

from __future__ import annotations

import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]

BARE = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import mcp_app.protocol as package
for module in pkgutil.walk_packages(package.__path__, "mcp_app.protocol."):
    importlib.import_module(module.name)
unwanted = {"django", "redis", "celery", "kombu", "uvicorn", "twisted", "uvloop", "httpx2", "jsonschema_rs"}
print(sorted(unwanted & {name.partition(".")[0] for name in sys.modules}))
"""


def test_no_import_cycles_including_type_hints() -> None:
    graph = grimp.build_graph("mcp_app", "mcpsite", cache_dir=None)
    modules = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    # It defers every import to the first use of a name.
    del modules["mcp_app"]
    circle: list[str] = []
    try:
        TopologicalSorter({name: found - {"mcp_app"} for name, found in modules.items()}).prepare()
    except CycleError as found_one:
        circle = found_one.args[1]
    assert circle == []


@pytest.mark.process
def test_protocol_package_loads_without_any_framework() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", BARE, str(ROOT)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
