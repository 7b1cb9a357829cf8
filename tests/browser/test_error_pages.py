"""Pages for 403, 404 and 500 in both skins, for staff and for visitors: layout, accessibility, a way on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.axe import seen
from tests.browser.conftest import Visit, looks, opened_pages, picture, sign_in
from tests.servers.live import LiveServer

SETTINGS = {"skin": "tests.browser.error_settings", "plain": "tests.browser.plain_error_settings"}
NOBODY = {"cookies": [], "origins": []}


@pytest.fixture(scope="module", params=["skin", "plain"])
def skin(request: pytest.FixtureRequest) -> str:
    """Return the name of the skin."""
    return str(request.param)


@pytest.fixture(scope="module")
def server(skin: str) -> Iterator[LiveServer]:
    """Start a server with one of the skins and a page that fails."""
    with LiveServer(web_processes=1, settings=SETTINGS[skin], env={"DEMO": "off"}) as live:
        live.shell("from tests.samples.admin_seed import people; people()")
        yield live


@pytest.fixture(scope="module")
def open_here(chromium: Browser, server: LiveServer) -> Iterator[Visit]:
    """Return a factory of pages as staff without permissions, as the superuser and as a visitor."""
    base = f"http://127.0.0.1:{server.port}"
    roles = {role: sign_in(chromium, base, role) for role in ("root", "outsider")}
    with ExitStack() as stack:
        yield stack.enter_context(opened_pages(chromium, base, {**roles, "nobody": NOBODY}))


PAGES = {
    "400": ("root", "/admin/mcp_app/tool/?foo=bar", 400),
    "403": ("outsider", "/admin/auth/user/", 403),
    "404": ("outsider", "/admin/auth/nothing/", 404),
    "500": ("outsider", "/broken/", 500),
    "session": ("root", "/console/sessions/nope/", 404),
    "visitor-404": ("nobody", "/nothing/", 404),
    "visitor-500": ("nobody", "/broken/", 500),
}


def test_error_pages_fit_and_are_accessible(open_here: Visit, skin: str) -> None:
    wrong: dict[str, list[str]] = {}
    for name, (role, address, status) in PAGES.items():
        visitor = open_here(role)
        page = visitor.goto(address, status)
        for look in looks(page):
            picture(page, f"error-{skin}-{name}-{look}")
            wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            found = seen(page, look.rules) + ([f"{wide} px wide"] if wide > window else []) + visitor.trouble
            visitor.trouble.clear()
            if found:
                wrong[f"{name} {look}"] = found
    assert not wrong, json.dumps(wrong, indent=1)


def test_error_page_leads_home(open_here: Visit) -> None:
    visitor = open_here("outsider")
    page = visitor.goto("/admin/auth/user/", 403)
    expect(page.get_by_role("heading", name="Permission denied")).to_be_visible()
    expect(page.locator(".mcp-card")).to_contain_text("Can view user (auth.view_user)")
    page.locator(".mcp-card").get_by_role("link", name="Home").click()
    page.wait_for_url(f"{visitor.base}/admin/")
