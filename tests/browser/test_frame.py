"""The frame of the admin's pages: skip link, landmarks and sidebar, with the skin and without it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Visit, Visitor, opened_pages, sign_in
from tests.servers.live import LiveServer

PAGES = (
    "/admin/",
    "/admin/mcp_app/tool/",
    "/admin/mcp_app/tool/add/",
    "/admin/mcp_app/approval/",
    "/admin/auth/group/",
    "/admin/auth/user/add/",
    "/admin/mcp_app/message/?live=1",
    "/notifications/",
    "/find/",
)
# Pages that are not the list of a model.
PLACES = (
    "/find/",
    "/admin/mcp_app/message/?live=1",
    "/admin/mcp_app/message/figures/",
    "/admin/mcp_app/message/errors/",
    "/connect/",
    "/notifications/",
    "/api/docs/",
)
SKIN = "mcpsite.settings"
PLAIN = "tests.browser.plain_settings"
# The main part of the page has the focused element, after the header.
REACHED = """() => {
  const { activeElement } = document;
  return activeElement !== document.body && document.querySelector("#content").contains(activeElement);
}"""
# As after a load without a focused field.
FROM_THE_TOP = """() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
}"""
SKIPS = """() => document.activeElement.matches("a[href^='#content']")"""
LANDMARKS = """() => ({
  main: document.querySelectorAll("main, [role=main]").length,
  unnamed: [...document.querySelectorAll("nav:not([aria-label], [aria-labelledby])")]
    .map((nav) => nav.outerHTML),
})"""
# Links of the sidebar, and whether each is below its end.
SIDEBAR = """() => {
  const end = document.querySelector("#nav-sidebar-apps")?.getBoundingClientRect().bottom;
  return [...document.querySelectorAll("#nav-sidebar a[href], #content-main th a")]
    .map((link) => [link.getAttribute("href"), link.getBoundingClientRect().bottom > end]);
}"""


@pytest.fixture(scope="module", params=[SKIN, PLAIN], ids=["skin", "plain"])
def visitor(request: pytest.FixtureRequest, chromium: Browser) -> Iterator[Visitor]:
    """Start a server in one of the looks, and open a page as the superuser."""
    with LiveServer(web_processes=1, settings=request.param, env={"DEMO": "off"}) as server:
        server.shell("from tests.samples.admin_seed import people; people()")
        base = f"http://127.0.0.1:{server.port}"
        with opened_pages(chromium, base, {"root": sign_in(chromium, base, "root")}) as start:
            yield start()


def test_first_control_of_the_content_is_three_tabs_away(visitor: Visitor) -> None:
    wrong = []
    for path in PAGES:
        page = visitor.goto(path)
        page.evaluate(FROM_THE_TOP)
        page.keyboard.press("Tab")
        skips = page.evaluate(SKIPS)
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        if not (skips and page.evaluate(REACHED)):
            wrong.append(f"{path}: {page.evaluate('document.activeElement.outerHTML')[:200]}")
    assert not wrong, "\n".join(wrong)
    assert visitor.trouble == []


def test_each_page_has_one_main_part_and_named_navigations(visitor: Visitor) -> None:
    found = {path: visitor.goto(path).evaluate(LANDMARKS) for path in PAGES}
    wrong = {path: each for path, each in found.items() if each != {"main": 1, "unnamed": []}}
    assert not wrong, json.dumps(wrong, indent=1)


def test_titles_of_tabs_are_different(visitor: Visitor) -> None:
    titles = [visitor.goto(path).title() for path in PAGES]
    assert len(set(titles)) == len(PAGES), titles


def test_skin_sidebar_fits_a_small_window(visit: Visit) -> None:
    links = visit().goto("/notifications/").evaluate(SIDEBAR)
    assert len(links) > 12
    assert [href for href, is_below in links if is_below] == []


@pytest.mark.parametrize("path", ["/admin/", "/admin/auth/group/"])
def test_first_page_and_sidebar_link_pages_without_a_model(path: str, visitor: Visitor) -> None:
    links = {href for href, _ in visitor.goto(path).evaluate(SIDEBAR)}
    assert set(PLACES) <= links
