"""The requirement manifest: requirements of the specification, and those that tests prove."""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
TESTS = FOLDER.parent
LEVELS = (
    "MUST",
    "MUST NOT",
    "SHOULD",
    "SHOULD NOT",
    "MUST/SHOULD",
    "MUST/MAY",
    "SHOULD/MAY",
    "MUST/REC",
    "MAY",
    "REC",
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of the manifest. ``revisions`` uses R1 (2024-11-05) to R5 (2026-07-28)."""

    id: str
    level: str
    revisions: str
    state: str
    text: str

    @property
    def claimed(self) -> bool:
        return self.state == "claimed"


def load() -> dict[str, Requirement]:
    """Return every requirement by id; raise ValueError for an id in two files."""
    found: dict[str, Requirement] = {}
    for file in sorted(FOLDER.glob("*.toml")):
        for name, row in tomllib.loads(file.read_text(encoding="utf-8")).items():
            if name in found:
                raise ValueError(f"{name} is in the manifest twice.")
            found[name] = Requirement(id=name, **row)
    return found


@functools.cache
def marks() -> dict[str, list[str]]:
    """Return requirement ids with the tests marked by them, as ``file::test``, read from the sources."""
    found: dict[str, list[str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        source = file.read_text(encoding="utf-8")
        for where, mark in _marks_of(ast.parse(source)) if "mark.requirement" in source else ():
            for identifier in _ids(mark, file):
                found.setdefault(identifier, []).append(f"{file.relative_to(TESTS)}::{where}")
    return found


def _marks_of(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield each ``pytest.mark.requirement(...)`` with the test, class or module it marks."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                yield from ((node.name, call) for call in _calls(decorator))
        elif isinstance(node, ast.Assign):
            yield from (("(module)", call) for call in _calls(node.value))


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    for inner in ast.walk(node):
        if not (isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute)):
            continue
        if inner.func.attr == "requirement" and ast.unparse(inner.func) == "pytest.mark.requirement":
            yield inner


def _ids(mark: ast.Call, file: Path) -> list[str]:
    found = []
    for argument in mark.args:
        if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
            raise TypeError(f"{file}:{mark.lineno}: a requirement mark takes literal ids only.")
        found.append(argument.value)
    return found
