"""Sanitizing of hostile HTML in one linear pass before parsing. The output is balanced.

An HTML parser takes quadratic time on deep nesting, on thousands of attributes, and on formatting elements
that it re-opens in every block. The output has a bounded number of these. Content is not interpreted.
"""

from __future__ import annotations

import re
from typing import Literal

Format = Literal["markdown", "text", "html"]
MAX_DEPTH = 96
MAX_TAGS = 25_000
_MAX_TAG_CHARACTERS = 8_192
_MAX_SPACES = 64

_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
     "wbr")
)  # fmt: skip
# If the end tag of such an element is missing, browsers treat the rest of the page as its content.
_RAW = frozenset(
    ["script", "style", "noscript", "textarea", "iframe", "noembed", "noframes", "plaintext", "xmp"]
)
_DROPPED = _RAW | frozenset(
    ["template", "object", "applet", "svg", "math", "canvas", "audio", "video", "select", "button", "dialog"]
)
_FORMATTING = frozenset(
    ["b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"]
)
_WANTED = frozenset(
    ["href", "src", "alt", "title", "id", "class", "role", "hidden", "aria-hidden", "style", "lang"]
)

# Open elements that a start tag closes implicitly.
_ENDED_BY = {
    name: frozenset({"p"})
    for name in (
        "address", "article", "aside", "blockquote", "div", "dl", "fieldset", "footer", "form", "h1", "h2",
        "h3", "h4", "h5", "h6", "header", "hr", "main", "nav", "ol", "p", "pre", "section", "table", "ul",
    )
} | {
    "li": frozenset({"li", "p"}),
    "dt": frozenset({"dt", "dd", "p"}),
    "dd": frozenset({"dt", "dd", "p"}),
    "td": frozenset({"td", "th", "p"}),
    "th": frozenset({"td", "th", "p"}),
    "tr": frozenset({"td", "th", "tr", "p"}),
    "tbody": frozenset({"td", "th", "tr", "thead", "tbody", "p"}),
}  # fmt: skip

_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)((?:[^>\"']++|\"[^\"]{0,4096}+\"|'[^']{0,4096}+')*+)>")
_ATTRIBUTE = re.compile(
    r"([a-zA-Z-]++)\s{0,64}+=\s{0,64}+(\"[^\"]*+\"|'[^']*+'|[^\s\"'>]++)|(?<=\s)(hidden)\b", re.IGNORECASE
)
_SPACES = re.compile(rf"[ \t\r\n\f\v]{{{_MAX_SPACES},}}")


class TooMuchWork(Exception):
    """Raised if a page could not be converted in time."""


def bounded(html: str) -> str:
    """Return ``html`` balanced, within MAX_TAGS start tags and MAX_DEPTH levels, without active content."""
    return _Pass(_SPACES.sub(lambda run: run.group()[:_MAX_SPACES], html).replace("\0", "")).run()


class _Pass:
    """A pass that balances and bounds HTML. ``_open`` has the names of open elements in the output."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._out: list[str] = []
        self._open: list[str] = []
        self._skipped: dict[str, int] = {}
        self._endless: set[str] = set()
        self._tags = 0

    def run(self) -> str:
        position = 0
        last_end = self._html.rfind(">")
        while position < len(self._html) and self._tags < MAX_TAGS:
            start = self._html.find("<", position)
            if start < 0 or start > last_end:
                self._out.append(self._html[position : start if start >= 0 else None])
                break
            self._out.append(self._html[position:start])
            position = self._markup(start)
        self._out.extend(f"</{name}>" for name in reversed(self._open))
        return "".join(self._out)

    def _markup(self, start: int) -> int:
        """Process the markup at ``start`` and return the position after it."""
        if self._html.startswith("<!--", start):
            return self._after("-->", start + 4)
        tag = _TAG.match(self._html, start)
        if tag is not None and tag.end() - start <= _MAX_TAG_CHARACTERS:
            return self._tag(tag)
        if self._html[start + 1 : start + 2].isalpha() or self._html[start + 1 : start + 2] in (
            "!",
            "?",
            "/",
        ):
            return self._after(">", start + 1)
        self._out.append("&lt;")
        return start + 1

    def _after(self, mark: str, position: int) -> int:
        found = self._html.find(mark, position)
        return len(self._html) if found < 0 else found + len(mark)

    def _tag(self, tag: re.Match[str]) -> int:
        name = tag[2].lower()
        if tag[1]:
            self._end(name)
        elif name in _DROPPED:
            return self._skip(name, tag.end())
        elif name.isascii() and name.isalnum():
            self._start(name, tag[3])
        return tag.end()

    def _skip(self, name: str, position: int) -> int:
        if name not in self._endless:
            end = re.compile(rf"</{name}[\s/>]", re.IGNORECASE).search(self._html, position)
            if end is not None:
                return self._after(">", end.end() - 1)
            self._endless.add(name)  # Another search to the end for each tag would be quadratic.
        return len(self._html) if name in _RAW else position

    def _start(self, name: str, attributes: str) -> None:
        while self._open and self._open[-1] in _ENDED_BY.get(name, ()):
            self._out.append(f"</{self._open.pop()}>")
        if name in _VOID:
            self._out.append(f"<{name}{_wanted(attributes)}>")
        elif len(self._open) >= MAX_DEPTH:
            self._skipped[name] = self._skipped.get(name, 0) + 1
            return
        else:
            self._open.append(name)
            self._out.append(f"<{name}{'' if name in _FORMATTING else _wanted(attributes)}>")
        self._tags += 1

    def _end(self, name: str) -> None:
        if self._skipped.get(name):
            self._skipped[name] -= 1
        elif name in self._open:
            while True:
                closed = self._open.pop()
                self._out.append(f"</{closed}>")
                if closed == name:
                    break


def _wanted(attributes: str) -> str:
    """Return the attributes that extraction uses, each once, with their quotes."""
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(attributes):
        name = (match[1] or match[3]).lower()
        if name in _WANTED and name not in found:
            found[name] = f" {name}={match[2]}" if match[2] else f" {name}"
    return "".join(found.values())
