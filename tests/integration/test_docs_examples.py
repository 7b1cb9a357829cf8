"""The examples of the guides for application developers run as described."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from celery import current_app

from mcp_app.catalogue.definitions.registry import registry

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDES = (
    "writing-tools.md",
    "questions.md",
    "tasks.md",
    "extensions.md",
    "expose.md",
    "cookbook.md",
    "coming-from.md",
)
# The first line of a block with the equivalent code of another library.
OTHERS = {"coming-from.md": ("# FastMCP", "# Official SDK", "# django-mcp-server", "# drf-mcp")}


def blocks(guide: str) -> list[str]:
    """Return every Python block of a guide."""
    return re.findall(r"^```python\n(.*?)^```$", (DOCS / guide).read_text(), flags=re.DOTALL | re.MULTILINE)


def is_ours(block: str) -> bool:
    """Return True if a block belongs to the guide's app."""
    return block.startswith("# library/")


BLOCKS = {guide: [block for block in blocks(guide) if is_ours(block)] for guide in GUIDES}
TESTS = [
    (guide, name)
    for guide, blocks in BLOCKS.items()
    for block in blocks
    for name in re.findall(r"^(?:async )?def (test_\w+)", block, flags=re.MULTILINE)
]


@pytest.fixture(scope="module")
def guide(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Register and return the definitions of a guide."""
    module = ModuleType("library")
    known = set(current_app.tasks)
    with registry.isolated():
        for block in BLOCKS[request.param]:
            exec(compile(block, str(DOCS / request.param), "exec", dont_inherit=True), module.__dict__)
        yield module.__dict__
    # Another guide may run between two tests of this one, so its jobs are registered again.
    for name in set(current_app.tasks) - known:
        current_app.tasks.unregister(name)


# A guide may be executed twice in one process; its job is the same.
@pytest.mark.filterwarnings("ignore:Task name 'library.import_books' is already registered")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("guide", "name"), TESTS, indirect=["guide"])
def test_example_tests_of_the_guide_pass(guide: dict[str, Any], name: str) -> None:
    test = guide[name]
    if inspect.iscoroutinefunction(test):
        asyncio.run(test())
    else:
        test()


@pytest.mark.parametrize("page", GUIDES)
def test_every_block_of_a_guide_names_its_file(page: str) -> None:
    found = {block.splitlines()[0] for block in blocks(page)}
    assert found == {"# library/mcp.py", "# library/tests/test_mcp.py", *OTHERS.get(page, ())}


@pytest.mark.parametrize("library", OTHERS["coming-from.md"])
def test_code_of_another_library_is_valid_python(library: str) -> None:
    (block,) = (block for block in blocks("coming-from.md") if block.startswith(f"{library}\n"))
    compile(block, library, "exec")


def test_official_sdk_example_defines_one_tool() -> None:
    (block,) = (block for block in blocks("coming-from.md") if block.startswith("# Official SDK\n"))
    names: dict[str, Any] = {"__name__": "library"}
    exec(compile(block, "coming-from.md", "exec", dont_inherit=True), names)
    (tool,) = asyncio.run(names["mcp"].list_tools())
    assert tool.name == "index_shelves"
    assert list(tool.input_schema["properties"]) == ["shelves"]
