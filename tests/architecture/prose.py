"""Prose of the pages and of the interface, and the house rules for it.

``python -m tests.architecture.prose PAGE…`` prints what the rules find in pages.
``python -m tests.architecture.prose --tighten`` lowers the counts in ``prose.toml`` to what is found today.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
NAMED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = sorted([*(ROOT / name for name in NAMED), *(ROOT / "docs").rglob("*.md")])
# Findings in pages older than the rules. Counts are lowered, never raised.
ALLOWED = Path(__file__).with_name("prose.toml")
SENTENCE_WORDS = 30
CELL_WORDS = 25

FENCE = re.compile(r"^ *(```|~~~)")
BLOCK_START = re.compile(r"^ *([-*] |\d+\. |> ?|!!! )")
RULE_ROW = re.compile(r"\|[\s:|-]+\|?")
CODE = re.compile(r"(`+)[^`](?:.*?[^`])?\1(?!`)", re.DOTALL)
LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
MARKUP = re.compile(r"\*+|<[^>]+>")
SENTENCE_END = re.compile(r"(?<=[.!?…])[\"”)]*\s+(?=[\"“(]?[A-Z0-9])")


SHOWN = {
    "description",
    "help_text",
    "label",
    "short_description",
    "title",
    "verbose_name",
    "verbose_name_plural",
}
UNSEEN = re.compile(r"{%.*?%}|{#.*?#}|<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL)
VALUE = re.compile(r"{{.*?}}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Piece:
    """A paragraph, list item, heading or table cell; code in it is the word ``CODE``."""

    line: int
    kind: Literal["text", "heading", "cell"]
    text: str

    @property
    def sentences(self) -> list[str]:
        return SENTENCE_END.split(self.text)


def pieces(markdown: str) -> Iterator[Piece]:
    """Yield the prose of a page without its blocks of code."""
    block: list[str] = []
    fence, start = "", 0
    for number, line in enumerate([*markdown.splitlines(), ""], 1):
        mark = FENCE.match(line)
        whole = line.startswith(("#", "|")) or not line.strip() or mark or fence
        if block and (whole or BLOCK_START.match(line)):
            yield Piece(start, "text", plain(" ".join(block)))
            block = []
        if mark:
            fence = "" if mark[1] == fence else fence or mark[1]
        elif fence or not line.strip():
            continue
        elif line.startswith("#"):
            yield Piece(number, "heading", plain(line.lstrip("#")))
        elif line.startswith("|"):
            if not RULE_ROW.fullmatch(line):
                yield from (Piece(number, "cell", cell) for cell in cells(line))
        else:
            start = start if block else number
            block.append(BLOCK_START.sub("", line, count=1) if not block else line)


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in plain(row.replace(r"\|", "/")).strip("|").split("|")]


def plain(text: str) -> str:
    """Return text without markup, on one line."""
    return " ".join(MARKUP.sub("", LINK.sub(r"\1", CODE.sub("CODE", text))).split())


def _long_sentences(piece: Piece) -> Iterator[str]:
    return (sentence for sentence in piece.sentences if len(sentence.split()) > SENTENCE_WORDS)


def _long_cells(piece: Piece) -> Iterator[str]:
    if piece.kind == "cell" and len(piece.text.split()) > CELL_WORDS:
        yield piece.text


def _found(pattern: str, *kinds: str) -> Callable[[Piece], Iterator[str]]:
    """Return a rule that yields the matches of a pattern in pieces of some kinds, or of all."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda piece: (m[0] for m in compiled.finditer(piece.text) if not kinds or piece.kind in kinds)


RULES: dict[str, Callable[[Piece], Iterator[str]]] = {
    "sentence": _long_sentences,
    "cell": _long_cells,
    "person": _found(r"\b(nobody|somebody|whoever|nobody's|somebody's)\b"),
    "clause": _found(r"^(what|whether|who|whose|whoever)\b(?!.*\?$).*", "heading", "cell"),
    "is no": _found(r"(?<!there )\b(is|are|was|were) no (?!longer|more\b|less\b)\w+"),
    "repeat": _found(r"\b(?!code|that|had)([a-z]+) \1\b"),
    "idiom": _found(r"\b(of its own|by itself|as it is|anew|for ever)\b"),
}


def findings(page: Path) -> list[str]:
    """Return the findings of the house rules in a page, with their lines."""
    return [
        f"{page}:{piece.line} {name}: {words}"
        for piece in pieces(page.read_text())
        for name, rule in RULES.items()
        for words in rule(piece)
    ]


def allowed() -> dict[str, int]:
    """Return how many findings a page may have, by its path."""
    return tomllib.loads(ALLOWED.read_text())


def shown_by_code(source: Path) -> Iterator[tuple[int, str]]:
    """Yield the labels, help texts and titles in Python code, each with its line."""
    text = source.read_text()
    if any(name in text for name in SHOWN):
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.keyword(arg=str(name), value=ast.Constant(value=str(words))) if name in SHOWN:
                    yield node.value.lineno, plain(words)


def shown_by_template(template: str) -> Iterator[tuple[int, str]]:
    """Yield the words of a template, each line with its number."""
    text = VALUE.sub("CODE", UNSEEN.sub(lambda match: "\n" * match[0].count("\n"), template))
    yield from enumerate((line.strip() for line in text.splitlines()), 1)


def tighten() -> None:
    """Lower the allowed counts to what is found today."""
    found = {
        path: min(most, len(findings(ROOT / path)))
        for path, most in allowed().items()
        if (ROOT / path).exists()
    }
    lines = [line for line in ALLOWED.read_text().splitlines() if line.startswith("#")]
    lines += [f'"{path}" = {count}' for path, count in sorted(found.items()) if count]
    ALLOWED.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--tighten"]:
        tighten()
    else:
        print(*(line for page in sys.argv[1:] for line in findings(Path(page))), sep="\n")
