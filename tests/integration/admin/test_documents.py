"""Documents in the global search: a word links to its section, for all staff."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from mcp_app.admin.search import documents
from mcp_app.admin.search.markdown import html, inline
from tests.integration.admin.conftest import ClientOf

pytestmark = pytest.mark.django_db
DOCS = Path(__file__).resolve().parents[3] / "docs"


def _found(client: Client, text: str) -> list[dict[str, Any]]:
    answer = client.get(reverse("mcp_find"), {"q": text, "format": "json"}).json()
    return [each for each in answer["found"] if each["kind"] == "document"]


def test_document_search_finds_the_section_with_most_matches(root: Client) -> None:
    first = _found(root, "OTEL")[0]
    assert (first["title"], first["note"]) == ("Traces", "Logs and traces")
    address, _, anchor = first["url"].partition("#")
    text = root.get(address).content.decode()
    section = text.partition(f'<section id="{anchor}">')[2].partition("</section>")[0]
    assert "<h2>Traces</h2>" in section
    assert "OTEL" in section


def test_heading_match_ranks_before_mentions(root: Client) -> None:
    titles = [each["title"] for each in _found(root, "stdio")]
    assert titles[0] == "stdio"
    assert len(titles) == 6
    assert _found(root, "Operations")[0]["title"] == "Operations"


def test_two_letters_match_headings_only(root: Client) -> None:
    assert all("up" in each["title"].lower() for each in _found(root, "up"))


def test_every_document_opens_with_unique_anchors(root: Client) -> None:
    assert documents.pages().keys() == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    for page in documents.pages():
        text = root.get(reverse("mcp_document", args=page.split("/"))).content.decode()
        anchors = re.findall(r'<section id="([^"]+)"', text)
        assert anchors, page
        assert len({*anchors}) == len(anchors), page


def test_document_links_point_to_existing_sections(root: Client) -> None:
    text = root.get(reverse("mcp_document", args=["operate", "upgrade.md"])).content.decode()
    article = text.partition("<article")[2].partition("</article>")[0]
    links = [link for link in re.findall(r'href="([^"]+)"', article) if not link.startswith("https:")]
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        page = (DOCS / "operate" / (path or "upgrade.md")).resolve().relative_to(DOCS).as_posix()
        assert not anchor or anchor in {each.anchor for each in documents.pages()[page]}, link


def test_document_pages_serve_staff_and_documents_only(client_of: ClientOf, client: Client) -> None:
    address = reverse("mcp_document", args=["operations.md"])
    outsider = client_of("outsider")
    assert outsider.get(address).status_code == 200
    assert outsider.post(address).status_code == 405
    assert client.get(address).status_code == 302
    for page in (
        "requirements.txt",
        "../README.md",
        "../mcp_app/conf.py",
        "pictures/bench.png",
        "no.md",
        "/",
    ):
        assert outsider.get(f"/find/documents/{page}").status_code in (301, 404), page


def test_installed_package_serves_its_own_documents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "mcp_app"
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(documents, "PACKAGE", package)
    monkeypatch.setattr(documents, "CHECKOUT", tmp_path / "docs")
    monkeypatch.setattr(documents, "INSTALLED", package / "documents")
    # A project with a copy of the package: its ``docs`` folder is not this package's.
    assert documents.folder() is None
    (package / "documents").mkdir(parents=True)
    assert documents.folder() == package / "documents"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a `<b>` and **b**", "a <code>&lt;b&gt;</code> and <b>b</b>"),
        ("[x](../y.md#z)", '<a href="../y.md#z">x</a>'),
        ("[`x`](y.md)", '<a href="y.md"><code>x</code></a>'),
        ("`[x](y.md)`", "<code>[x](y.md)</code>"),
        ("![a picture](pictures/x.png)", "a picture"),
        ("[x](javascript:alert(1))", "x)"),
    ],
)
def test_inline_markdown_renders_code_links_and_emphasis(text: str, shown: str) -> None:
    assert inline(text) == shown


def test_markdown_renders_tables_code_blocks_and_lists() -> None:
    text = (
        "One\nline.\n\n| a | b |\n|---|---|\n| `c` | d |\n\n```\n# no heading <\n```\n\n- one\n  item\n- two"
    )
    shown = html(text)
    assert '<p class="mcp-prose">One line.</p>' in shown
    assert '<th scope="col">a</th><th scope="col">b</th>' in shown
    assert "<tr><td><code>c</code></td><td>d</td></tr>" in shown
    assert '<pre class="mcp-pre" tabindex="0"># no heading &lt;\n</pre>' in shown
    assert '<p class="mcp-prose">- one item\n- two</p>' in shown
