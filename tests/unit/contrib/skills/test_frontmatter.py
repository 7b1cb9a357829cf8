"""SKILL.md frontmatter is read as its clients read it, or rejected with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.contrib.skills import frontmatter

GOOD = "---\nname: travel\ndescription: Books a journey.\n---\nAsk first.\n"


def with_member(line: str) -> str:
    return GOOD.replace("---\nAsk", f"{line}\n---\nAsk")


@pytest.mark.requirement("EXT-02")
@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("more: 2026-10-01", "2026-10-01"),
        ("more: yes", "yes"),
        ("more: on", "on"),
        ("more: 12:30", "12:30"),
        ("more: 010", 10),
        ("more: 0x1F", 31),
        ("more: 0o17", 15),
        ("more: -7", -7),
        ("more: 2.50", 2.5),
        ("more: 1e3", 1000.0),
        ("more: 1_000", "1_000"),
        ("more: True", True),
        ("more: null", None),
        ("more: ~", None),
        ("more:", None),
        ("more: '7'", "7"),
        ("more: [a, 1, {b: c}]", ["a", 1, {"b": "c"}]),
        ("more: |\n  two\n  lines", "two\nlines\n"),
        ("more: grüße 🚆", "grüße 🚆"),
    ],
)
def test_values_follow_yaml_1_2(line: str, value: Any) -> None:
    found = frontmatter.read(with_member(line), "travel")
    # At the end of a document, the last line of a block scalar keeps its newline.
    expected = value.removesuffix("\n") if line.endswith("lines") else value
    assert found == {"name": "travel", "description": "Books a journey.", "more": expected}


@pytest.mark.parametrize(
    "text", [GOOD, "\ufeff" + GOOD, GOOD.replace("\n", "\r\n"), GOOD.partition("Ask")[0][:-1]]
)
def test_byte_order_mark_and_line_endings_are_ignored(text: str) -> None:
    assert frontmatter.read(text, "travel") == {"name": "travel", "description": "Books a journey."}


@pytest.mark.requirement("EXT-02")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ask first.", "does not begin with frontmatter"),
        ("\n" + GOOD, "does not begin with frontmatter"),
        ("---\nname: travel\n", "does not begin with frontmatter"),
        ("---\nname: [\n---\n", "no YAML"),
        ("---\n- name\n---\n", "no mapping"),
        (with_member("1: one"), "written as JSON"),
        (with_member("more: !!python/object/apply:os.getpid []"), "no YAML"),
        (with_member("more: !!binary aGk="), "written as JSON"),
        (GOOD.replace("travel", "other"), "its folder is 'travel'"),
        (GOOD.replace("travel", "Travel"), "small letters"),
        (GOOD.replace("travel", "tra--vel"), "small letters"),
        (GOOD.replace("travel", "-travel"), "small letters"),
        (GOOD.replace("travel", "t" * 65), "small letters"),
        (GOOD.replace("travel", "7"), "small letters"),
        (GOOD.replace("Books a journey.", "''"), "'description'"),
        (GOOD.replace("Books a journey.", "x" * 1_025), "'description'"),
        (GOOD.replace("description", "summary"), "'description'"),
    ],
)
def test_invalid_frontmatter_raises_with_reason(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        frontmatter.read(text, "travel")
