"""Every list of the admin fits its page, without horizontal scrolling.

Axe judges the lists in ``test_every_page.py`` and ``test_accessible.py``.
"""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.browser.conftest import Visit, picture, widen
from tests.servers.live import LiveServer

# The width of a small laptop, and common widths above it.
WIDTH: Final = 1280
WIDER: Final = (1366, 1440, 1536, 1600, 1920)
LISTS: Final = """
import json
from django.contrib import admin
from django.urls import reverse
print(json.dumps([reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
                  for model in admin.site._registry]))
"""
# Times are as wide as they become, however old the rows of this test are.
WIDEST: Final = """() => {
  for (const time of document.querySelectorAll("#changelist .mcp-time")) {
    if (time.textContent.endsWith(" ago")) time.textContent = "59 min ago";
  }
}"""
# Elements with more content than they show, which need horizontal scrolling.
SCROLLING: Final = """() => [document.documentElement, ...document.querySelectorAll("#content *, #main *")]
  .filter((node) => node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0)
  .filter((node) => node === document.documentElement || /auto|scroll/.test(getComputedStyle(node).overflowX))
  .map((node) => `${node.tagName}.${node.className}: ${node.scrollWidth} px in ${node.clientWidth}`)"""


@pytest.fixture(scope="module")
def lists(site: LiveServer) -> list[str]:
    """Return the addresses of all lists."""
    found: list[str] = json.loads(site.shell(LISTS).strip().splitlines()[-1])
    assert len(found) > 12
    return found


def test_admin_lists_do_not_scroll_horizontally(visit: Visit, lists: list[str]) -> None:
    visitor = visit(width=WIDTH)
    wrong: dict[str, list[str]] = {}
    for address in lists:
        widen(visitor.page, WIDTH)
        page = visitor.goto(address)
        name = "-".join(address.split("/")[3:-1])
        page.evaluate(WIDEST)
        picture(page, f"list-{name}-light-{WIDTH}")
        found = page.evaluate(SCROLLING) + visitor.trouble
        # Wider screens leave more room for texts, but not unlimited room.
        for width in WIDER:
            widen(page, width)
            found += [f"at {width}: {each}" for each in page.evaluate(SCROLLING)]
        visitor.trouble.clear()
        if found:
            wrong[address] = found
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.parametrize("query", ["", "?live=1"])
def test_search_help_of_the_log_fits_its_page(visit: Visit, query: str) -> None:
    visitor = visit(width=WIDTH)
    page = visitor.goto(f"/admin/mcp_app/message/{query}")
    page.locator(".mcp-help > summary").click()
    for width in (1024, WIDTH, *WIDER):
        widen(page, width)
        assert page.evaluate(SCROLLING) == [], width
        # The corners of the box are visible, and no text is wider than its place.
        shown = page.evaluate("""() => {
          const box = document.querySelector(".mcp-help > .mcp-menu-box");
          const { left, right, top } = box.getBoundingClientRect();
          const at = (x) => box.contains(document.elementFromPoint(x, top + 6));
          const isCut = (each) => each.clientWidth && each.scrollWidth > each.clientWidth + 1;
          const cut = [box, ...box.querySelectorAll("*")].filter(isCut);
          return [at(left + 6), at(right - 6), cut.map((each) => each.textContent.slice(0, 60))];
        }""")
        assert shown == [True, True, []], width
    picture(page, f"log-search-help{query.replace('?', '-').replace('=', '-')}-light-{WIDER[-1]}")
