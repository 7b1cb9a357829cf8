"""The documents on a phone."""

from __future__ import annotations

import json

from mcp_app.admin.search import documents
from tests.browser.conftest import Visit

# Cells drawn in more lines than they have words: some words are broken.
BROKEN = """() => [...document.querySelectorAll(".mcp-document :is(td, th)")].filter((cell) => {
  const words = cell.textContent.trim().split(/[\\s-]+/).length;
  const drawn = document.createRange();
  drawn.selectNodeContents(cell);
  const lines = drawn.getBoundingClientRect().height / parseFloat(getComputedStyle(cell).lineHeight);
  return Math.floor(lines) > words + 1;
}).map((cell) => cell.textContent.slice(0, 60))"""


def test_document_tables_break_no_words_on_a_phone(visit: Visit) -> None:
    visitor = visit(width=390)
    wrong, tables = {}, 0
    for name in documents.pages():
        page = visitor.goto(f"/find/documents/{name}")
        tables += page.locator(".mcp-document table").count()
        if broken := page.evaluate(BROKEN):
            wrong[name] = broken
    assert tables > 20
    assert not wrong, json.dumps(wrong, indent=1)
