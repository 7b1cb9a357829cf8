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

from mcp_app.catalogue.registry import registry

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "writing-tools.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), flags=re.DOTALL | re.MULTILINE)
TESTS = [
    name for block in BLOCKS for name in re.findall(r"^(?:async )?def (test_\w+)", block, flags=re.MULTILINE)
]


@pytest.fixture(scope="module")
def guide() -> Iterator[dict[str, Any]]:
    """Everything the guide defines, registered."""
    module = ModuleType("library")
    with registry.isolated():
        for block in BLOCKS:
            exec(compile(block, str(GUIDE), "exec", dont_inherit=True), module.__dict__)
        yield module.__dict__


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", TESTS)
def test_the_guide_keeps_its_word(guide: dict[str, Any], name: str) -> None:
    test = guide[name]
    if inspect.iscoroutinefunction(test):
        asyncio.run(test())
    else:
        test()


def test_every_block_of_the_guide_says_which_file_it_is() -> None:
    assert TESTS
    assert {block.splitlines()[0] for block in BLOCKS} == {"# library/mcp.py", "# library/tests/test_mcp.py"}
