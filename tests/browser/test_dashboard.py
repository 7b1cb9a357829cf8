"""The figures of the first page stay fresh while somebody looks, and take nothing from who reads them."""

from __future__ import annotations

from tests.browser.conftest import Visit
from tests.live import LiveServer

COUNT = """
from tests.admin_seed import *
tally = RollupCells()
for _ in range(3000):
    tally.add(timezone.now().timestamp(), "tools/call", "{tool}", "ok", 3.0)
rollups.write(tally)
"""


def test_figures_are_fetched_again_without_losing_place_or_focus(visit: Visit, site: LiveServer) -> None:
    visitor = visit()
    page = visitor.page
    page.clock.install()
    visitor.goto("/admin/")
    summary = page.locator("details[data-keep=errors] summary")
    summary.click()
    before = page.locator("[data-part=at]").text_content()
    site.shell(COUNT.format(tool="newcomer"))
    page.clock.fast_forward(10_100)
    page.wait_for_selector("[data-part=tools] >> text=newcomer")
    assert page.locator("details[data-keep=errors]").get_attribute("open") is not None
    assert page.locator("details[data-keep=calls]").get_attribute("open") is None
    assert page.evaluate("document.activeElement.parentElement.dataset.keep") == "errors"
    assert page.locator("[data-stale]").is_hidden()
    assert page.locator("[data-part=at]").text_content() != before
    assert visitor.trouble == []


def test_a_tab_that_nobody_sees_asks_for_nothing_and_one_seen_again_asks_at_once(
    visit: Visit, site: LiveServer
) -> None:
    visitor = visit()
    page = visitor.page
    page.clock.install()
    visitor.goto("/admin/")
    page.evaluate("Object.defineProperty(document, 'hidden', {configurable: true, get: () => true})")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.fast_forward(120_000)
    site.shell(COUNT.format(tool="latecomer"))
    assert asked == []
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_selector("[data-part=tools] >> text=latecomer")
    assert len(asked) == 1
    assert visitor.trouble == []


def test_figures_that_cannot_be_fetched_are_marked(visit: Visit) -> None:
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


def test_another_time_is_chosen_by_a_link_that_needs_no_script(visit: Visit) -> None:
    visitor = visit(width=390, java_script_enabled=False)
    answer = visitor.page.goto(f"{visitor.base}/admin/?range=day")
    assert answer is not None
    assert answer.status == 200
    assert visitor.page.locator(".mcp-periods [aria-current]").text_content() == "Last day"
    assert visitor.page.locator("figure svg").count() == 3
    assert visitor.page.locator("figure table").count() == 3
