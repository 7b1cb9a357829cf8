"""A toolset is added, counted and checked by keyboard alone, in every look."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser import axe
from tests.browser.conftest import Look, Visit, looks, picture
from tests.browser.hands import Keys
from tests.servers.live import LiveServer

# The rows of the site were stored without a new revision, so no process has loaded them.
LOAD = """
from mcp_app.catalogue.changes.services import save_prompt
save_prompt(actor=None, name="fresh", template="Hi", tags=["greeting"])
"""


def test_toolset_is_added_and_a_user_checked_by_keyboard_alone(visit: Visit, site: LiveServer) -> None:
    site.shell(LOAD)
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/toolset/")
    keys = Keys(page)
    keys.press(page.locator("#mcp-add-toolset"))
    keys.write(page.locator("#id_slug"), "team")
    keys.press(page.locator("a[href='#access']"))
    keys.choose(page.locator("#id_audience"), "everyone")
    keys.press(page.locator("a[href='#entries']"))
    total = page.locator("[data-picker-total]")
    expect(total).to_have_attribute("data-tokens", "0")
    keys.write(page.locator("#mcp-picker-search"), "fresh")
    echo = page.locator("input[value='prompt fresh']")
    expect(page.locator("[data-picker] tbody tr:visible")).to_have_count(1)
    keys.reach(echo)
    page.keyboard.press("Space")
    expect(total).to_have_attribute("data-tokens", echo.get_attribute("data-tokens") or "")
    for look in looks(page):
        examine(page, f"toolset-form-{look}", look)
    keys.press(page.locator("#mcp-toolset-form .mcp-primary"))
    expect(page.locator("tr[data-entry='prompt fresh']")).to_be_visible()
    keys.write(page.locator("#mcp-toolset-user"), "viewer")
    page.keyboard.press("Enter")
    expect(page.locator("[data-decision=yes]")).to_be_visible()
    for look in looks(page):
        examine(page, f"toolset-{look}", look)
    keys.press(page.locator(".mcp-buttons a[href$='/edit/']"))
    keys.press(page.locator("a[href='#entries']"))
    keys.write(page.locator("#id_excluded"), "prompt fresh")
    keys.reach(page.locator("input[value='prompt fresh']"))
    page.keyboard.press("Space")
    keys.press(page.locator("button[name=_draft]"))
    expect(page.locator("[data-lost='prompt fresh']")).to_be_visible()
    expect(page.locator("tr[data-entry='prompt fresh']")).to_be_visible()
    for look in looks(page):
        examine(page, f"toolset-draft-{look}", look)
    keys.press(page.locator("button[form=mcp-publish]"))
    expect(page.locator("tr[data-entry='prompt fresh']")).to_have_count(0)
    visitor.goto("/admin/mcp_app/toolset/")
    for look in looks(page):
        examine(page, f"toolset-list-{look}", look)
    assert visitor.trouble == []


def examine(page: Page, name: str, look: Look) -> None:
    """Check that the page fits and is accessible, and take its picture."""
    wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window, name
    assert axe.seen(page, look.rules) == [], name
    picture(page, name)
