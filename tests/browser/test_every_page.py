"""Every admin page, light and dark, wide and narrow: layout, escaping and accessibility."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.axe import COLOURS, RULES, seen
from tests.browser.conftest import LOOKS, Visit, looks, picture, widen
from tests.browser.own_pages import every_page
from tests.servers.live import LiveServer

COLOURS_OF_PAGE = """() => {
  const found = [...document.querySelectorAll("html, body, main, h1, h2, a, button, td")].map((each) => {
    const { color, backgroundColor } = getComputedStyle(each);
    return `${color} on ${backgroundColor}`;
  });
  return [...new Set(found)].sort();
}"""


@pytest.fixture(scope="module")
def pages(site: LiveServer) -> dict[str, str]:
    """Return every page by a short name."""
    return every_page(site)


def test_every_page_fits_and_is_accessible(visit: Visit, pages: dict[str, str]) -> None:
    visitor = visit()
    wrong: dict[str, list[str]] = {}
    for name, path in pages.items():
        page = visitor.goto(path)
        for look in looks(page):
            wide, window, pwned = page.evaluate(
                "[document.documentElement.scrollWidth, window.innerWidth, window.pwned ?? null]"
            )
            picture(page, f"{name}-{look}")
            assert wide <= window, f"{name} is {wide} px wide in a window of {window}"
            assert pwned is None, f"{name} executed stored text"
            assert visitor.trouble == [], name
            if found := seen(page, look.rules):
                wrong[f"{name} {look}"] = found
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.parametrize("name", ["index", "tool-code", "console-messages"])
def test_page_shown_in_dark_has_the_colours_of_a_page_loaded_in_dark(
    name: str, visit: Visit, pages: dict[str, str]
) -> None:
    loaded = visit(scheme="dark").goto(pages[name])
    changed = visit().goto(pages[name])
    light = changed.evaluate(COLOURS_OF_PAGE)
    dark = next(changed.evaluate(COLOURS_OF_PAGE) for look in looks(changed) if look.scheme == "dark")
    assert dark == loaded.evaluate(COLOURS_OF_PAGE) != light


@pytest.mark.parametrize(("scheme", "widths"), LOOKS)
def test_dialogs_are_accessible(
    scheme: str, widths: tuple[int, int], visit: Visit, pages: dict[str, str]
) -> None:
    visitor = visit(scheme=scheme, width=widths[0])
    wrong: dict[str, list[str]] = {}
    for place in ("index", "console-messages", "console-session"):
        widen(visitor.page, widths[0])
        page = visitor.goto(pages[place])
        for name, key in (("keys", "?"), ("anything", "Control+k")):
            page.keyboard.press(key)
            dialog = page.get_by_role("dialog")
            if name == "anything":
                dialog.get_by_role("searchbox").fill("e")
                expect(dialog.get_by_role("link").first).to_be_visible()
            for width in widths:
                widen(page, width)
                picture(page, f"{name}-over-{place}-{scheme}-{width}")
                if found := seen(page, RULES if scheme == "light" else COLOURS):
                    wrong[f"{name} over {place} at {width}"] = found
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
    assert visitor.trouble == []
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.parametrize(("scheme", "widths"), LOOKS)
def test_login_page_is_accessible(scheme: Any, widths: tuple[int, int], base: str, visit: Visit) -> None:
    visitor = visit(scheme=scheme)
    visitor.page.context.clear_cookies()
    page = visitor.goto("/admin/login/")
    page.fill("#id_username", "nobody")
    page.fill("#id_password", "wrong")
    page.click("[type=submit]")
    visitor.drawn()
    for width in widths:
        widen(page, width)
        picture(page, f"login-{scheme}-{width}")
        assert seen(page) == []
    assert visitor.trouble == []


@pytest.mark.parametrize(("scheme", "widths"), LOOKS)
def test_connect_page_is_accessible_and_copies(
    scheme: Any, widths: tuple[int, int], base: str, visit: Visit
) -> None:
    visitor = visit(scheme=scheme, permissions=["clipboard-read", "clipboard-write"])
    visitor.page.context.clear_cookies()
    page = visitor.goto("/connect/")
    for width in widths:
        widen(page, width)
        picture(page, f"connect-{scheme}-{width}")
        wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window, f"{wide} px wide in a window of {window}"
        assert seen(page) == []
    page.click("[data-copy=endpoint]")
    page.wait_for_selector("[data-copy=endpoint]:text-is('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == f"{base}/mcp"
    assert visitor.trouble == []


def test_connect_page_works_without_scripts(visit: Visit) -> None:
    visitor = visit(width=390, java_script_enabled=False)
    answer = visitor.page.goto(f"{visitor.base}/connect/")
    assert answer is not None
    assert answer.status == 200
    assert visitor.page.locator("pre").count() > 10
    assert visitor.page.locator("button:visible").count() == 0
    assert visitor.trouble == []


def test_csp_blocks_injected_inline_handlers(visit: Visit) -> None:
    page = visit().goto("/admin/")
    # No page violates the site's policy (above); this shows that a violation would be reported.
    with page.expect_console_message(lambda message: "Content Security Policy" in message.text):
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<svg onload=window.pwned=3>')")
    assert page.evaluate("window.pwned ?? null") is None


def test_viewer_sees_no_action_buttons(visit: Visit, pages: dict[str, str]) -> None:
    visitor = visit(role="viewer")
    for name in (
        "tool-list",
        "tool-drift",
        "apikey-own",
        "session-own",
        "session-list",
        "call-running",
        "call-own",
        "call-undecided",
        "approval-list",
    ):
        page = visitor.goto(pages[name])
        for selector in (
            ".mcp-switch:not(#mcp-live)",
            "[formaction]",
            ".mcp-danger",
            "[name=_save]",
            "[form=mcp-retry]",
        ):
            assert page.locator(selector).count() == 0, (name, selector)
    assert visitor.trouble == []
