"""The examples of the application developer's guide do what it says."""

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
GUIDES = ("writing-tools.md", "questions.md", "extensions.md", "expose.md")
BLOCKS = {
    guide: re.findall(r"^```python\n(.*?)^```$", (DOCS / guide).read_text(), flags=re.DOTALL | re.MULTILINE)
    for guide in GUIDES
}
TESTS = [
    (guide, name)
    for guide, blocks in BLOCKS.items()
    for block in blocks
    for name in re.findall(r"^(?:async )?def (test_\w+)", block, flags=re.MULTILINE)
]


@pytest.fixture(scope="module")
def guide(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Everything a guide defines, registered."""
    module = ModuleType("library")
    known = set(current_app.tasks)
    with registry.isolated():
        for block in BLOCKS[request.param]:
            exec(compile(block, str(DOCS / request.param), "exec", dont_inherit=True), module.__dict__)
        yield module.__dict__
    # Another guide may stand between two tests of this one: its jobs are registered anew then.
    for name in set(current_app.tasks) - known:
        current_app.tasks.unregister(name)


# A guide may be read twice in one process; its job is the same then.
@pytest.mark.filterwarnings("ignore:Task name 'library.import_books' is already registered")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("guide", "name"), TESTS, indirect=["guide"])
def test_the_guide_keeps_its_word(guide: dict[str, Any], name: str) -> None:
    test = guide[name]
    if inspect.iscoroutinefunction(test):
        asyncio.run(test())
    else:
        test()


@pytest.mark.parametrize("page", GUIDES)
def test_every_block_of_a_guide_says_which_file_it_is(page: str) -> None:
    found = {block.splitlines()[0] for block in BLOCKS[page]}
    assert found == {"# library/mcp.py", "# library/tests/test_mcp.py"}
