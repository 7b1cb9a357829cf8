"""Notifications in the browser: enabled by a button, shown once, and linked to the call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import seen
from tests.browser.conftest import Visit, opened_pages, picture, sign_in
from tests.servers.live import LiveServer

PAGE = "/notifications/"
# A browser with a user: it asks and shows. Headless browsers have no user to ask.
PERSON = """
window.shown = [];
window.Notification = class extends EventTarget {
  static permission = localStorage.getItem("permission") || "default";
  static async requestPermission() {
    localStorage.setItem("permission", "granted");
    return Notification.permission = "granted";
  }
  constructor(title, options) {
    super();
    window.shown.push({ title, ...options, click: () => this.dispatchEvent(new Event("click")) });
  }
};
"""
WAITS = """
from tests.samples.admin_seed import undecided_call
from mcp_app.models import Session
from django.utils import timezone
now = timezone.now()
Session.objects.get_or_create(pk="e" * 32, defaults={"created_at": now, "last_seen_at": now})
print(undecided_call("e" * 32, %d, tool="burn", arguments='{"all": "hunter2"}').pk)
"""


@pytest.fixture(scope="module")
def server(two_processes: LiveServer) -> LiveServer:
    """Return a server with separate processes for browsers and clients."""
    return two_processes


@pytest.fixture(scope="module")
def open_page(chromium: Browser, server: LiveServer) -> Iterator[Visit]:
    """Return a factory of logged-in pages."""
    base = f"http://127.0.0.1:{server.ports[0]}"
    with opened_pages(chromium, base, {"root": sign_in(chromium, base, "root")}) as start:
        yield start


def _shown(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate("window.shown")
    return found


def test_open_page_notifies_of_a_pending_call_once(server: LiveServer, open_page: Visit) -> None:
    visitor = open_page()
    visitor.page.context.add_init_script(PERSON)
    page = visitor.goto(PAGE)
    page.locator("[data-way=browser]").get_by_label("Calls waiting for approval").check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("body")).to_contain_text("Notification settings saved.")
    assert page.evaluate("Notification.permission") == "default"
    page.get_by_role("button", name="Allow notifications in this browser").click()
    expect(page.locator("[data-permission-words]")).to_have_text("On in this browser.")
    visitor.goto("/admin/mcp_app/tool/")
    other = page.context.new_page()
    other.goto(page.url)
    call = server.shell(WAITS % 1).strip()
    page.wait_for_function("window.shown.length === 1")
    [told] = _shown(page)
    assert told["body"].endswith("requests approval to run burn")
    assert told["tag"] == f"call:{call}"
    # One page of a browser notifies, and only once.
    assert _shown(other) == []
    other.close()
    page.evaluate("window.shown[0].click()")
    page.wait_for_url(f"**/admin/mcp_app/call/{call}/change/")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    assert visitor.trouble == []
    server.shell("from mcp_app.models import Call; Call.objects.all().delete()")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_notifications_page_fits_and_is_accessible(scheme: str, width: int, open_page: Visit) -> None:
    visitor = open_page(scheme=scheme, width=width)
    page = visitor.goto(PAGE)
    visitor.drawn()
    picture(page, f"notifications-{scheme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert seen(page) == []
    assert visitor.trouble == []


def test_test_notification_is_sent_by_its_button_only(open_page: Visit) -> None:
    visitor = open_page()
    page = visitor.goto(PAGE)
    page.locator("#mcp-webhook").fill("https://hooks.invalid/")
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_contain_text("Copy the secret now")
    page.get_by_role("button", name="Send test webhook").click()
    visitor.drawn()
    expect(page.locator("body")).to_contain_text("The test was not sent.")
    expect(page.locator("[data-way=webhook]")).to_contain_text("The latest notification failed")
    picture(page, "notifications-test")
    assert seen(page) == []
    assert visitor.trouble == []


def test_sidebar_box_opens_the_global_search(open_page: Visit) -> None:
    visitor = open_page()
    page = visitor.goto("/admin/")
    page.locator("[data-anything]:visible").click()
    page.keyboard.type("approvals")
    dialog = page.get_by_role("dialog", name="Search", exact=True)
    expect(dialog.get_by_role("link", name="page Approvals")).to_be_visible()
    picture(page, "side-bar-search")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/mcp_app/approval/")
    visitor.drawn()
    assert visitor.trouble == []
