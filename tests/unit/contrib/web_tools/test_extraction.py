"""Extraction of page content in each format; hostile markup costs bounded time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.contrib.web_tools.extraction import TooMuchWork, main_content
from mcp_app.contrib.web_tools.markup import MAX_DEPTH, MAX_TAGS, bounded

BASE = "https://example.com/a/b"

PAGE = """<!DOCTYPE html><html><head><title> The
 page </title><style>p{color:red}</style></head><body><header>Site header</header>
<nav><a href="/">Home</a></nav><main><h1>Welcome</h1><p>Hello <b>big</b> <em>world</em>, see
<a href="../x?y=1&amp;z=2" onclick="evil()">this</a> &lt;now&gt;.</p>
<pre><code>def f():
    return  1</code></pre><ul><li>one<li>two<ul><li>nested</ul></ul><ol><li>a</li><li>b</li></ol>
<table><tr><th>A<th>B<tr><td>1<td>2</table><img src="i.png" alt="pic" onerror="evil()">
<div style="display: NONE">secret</div><p hidden>secret</p><p aria-hidden="true">secret</p>
<script>secret()</script><noscript>secret</noscript><template>secret</template><!-- secret -->
<button>secret</button><iframe src="x">secret</iframe><svg><text>secret</text></svg></main>
<aside>Related</aside><footer>Imprint</footer></body></html>"""


def extract(html: str, form: str = "markdown", max_characters: int = 100_000, seconds: float = 5.0) -> str:
    return main_content(html, BASE, form, max_characters, seconds)


def test_markdown_keeps_headings_links_lists_code_tables_and_images() -> None:
    assert extract(PAGE) == (
        "# The page\n\n# Welcome\n\nHello **big** *world*, see\n[this](https://example.com/x?y=1&z=2) <now>."
        "\n\n```\ndef f():\n    return  1\n```\n\n- one\n- two\n  - nested\n\n1. a\n2. b\n\n"
        "| A | B |\n| --- | --- |\n| 1 | 2 |\n\n![pic](https://example.com/a/i.png)"
    )


def test_text_has_one_line_per_block_and_unchanged_code() -> None:
    assert extract(PAGE, "text").splitlines() == [
        "The page",
        "",
        "Welcome",
        "Hello big world, see this <now>.",
        "def f():",
        "    return  1",
        "one",
        "two",
        "nested",
        "a",
        "b",
        "A B",
        "1 2",
    ]


def test_html_is_clean_markup_with_absolute_links() -> None:
    html = extract(PAGE, "html")
    assert html.startswith("<title>The page</title>\n<main><h1>Welcome</h1>")
    assert '<a href="https://example.com/x?y=1&amp;z=2">this</a>' in html
    assert '<img src="https://example.com/a/i.png" alt="pic">' in html


@pytest.mark.parametrize("form", ["markdown", "text", "html"])
def test_hidden_active_and_surrounding_parts_are_removed(form: str) -> None:
    content = extract(PAGE, form)
    for left_out in ("secret", "evil", "color:red", "Home", "Site header", "Related", "Imprint", "style="):
        assert left_out not in content


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        " java\nscript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "&#106;avascript:alert(1)",
        "java\tscript:x",
        "http://[broken",
    ],
)
@pytest.mark.parametrize("form", ["markdown", "html"])
def test_unsafe_link_target_is_dropped(link: str, form: str) -> None:
    content = extract(f'<p><a href="{link}">go</a><img src="{link}" alt="pic"></p>', form)
    assert "go" in content
    for part in ("script:", "data:", "file:", "href", "src", "broken"):
        assert part not in content.lower()


def test_short_article_is_not_taken_for_main_content() -> None:
    html = "<body><article>teaser</article><p>" + "The story itself. " * 50 + "</p><nav>menu</nav></body>"
    content = extract(html)
    assert "The story itself." in content
    assert "menu" not in content


def test_longest_article_is_taken() -> None:
    html = f"<article>short</article><article><p>{'long story ' * 40}</p></article>"
    assert "short" not in extract(html)


def test_title_is_not_repeated_and_may_be_missing() -> None:
    assert extract("<title>Same</title><h1>Same</h1><p>text") == "# Same\n\ntext"
    assert extract("<p>only text") == "only text"
    assert extract("<title>only title</title>", "text") == "only title"
    assert extract("") == ""


def test_long_page_is_truncated_with_note() -> None:
    content = extract("<p>" + "word " * 1_000, max_characters=100)
    assert content.startswith("word word")
    assert content.endswith("[Cut here: the page has more than 100 characters.]")
    assert len(content) < 200


def test_huge_numbered_list_keeps_items() -> None:
    content = extract("<ol>" + "".join(f"<li>item {number}" for number in range(2_000)) + "</ol>")
    assert "item 1999" in content


LARGE, SMALL = 150_000, 10_000


def up_to(piece: str, size: int = LARGE) -> str:
    return piece * (size // len(piece))


def hostile(size: int) -> dict[str, str]:
    """Return markup of about that many characters, keyed by its kind of attack."""
    return {
        "deep": up_to("<div>", size),
        "deep with text": up_to("<div>x", size),
        "deep lists": "<ul><li>" * 48 + up_to("text<br>", size),
        "deep quotes": "<blockquote>" * 90 + up_to("text<br>", size),
        "deep tables": up_to("<table><tr><td>", size),
        "unclosed paragraphs in spans": up_to("<span>", size) + up_to("<p>", size),
        "stray end tags": up_to("<span>", size) + up_to("</x></p>", size),
        "formatting reopened": "<p>"
        + "".join(f"<b a={i}>" for i in range(size // 30))
        + up_to("</p><p>x", size),
        "formatting stacked": "<p>" + "<b><i><u><s><em>" * 19 + up_to("<div>x</div><p>y</p>", size),
        "links nested": up_to("<a><div>", size),
        "foster parents": "<table>" + up_to("x<b>", size),
        "foster rows": "<table>" + up_to("<tr>xxxx", size),
        "many attributes": "<p " + " ".join(f"a{i}=1" for i in range(size * 2 // 15)) + ">x",
        "many wanted attributes": up_to("<p class=a id=b href=c title=d>", size),
        "many rows": "<table>" + up_to("<tr><td>a<td>b", size),
        "one wide row": "<table><tr>" + up_to("<td>x", size),
        "giant spans": '<table><tr><td colspan="999999999" rowspan="999999999">x</table>',
        "giant start": '<ol start="99999999999999999999"><li>x</ol>',
        "spaces": "<p>a" + " " * size + "b",
        "spaces as references": "<p>a" + up_to("&#32;", size) + "b",
        "spaces in code": "<pre>a" + " " * size + "b</pre>",
        "line ends": "<p>a" + up_to("&#10;", size) + "b",
        "half tags": up_to("<b ", size),
        "angle brackets": up_to("<", size),
        "open quotes": up_to('<a "', size),
        "open quotes, closed once": up_to('<a "', size) + ">",
        "mixed quotes": up_to("<a '\">", size),
        "open comments": up_to("<!--", size),
        "open scripts": up_to("<script>", size),
        "open buttons": up_to("<button>", size),
        "closed scripts": up_to("<script></script>", size),
        "backticks": "<code>" + "`" * size + "</code>",
        "references": up_to("&amp;&notin;&#x10FFFF;&#0;&#xD800;", size),
        "nul bytes": up_to("<\0p\0>\0", size),
        "articles": up_to("<article>x</article>", size),
        "heads": up_to("<title>x</title>", size),
    }


@pytest.mark.parametrize("form", ["markdown", "text", "html"])
@pytest.mark.parametrize("size", [SMALL, pytest.param(LARGE, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", hostile(1))
def test_hostile_markup_is_converted_or_abandoned_in_bounded_time(name: str, size: int, form: str) -> None:
    started = time.thread_time()
    try:
        content = extract(hostile(size)[name], form, max_characters=10_000, seconds=2.0)
    except TooMuchWork:
        content = ""
    assert time.thread_time() - started < 6
    assert len(content) < 10_200


def test_conversion_stops_at_deadline() -> None:
    with pytest.raises(TooMuchWork):
        extract(up_to("<p>x</p>"), seconds=0.0)


def test_nesting_and_tag_count_are_bounded() -> None:
    deep = bounded("<div>" * 1_000 + "end")
    assert (deep.count("<div>"), deep.count("</div>"), "end" in deep) == (MAX_DEPTH, MAX_DEPTH, True)
    assert bounded("<br>" * (MAX_TAGS + 10)).count("<br>") == MAX_TAGS


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>a<p>b", "<p>a</p><p>b</p>"),
        ("<ul><li>a<li>b</ul>c", "<ul><li>a</li><li>b</li></ul>c"),
        (
            "<table><tr><td>a<td>b<tr><td>c</table>",
            "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>",
        ),
        ("<dl><dt>a<dd>b<dt>c</dl>", "<dl><dt>a</dt><dd>b</dd><dt>c</dt></dl>"),
        ("<B CLASS=x>a</B>", "<b>a</b>"),
        ("<p onclick=x Title='t' title=u>a", "<p title='t'>a</p>"),
        ('<p data-x="a>b" id=c>d', "<p id=c>d</p>"),
        ("<p hidden>a", "<p hidden>a</p>"),
        ("a < b && c > d", "a &lt; b && c > d"),
        ("1 <2> 3", "1 &lt;2> 3"),
        ("</div>a</p>", "a"),
        ("<div><span></div>a", "<div><span></span></div>a"),
        ("a<script>b</p></script >c", "ac"),
        ("a<script>b", "a"),
        ("a<button>b", "ab"),
        ("a<!-- <p> -->b<!doctype x><?php ?>c", "abc"),
        ("a<x-y>b</x-y>", "ab"),
        ("a<p", "a"),
    ],
)
def test_markup_is_balanced_and_stripped(html: str, expected: str) -> None:
    assert bounded(html) == expected


@given(
    st.text(alphabet="<>/!-=\"' abdivpscrt&;#\0\n", max_size=200),
    st.sampled_from(["markdown", "text", "html"]),
)
def test_arbitrary_text_is_converted_without_script_tag(html: str, form: str) -> None:
    content = extract(html, form)
    assert "<script" not in content
