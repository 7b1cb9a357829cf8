"""The two halves of the suite: tests inside this process, and tests of real processes.

``make test`` runs the first half, ``make test-system`` the tests marked ``process``. All tests in the
folders below get that mark; a module or test elsewhere sets it itself. A test of the first half that
starts a program fails, so that none is in the wrong half.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent.parent
OF_PROCESSES = tuple(
    TESTS / folder
    for folder in (
        "chaos",
        "fuzz",
        "integration/calls",
        "integration/features",
        "integration/http",
        "integration/metrics",
        "integration/oauth",
        "integration/tracing",
        "interop",
        "process",
    )
)
# The words of a file in which a test has one of the marks; a contract's tests with hypothesis are imported.
WORDS_OF_MARKS = {
    "process": ("mark.process",),
    "thorough": ("mark.thorough",),
    "hypothesis": ("hypothesis", "streams_contract"),
}
# Tests of the first half have a migrated database and their own Redis: one of these programs, or our module
# with fakeredis.
GIVEN = frozenset({"redis-server", "valkey-server", "redis_server.py", "migrated.py"})


class _Running:
    """The test that is running."""

    may_start_programs = True


def _refuse_programs(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "subprocess.Popen" or _Running.may_start_programs:
        return
    executable, command = arguments[:2]
    words = [executable] if isinstance(command, str | bytes) else [executable, *command]
    if not GIVEN.intersection(Path(str(word)).name for word in words):
        pytest.fail(f"This test starts {executable}: mark it `process`.")


def pytest_configure() -> None:
    """Install an audit hook that watches only program starts. Audit hooks cannot be removed."""
    sys.addaudithook(_refuse_programs)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of files when the marks will deselect all of their tests."""
    if "not process" in config.option.markexpr:
        unwanted = collection_path in OF_PROCESSES
    else:
        unwanted = collection_path.match("test_*.py") and _lacks_marks(
            collection_path, config.option.markexpr
        )
    return True if unwanted else None


def _lacks_marks(path: Path, expression: str) -> bool:
    """Return True if the expression begins with a choice of marks, and no test of the file has one."""
    marks = set(re.findall(r"\w+", expression.partition(")")[0])) - {"or"}
    if not marks or not marks <= WORDS_OF_MARKS.keys() or _is_of_processes(path):
        return False
    text = path.read_text(encoding="utf-8")
    return not any(word in text for mark in marks for word in WORDS_OF_MARKS[mark])


@cache
def _is_of_processes(path: Path) -> bool:
    return any(folder in path.parents for folder in OF_PROCESSES)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in the folders of process tests."""
    for item in items:
        if _is_of_processes(item.path):
            item.add_marker(pytest.mark.process)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Allow only marked tests to start programs."""
    _Running.may_start_programs = any(item.iter_markers("process")) or any(item.iter_markers("browser"))
    try:
        return (yield)
    finally:
        _Running.may_start_programs = True
