"""The words of the interface: none that the glossary refuses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_app.admin.audit import WORDS
from tests.architecture.interface import ALLOWED, ROOT, files, findings, refused, shown

PYTHON = '''
"""A docstring of nobody."""
LABEL: "nobody in an annotation" = "Shown to nobody"
log.warning("Logged for nobody here")

def page(name):
    """Return nothing to nobody."""
    return {"title": f"Nobody sees {name} now", "nobody": name}
'''
TEMPLATE = """{% comment %}Nobody reads this.{% endcomment %}
<p>Nobody sees {{ nobody }} here.</p>
<button class="nobody" aria-label="Ask nobody">x</button>
"""
SCRIPT = """// Nobody reads this.
const nobody = "nobody";
title.textContent = "Nobody waits here";
status.textContent = `${nobody} of nobody`;
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", PYTHON, {(3, "Shown to nobody"), (8, "Nobody sees CODE now")}),
        ("a.html", TEMPLATE, {(2, "Nobody sees CODE here."), (3, "Ask nobody")}),
        ("a.js", SCRIPT, {(3, "Nobody waits here"), (4, "CODE of nobody")}),
    ],
)
def test_shown_texts_of_a_file_are_found(
    name: str, text: str, expected: set[tuple[int, str]], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert {(line, words) for line, words in shown(path) if "nobody" in words.lower()} == expected


def test_every_kind_of_file_has_texts() -> None:
    for suffix in (".py", ".html", ".js"):
        texts = [words for path in files() if path.suffix == suffix for _, words in shown(path)]
        assert len(texts) > 100, suffix


def test_no_file_has_marks_of_an_edit_or_a_merge() -> None:
    """A page showed them as text."""
    marks = ("@@", "==", "<<<<<<<", ">>>>>>>")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files()
        if path.suffix in (".py", ".html", ".js", ".css")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.startswith(marks)
    ]
    assert found == []


def test_interface_uses_the_words_of_the_glossary() -> None:
    assert len(refused()) > 20
    assert not list(findings())


def test_allowed_words_are_still_used(monkeypatch: pytest.MonkeyPatch) -> None:
    found = "\n".join(findings(allowed={}))
    assert [entry for entry in ALLOWED if f"{entry[0]}:" not in found or f"“{entry[1]}”" not in found] == []


def audited(path: Path) -> Iterator[str]:
    """Yield the actions of a module that stand in it as ``action="…"``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.keyword) and node.arg == "action":
            values = (
                [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
            )
            yield from (str(each.value) for each in values if isinstance(each, ast.Constant))


def test_every_audited_action_has_words() -> None:
    modules = [path for path in (ROOT / "mcp_app").rglob("*.py") if "audit" in path.read_text()]
    actions = {action for path in modules for action in audited(path) if "." in action}
    assert len(actions) > 15
    assert sorted(actions - set(WORDS)) == []
