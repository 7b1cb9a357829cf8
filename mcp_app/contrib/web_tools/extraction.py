"""Extraction of a page's main content as Markdown, text or clean HTML, without connections.

The work is bounded by size before parsing and by a deadline during conversion. The bounds are necessary
because the thread that does the work cannot be stopped from outside.
"""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import urljoin, urlsplit

from markdownify import ATX, MarkdownConverter
from selectolax.lexbor import LexborHTMLParser, LexborNode

from mcp_app.contrib.web_tools.markup import Format, TooMuchWork, bounded

_NEVER_CONTENT = (
    "head,script,style,link,meta,input,[hidden],[aria-hidden=true],"
    '[style*="display:none" i],[style*="display: none" i],[style*="visibility:hidden" i],'
    '[style*="visibility: hidden" i]'
)
_SURROUNDINGS = (
    "nav,aside,body>header,body>footer,[role=navigation],[role=banner],[role=contentinfo],[role=search]"
)
_BLOCKS = (
    "address,article,aside,blockquote,br,caption,dd,div,dl,dt,figcaption,figure,footer,form,h1,h2,h3,h4,h5,h6,"
    "header,hr,li,main,nav,ol,p,pre,section,table,tr,ul"
)
_BREAK, _HARD_SPACE = "\ufdd0", "\ufdd1"  # Noncharacters, which pages do not use.
_MAIN = ("main,[role=main]", "article")
_KEPT_ATTRIBUTES = frozenset({"href", "src", "alt", "title", "lang"})
_LINK_SCHEMES = frozenset({"http", "https", "mailto"})
_MAX_ORDERED_ITEMS = 1_000
_BLANKS = re.compile(r"[ \t\r\n\f\v]+")
_SPACES = re.compile(r"[ \t\r\f\v]{64,}")
_BLANK_LINES = re.compile(r"\n{3,}")


def main_content(html: str, base: str, format: Format, max_characters: int, seconds: float) -> str:  # noqa: A002
    """Return the page's title and main content, at most ``max_characters``, with a note if it was cut.

    ``base`` is the base URL of relative links. Raises TooMuchWork after ``seconds`` of processor time.
    Waiting time does not count, so a busy machine does not fail a harmless page.
    """
    deadline = time.thread_time() + seconds
    tree = LexborHTMLParser(bounded(html))
    title = _title(tree)
    node = _main(tree)
    if node is None:
        return cut(title, max_characters)
    if format == "text":
        return cut(_with_title(title, _text(node)), max_characters)
    clean = _clean(node, base, deadline)
    if format == "html":
        heading = f"<title>{_escaped(title)}</title>\n" if title else ""
        return cut(heading + clean, max_characters)
    return cut(_with_title(f"# {title}" if title else "", _markdown(clean, deadline)), max_characters)


def _title(tree: LexborHTMLParser) -> str:
    found = tree.css_first("title")
    return " ".join(found.text().split())[:500] if found is not None else ""


def _main(tree: LexborHTMLParser) -> LexborNode | None:
    """Return the node of the main content.

    It is a ``main`` or ``article`` element with at least a third of the text, else the body.
    """
    for node in tree.css(_NEVER_CONTENT):
        node.decompose()
    body = tree.body
    if body is None:
        return None
    for selector in _MAIN:
        marked = [(len(node.text(strip=True)), node) for node in tree.css(selector)[:50]]
        size, best = max(marked, key=lambda pair: pair[0], default=(0, None))
        if best is not None and size * 3 >= len(body.text(strip=True)):
            return best
    for node in body.css(_SURROUNDINGS):
        node.decompose()
    return body


def _text(node: LexborNode) -> str:
    """Return the node's text with one line per block. Text in ``pre`` keeps its lines and spaces."""
    for block in node.css("pre"):
        kept = block.text().replace("\n", _BREAK).replace(" ", _HARD_SPACE)
        block.inner_html = ""
        block.insert_child(kept)
    for block in node.css(_BLOCKS):
        block.insert_before(_BREAK)
        block.insert_after(_BREAK)
    for cell in node.css("td,th"):
        cell.insert_after(" ")
    lines = [line.strip(" ") for line in _BLANKS.sub(" ", node.text()).split(_BREAK)]
    return "\n".join(line for line in lines if line).replace(_HARD_SPACE, " ")


def _clean(node: LexborNode, base: str, deadline: float) -> str:
    """Return the node's HTML with absolute links and harmless attributes only."""
    for item in node.traverse():
        _check(deadline)
        for name, value in list(item.attributes.items()):
            link = _link(value or "", base) if name in ("href", "src") else value
            if name not in _KEPT_ATTRIBUTES or link is None:
                del item.attrs[name]
            elif link != value:
                item.attrs[name] = link
    return _SPACES.sub(" ", (node.inner_html if node.tag == "body" else node.html) or "")


def _link(value: str, base: str) -> str | None:
    """Return ``value`` as an absolute URL, or None if its scheme is not http, https or mailto."""
    try:
        link = urljoin(base, value.strip())
        return link if urlsplit(link).scheme in _LINK_SCHEMES else None
    except ValueError:
        return None


_Converter: Any = MarkdownConverter  # The type stub lacks the methods to override.


class _Markdown(_Converter):  # type: ignore[misc]
    """A markdownify converter that has a deadline and gives huge numbered lists bullets."""

    class Options:
        heading_style = ATX
        bullets = "-"
        escape_underscores = False
        escape_asterisks = False

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._deadline = deadline

    def process_element(self, node: Any, parent_tags: Any = None) -> str:
        converted = str(super().process_element(node, parent_tags=parent_tags))
        _check(self._deadline)
        return converted

    def convert_li(self, el: Any, text: str, parent_tags: Any) -> str:
        # The conversion of a numbered item visits every item before it, so a huge list gets bullets.
        if el.parent.name == "ol" and len(el.parent.contents) > _MAX_ORDERED_ITEMS:
            el.parent.name = "ul"
        return str(super().convert_li(el, text, parent_tags))


def _markdown(clean: str, deadline: float) -> str:
    return _BLANK_LINES.sub("\n\n", _Markdown(deadline).convert(clean)).strip()


def _check(deadline: float) -> None:
    if time.thread_time() > deadline:
        raise TooMuchWork


def _with_title(title: str, content: str) -> str:
    if not title or not content or content.startswith(title):
        return content or title
    return f"{title}\n\n{content}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, max_characters: int) -> str:
    """Return at most ``max_characters`` of ``text``, followed by a note if the text was cut."""
    if len(text) <= max_characters:
        return text
    return (
        f"{text[:max_characters].rstrip()}\n\n[Cut here: the page has more than {max_characters} characters.]"
    )
