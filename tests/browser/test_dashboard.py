"""The dashboard updates while it is open, without disturbing its reader."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import seen
from tests.browser.conftest import Visit, picture
from tests.servers.live import LiveServer, eventually

COUNT = """
from tests.samples.admin_seed import *
tally = RollupCells()
for _ in range(3000):
    tally.add(timezone.now().timestamp(), "tools/call", "{tool}", "ok", {ms})
rollups.write(tally)
"""


@pytest.fixture(autouse=True, scope="module")
def _recent_calls(site: LiveServer) -> None:
    """Count calls up to now: those of the site can be older than the selected periods."""
    site.shell("from tests.samples.admin_seed import *; count_calls(PERIODS['hour'])")


def test_dashboard_refreshes_without_losing_place_or_focus(visit: Visit, site: LiveServer) -> None:
    visitor = visit()
    page = visitor.page
    page.clock.install()
    visitor.goto("/admin/")
    summary = page.locator("details[data-keep=errors] summary")
    summary.click()
    before = page.locator("[data-part=at]").text_content()
    site.shell(COUNT.format(tool="newcomer", ms=3.0))
    page.clock.fast_forward(10_100)
    page.wait_for_selector("[data-part=tools] >> text=newcomer")
    assert page.locator("details[data-keep=errors]").get_attribute("open") is not None
    assert page.locator("details[data-keep=calls]").get_attribute("open") is None
    assert page.evaluate("document.activeElement.parentElement.dataset.keep") == "errors"
    assert page.locator("[data-stale]").is_hidden()

    def is_told_anew() -> bool:
        """Return the time in whole seconds of the server; a fast machine may need none for all this."""
        page.clock.fast_forward(10_100)
        return page.locator("[data-part=at]").text_content() != before

    eventually(is_told_anew)
    assert visitor.trouble == []


def test_hidden_tab_requests_nothing_and_refreshes_when_shown(visit: Visit, site: LiveServer) -> None:
    visitor = visit()
    page = visitor.page
    page.clock.install()
    visitor.goto("/admin/")
    page.evaluate("Object.defineProperty(document, 'hidden', {configurable: true, get: () => true})")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.fast_forward(120_000)
    site.shell(COUNT.format(tool="latecomer", ms=3.0))
    assert asked == []
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_selector("[data-part=tools] >> text=latecomer")
    assert len([url for url in asked if "/dashboard/" in url]) == 1
    assert visitor.trouble == []


def test_failed_refresh_is_marked_as_stale(visit: Visit) -> None:
    visitor = visit()
    page = visitor.page
    page.clock.install()
    visitor.goto("/admin/")
    page.route("**/dashboard/*", lambda route: route.fulfill(status=503, body="away"))
    page.clock.fast_forward(10_100)
    page.wait_for_selector("[data-stale]:not([hidden])")
    page.unroute("**/dashboard/*")
    page.clock.fast_forward(30_000)
    page.wait_for_selector("[data-stale][hidden]", state="attached")


def test_percentiles_below_a_millisecond_are_bounds(visit: Visit, site: LiveServer) -> None:
    site.shell(COUNT.format(tool="quick", ms=0.094))
    visitor = visit()
    for address in ("/admin/", "/admin/mcp_app/message/figures/"):
        page = visitor.goto(address)
        row = page.locator("tbody tr", has=page.get_by_role("rowheader", name="quick", exact=True))
        for name in ("p50", "p95"):
            expect(row.locator(f"[data-name={name}]")).to_have_text("<1 ms")
    assert visitor.trouble == []


def test_period_links_work_without_scripts(visit: Visit) -> None:
    visitor = visit(width=390, java_script_enabled=False)
    answer = visitor.page.goto(f"{visitor.base}/admin/?range=day")
    assert answer is not None
    assert answer.status == 200
    assert visitor.page.locator(".mcp-periods [aria-current]").text_content() == "Last day"
    assert visitor.page.locator("figure svg").count() == 3
    assert visitor.page.locator("figure table").count() == 3


def _shows(page: Page, minutes: int) -> None:
    """Assert that the page shows that many minutes, with as many calls as in the log."""
    chosen = page.locator(".mcp-periods [aria-current]")
    expect(chosen).to_have_text(re.compile(r"^(\S+ )?\d\d:\d\d to (\S+ )?\d\d:\d\d$"))
    expect(page.locator("figure").first.locator(".mcp-touch")).to_have_count(minutes)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_dragging_over_a_chart_selects_a_period(scheme: str, width: int, visit: Visit) -> None:
    visitor = visit(scheme=scheme, width=width)
    page = visitor.goto("/admin/")
    chart = page.locator("[data-brush]").first
    chart.scroll_into_view_if_needed()
    columns = chart.locator(".mcp-touch")
    boxes = [columns.nth(place).bounding_box() for place in (20, 39)]
    for box, move in zip(boxes, (page.mouse.down, page.mouse.up), strict=True):
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
        if move == page.mouse.up:
            picture(page, f"brush-{scheme}-{width}")
        move()
    page.wait_for_url("**/admin/?since=*")
    visitor.drawn()
    _shows(page, minutes=20)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert seen(page) == []
    tile = page.locator(".mcp-tile", has_text="Calls per minute")
    tile.locator("a").click()
    visitor.drawn()
    expect(page).to_have_url(re.compile("method=tools.*since="))
    assert visitor.trouble == []


def test_keyboard_selects_a_period_on_a_chart(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/")
    brush = page.get_by_role("slider", name="A time of Calls per minute")
    brush.focus()
    for key in ("ArrowLeft", "ArrowLeft", "Shift+ArrowLeft", "Shift+PageDown"):
        page.keyboard.press(key)
    expect(brush).to_have_attribute("aria-valuenow", "46")
    expect(brush).to_have_attribute("aria-valuetext", re.compile("Chosen together with those from"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/?since=*")
    visitor.drawn()
    _shows(page, minutes=12)
    assert visitor.trouble == []


def test_click_or_cancelled_selection_stays_on_the_page(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/")
    page.locator("[data-brush]").first.click()
    brush = page.get_by_role("slider").first
    brush.focus()
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    assert page.url == f"{visitor.base}/admin/"
    expect(page.locator(".mcp-brush[data-at]")).to_have_count(0)
    assert visitor.trouble == []


def test_refresh_keeps_a_chart_with_an_active_selection(visit: Visit, site: LiveServer) -> None:
    visitor = visit()
    page = visitor.page
    page.clock.install()
    visitor.goto("/admin/")
    page.get_by_role("slider").first.focus()
    page.keyboard.press("Shift+ArrowLeft")
    site.shell(COUNT.format(tool="meanwhile", ms=3.0))
    page.clock.fast_forward(10_100)
    page.wait_for_selector("[data-part=tools] >> text=meanwhile")
    expect(page.locator(".mcp-brush[data-at]")).to_have_count(1)
    page.keyboard.press("Escape")
    page.clock.fast_forward(10_100)
    expect(page.locator(".mcp-brush[data-at]")).to_have_count(0)
    expect(page.get_by_role("slider").first).to_be_focused()
    assert visitor.trouble == []


def test_period_selected_on_an_error_chart_links_the_log(visit: Visit, site: LiveServer) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/message/errors/?show=all")
    page.locator("#content a, main a").filter(has_text="web_scrape").first.click()
    visitor.drawn()
    page.get_by_role("slider").focus()
    page.keyboard.press("Shift+PageDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/message/?*since=*")
    visitor.drawn()
    expect(page.locator("#id_target, [name=target]").first).to_have_value("web_scrape")
    assert visitor.trouble == []
