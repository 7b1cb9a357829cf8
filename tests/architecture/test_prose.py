"""The prose of pages and of the interface: the house rules, and proselint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from proselint.checks import __register__ as checks
from proselint.config import DEFAULT, Config
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

from tests.architecture.prose import (
    PAGES,
    ROOT,
    RULES,
    Piece,
    allowed,
    findings,
    pieces,
    shown_by_code,
    shown_by_template,
)

SOURCES = [path for package in ("mcp_app", "mcpsite") for path in sorted((ROOT / package).rglob("*"))]
# Their findings are mostly false here: decision 0040 has the counts.
OFF = {"dates_times", "lexical_illusions", "typography", "weasel_words"}
CONFIG: Config = {
    "max_errors": 100,
    "checks": {name: on and name not in OFF for name, on in DEFAULT["checks"].items()},
}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def linted(path: Path, lines: Iterable[tuple[int, str]]) -> list[str]:
    """Return what proselint finds in lines of text with their numbers."""
    registry = CheckRegistry()
    if not registry.checks:
        registry.register_many(checks)
    by_number = defaultdict(list)
    for number, words in lines:
        by_number[number].append(words)
    if not by_number:
        return []
    text = "\n".join(" · ".join(by_number[number]) for number in range(1, max(by_number) + 1))
    if not text.strip():
        return []
    found = LintFile(name_of(path), text).lint(CONFIG)
    return [f"{name_of(path)}:{item.pos[0]} {item.check_result.message}" for item in found]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("A word " * 15 + "more.", "sentence"),
        ("- " + "a word " * 8 + "\n  " + "a word " * 8, "sentence"),
        ("| name | " + "a word " * 13 + "|", "cell"),
        ("Shown to nobody.", "person"),
        ("Somebody else's key.", "person"),
        ("## What a key is", "clause"),
        ("| a | Whether it is on |", "clause"),
        ("It is no string.", "is no"),
        ("A room of its own.", "idiom"),
        ("Kept\nfor ever.", "idiom"),
        ("Read the the page.", "repeat"),
    ],
)
def test_each_house_rule_finds_its_pattern_once(text: str, rule: str) -> None:
    assert [name for piece in pieces(text) for name, found in RULES.items() for _ in found(piece)] == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "A word " * 15,
        "One sentence. " * 40,
        "| name | " + "a word " * 12 + "more |",
        "```\n" + "nobody " * 40 + "\n```",
        "`nobody` and [text](nobody.md)",
        "It is no longer served.",
        "There is no table.",
        "## What is served?",
        "What a key is stands below.",
    ],
)
def test_house_rules_find_nothing_in_plain_prose_and_code(text: str) -> None:
    assert not [words for piece in pieces(text) for rule in RULES.values() for words in rule(piece)]


def test_pieces_of_a_page_have_their_first_lines() -> None:
    page = "# A `b` *c*\n\nOne\ntwo.\n- three\n- four\n  five\n\n| x | y |\n|---|---|\n| 1 \\| 2 | [z](w) |\n"
    assert list(pieces(page)) == [
        Piece(1, "heading", "A CODE c"),
        Piece(3, "text", "One two."),
        Piece(5, "text", "three"),
        Piece(6, "text", "four five"),
        Piece(9, "cell", "x"),
        Piece(9, "cell", "y"),
        Piece(11, "cell", "1 / 2"),
        Piece(11, "cell", "z"),
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_has_no_new_findings_of_the_house_rules(page: Path) -> None:
    found = findings(page)
    most = allowed().get(name_of(page), 0)
    assert len(found) <= most, "\n".join([f"at most {most}:", *found])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_proselint_finds_nothing_in_a_page(page: Path) -> None:
    assert not linted(page, ((piece.line, piece.text) for piece in pieces(page.read_text())))


def test_proselint_finds_nothing_in_the_interface() -> None:
    code = [path for path in SOURCES if path.suffix == ".py" and "migrations" not in path.parts]
    templates = [path for path in SOURCES if path.suffix == ".html"]
    assert len(templates) > 50
    found = [line for path in code for line in linted(path, shown_by_code(path))]
    found += [line for path in templates for line in linted(path, shown_by_template(path.read_text()))]
    assert not found


def test_proselint_runs() -> None:
    (found,) = linted(ROOT / "page.md", [(2, "It stays for ever.")])
    assert found.startswith("page.md:2 ")
