"""The words of the interface, and the words that the glossary refuses in it.

``python -m tests.architecture.interface`` prints what the glossary refuses.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Final

from tests.architecture.prose import ROOT, plain, shown_by_template

GLOSSARY: Final = ROOT / "docs" / "glossary.md"
HEADING: Final = "## Words of the interface"
# Packages whose texts are read by people who use the admin, a browser or a mail program.
SHOWING: Final = (
    *("admin", "console", "notices", "connect", "interface", "doctor", "message_log", "templates"),
    *("oauth", "static", "models", "api", "auth", "catalogue/changes", "catalogue/access.py"),
)
# Words that stay, by the file and the refused word, with the reason.
ALLOWED: Final[dict[tuple[str, str], str]] = {}
# Logged texts, patterns and lookups are not shown.
UNSHOWN: Final = {"log", "logger", "logging", "re", "static", "reverse", "reverse_lazy", "path", "getLogger"}
ATTRIBUTE: Final = re.compile(
    r'\b(?:aria-label|title|placeholder|alt|label|data-(?:sure|sure-yes|sure-no|busy|name))="([^"]*)"'
)
LITERAL: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
REMARK: Final = re.compile(r"{% comment %}.*?{% endcomment %}", re.DOTALL)
REMARK: Final = re.compile(r"{% comment %}.*?{% endcomment %}", re.DOTALL)
COMMENT: Final = re.compile(r"^\s*//[^\n]*$|/\*.*?\*/", re.MULTILINE | re.DOTALL)
PLACED: Final = re.compile(r"\$?{[^{}]*}|{{.*?}}|{%.*?%}")


def refused() -> dict[str, tuple[str, re.Pattern[str]]]:
    """Return the refused words of the glossary, each with the word to use and a pattern."""
    section = GLOSSARY.read_text().partition(HEADING)[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line
    ]
    return {
        other: (term, re.compile(rf"\b{re.escape(other)}\b", re.IGNORECASE))
        for term, others, *_ in rows[2:]
        for other in others.replace("`", "").split(", ")
    }


def files() -> Iterator[Path]:
    """Yield the files that hold texts of the interface."""
    for name in SHOWING:
        path = ROOT / "mcp_app" / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in found if "migrations" not in each.parts)
    yield from sorted((ROOT / "mcpsite").rglob("*.html"))
    yield from (ROOT / "mcpsite" / name for name in ("unfold.py", "error_pages.py", "pages.py"))


def shown(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts that a file shows, each with its line."""
    match path.suffix:
        case ".py":
            yield from _by_python(path)
        case ".html":
            text = REMARK.sub(lambda match: "\n" * match[0].count("\n"), path.read_text())
            yield from shown_by_template(text)
            yield from _by_attributes(text)
        case ".js":
            yield from _by_script(path)


def _by_attributes(template: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(template.splitlines(), 1):
        for match in ATTRIBUTE.finditer(line):
            yield number, PLACED.sub("CODE", match[1])


def _by_script(path: Path) -> Iterator[tuple[int, str]]:
    text = COMMENT.sub(lambda match: "\n" * match[0].count("\n"), path.read_text())
    for match in LITERAL.finditer(text):
        words = PLACED.sub("CODE", match[1] if match[1] is not None else match[2])
        if _is_text(words):
            yield text.count("\n", 0, match.start()) + 1, words


def _by_python(path: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(path.read_text())
    unseen = {id(node) for node in _unseen(tree)}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if id(node) in unseen:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "CODE" for part in node.values)
            text = "".join(map(str, parts))
            if _is_text(text):
                yield node.lineno, plain(text)
            waiting += [part for part in node.values if not isinstance(part, ast.Constant)]
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_text(node.value):
            yield node.lineno, plain(node.value)
        waiting += ast.iter_child_nodes(node)


def _unseen(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield docstrings, annotations, and calls that log or look up."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()):
                yield node
            case ast.arg(annotation=ast.AST() as hint) | ast.AnnAssign(annotation=hint):
                yield hint
            case ast.FunctionDef(returns=ast.AST() as hint) | ast.AsyncFunctionDef(returns=ast.AST() as hint):
                yield hint
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) | ast.Call(func=ast.Name(id=name)):
                if name in UNSHOWN:
                    yield node


def _is_text(text: str) -> bool:
    """Return True for words, and False for names, addresses, markup alone and patterns."""
    words = text.replace("CODE", "").strip()
    return " " in words or (words.isalpha() and words[:1].isupper() and words[1:].islower())


def findings(allowed: Container[tuple[str, str]] = ALLOWED) -> Iterator[str]:
    """Yield each text that has a refused word."""
    words = refused()
    for path in files():
        name = str(path.relative_to(ROOT))
        for number, text in shown(path):
            for other, (term, pattern) in words.items():
                if pattern.search(text) and (name, other) not in allowed:
                    yield f"{name}:{number} “{other}” is “{term}” here: {text[:120]}"


if __name__ == "__main__":
    print(*findings(), sep="\n")
