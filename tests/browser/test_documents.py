"""The documents are read on a telephone as well."""

from __future__ import annotations

from tests.browser.axe import seen
from tests.browser.conftest import Visit, picture

# Words of cells that are drawn in more lines than there are words: some are broken.
BROKEN = """() => [...document.querySelectorAll(".mcp-document td, .mcp-document th")].filter((cell) => {
  const words = cell.textContent.trim().split(/[\\s\\u2010-]+/).length;
  const drawn = document.createRange();
  drawn.selectNodeContents(cell);
  const lines = drawn.getBoundingClientRect().height / parseFloat(getComputedStyle(cell).lineHeight);
  return Math.floor(lines) > words + 1;
}).map((cell) => cell.textContent.slice(0, 60))"""


def test_no_table_of_a_document_breaks_its_words_on_a_telephone(visit: Visit) -> None:
    visitor = visit(width=390)
    page = visitor.goto("/find/documents/roles.md")
    assert page.locator(".mcp-document table").count() > 0
    assert page.evaluate(BROKEN) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    picture(page, "document-tables-narrow-light-390")
    assert seen(page) == []
