"""The time zone of all pages, shown and chosen in their header, by the mouse and by the keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, picture
from tests.browser.hands import Keys, Mouse
from tests.servers.live import LiveServer

AT = "2026-03-02T01:30:05Z"
IN_UTC, IN_NEW_YORK = "2026-03-02 01:30:05", "2026-03-01 20:30:05"
# A stored message of that time, and no chosen zone.
BEGIN = f"""
from datetime import datetime
from mcp_app.models import Message, TimeZoneChoice
TimeZoneChoice.objects.all().delete()
told = {{"at": datetime.fromisoformat("{AT}"), "direction": "in", "kind": "request", "method": "ping"}}
made, _ = Message.objects.get_or_create(request_id="zoned", defaults=told)
print(made.pk)
"""


@pytest.fixture
def message(site: LiveServer) -> Iterator[int]:
    """Create the message; afterwards, restore the project's zone."""
    yield int(site.shell(BEGIN).strip().splitlines()[-1])
    site.shell(BEGIN)


def zone(page: Page) -> Any:
    return page.locator("summary", has_text="Times:")


@pytest.mark.parametrize("hands", [Mouse, Keys])
def test_browser_zone_is_chosen_and_reset_by_two_presses(
    hands: type[Mouse], visit: Visit, message: int
) -> None:
    visitor = visit(timezone_id="America/New_York")
    page = visitor.goto(f"/admin/mcp_app/message/{message}/change/")
    work = hands(page)
    expect(zone(page)).to_have_text("Times: UTC")
    expect(page.locator("body")).to_contain_text(IN_UTC)
    for words, label, shown in (
        ("America/New_York (this browser's)", "Times: America/New_York", IN_NEW_YORK),
        ("UTC", "Times: UTC", IN_UTC),
    ):
        work.presses = 0
        work.press(zone(page))
        work.press(page.locator(".mcp-zone").get_by_role("button", name=words, exact=True))
        assert work.presses == 2
        expect(zone(page)).to_have_text(label)
        expect(page.locator("body")).to_contain_text(shown)
        visitor.drawn()
    assert visitor.trouble == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_every_page_shows_the_zone_and_the_console_uses_it(
    scheme: str, width: int, visit: Visit, message: int
) -> None:
    visitor = visit(timezone_id="America/New_York", scheme=scheme, width=width)
    page = visitor.goto("/zone/")
    page.get_by_role("button", name="America/New_York (this browser's)").first.click()
    for path in ("/admin/", "/admin/mcp_app/tool/", "/admin/mcp_app/message/", "/admin/auth/user/", "/find/",
                 "/admin/mcp_app/message/figures/?by=time&range=week", "/zone/"):  # fmt: skip
        visitor.goto(path)
        expect(zone(page)).to_have_text("Times: America/New_York")
    zone(page).click()
    picture(page, f"zone-{scheme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    visitor.goto(
        "/admin/mcp_app/message/?live=1&q=id:zoned%20since:2026-03-01T20:30%20until:2026-03-01T20:30"
    )
    line = page.locator("#mcp-lines .mcp-line")
    expect(line.locator("time")).to_have_text(re.compile(r"^20:30:05\.\d{3}$"))
    expect(page.locator("#mcp-lines .mcp-gap")).to_have_text("2026-03-01")
    line.click()
    expect(page.locator("#mcp-detail")).to_contain_text("Time (America/New_York)")
    expect(page.locator("#mcp-detail")).to_contain_text(IN_NEW_YORK)
    picture(page, f"zone-console-{scheme}-{width}")
    assert visitor.trouble == []
