"""A user connects an account at another server in a browser, a call uses it, and the user disconnects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser import axe
from tests.browser.conftest import Visit, looks, picture
from tests.browser.hands import Keys
from tests.servers.live import LiveServer
from tests.servers.login_server import LoginServer, login_server

ADD = """
from mcp_app.catalogue.upstreams import storing
storing.save_upstream(actor=None, name="tracker", url={url!r}, era="legacy", user_connections=True)
"""

CALL = """
from django.contrib.auth import get_user_model
from mcp_app.testing import call_tool
user = get_user_model().objects.get(username="root")
print(call_tool("tracker_whoami", stored=True, user=user)["content"][0]["text"])
"""


@pytest.fixture(scope="module")
def tracker(near: LiveServer) -> Iterator[LoginServer]:
    with login_server() as found:
        near.shell(ADD.format(url=found.url))
        yield found


def looked_at(page: Page, name: str) -> None:
    for look in looks(page):
        wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window, str(look)
        assert axe.seen(page, look.rules) == [], str(look)
        picture(page, f"{name}-{look}")


def test_user_connects_calls_and_disconnects_by_keyboard_alone(
    visit_near: Visit, near: LiveServer, tracker: LoginServer
) -> None:
    visitor = visit_near()
    page = visitor.goto("/connections/")
    keys, card = Keys(page), page.locator("[data-server=tracker]")
    expect(card).to_have_attribute("data-state", "missing")
    keys.press(card.get_by_role("button", name="Connect tracker"))
    expect(page.locator("#mcp-leave")).to_be_visible()
    looked_at(page, "connections-leave")
    keys.press(page.locator("#mcp-leave"))
    keys.press(page.locator("#allow"))
    expect(page.locator("#mcp-done")).to_be_visible()
    expect(card).to_have_attribute("data-state", "connected")
    assert "code" not in page.url
    looked_at(page, "connections")
    visitor.goto("/admin/mcp_app/upstream/")
    keys.press(page.get_by_role("link", name="tracker"))
    keys.press(page.locator("#mcp-read-tools"))
    keys.press(page.locator("tr[data-tool=whoami] input"))
    keys.press(page.locator("#mcp-save-drafts"))
    keys.press(page.locator("#mcp-publish-drafts"))
    expect(page.locator("#mcp-user-connections")).to_contain_text("1 user")
    looked_at(page, "connections-upstream")
    keys.press(page.locator("#mcp-user-connections a"))
    expect(page.locator("#result_list")).to_contain_text("connected")
    looked_at(page, "connections-admin")
    assert near.shell(CALL).strip() == "browser"
    visitor.goto("/connections/")
    keys.press(card.get_by_role("button", name="Disconnect tracker"))
    expect(card).to_have_attribute("data-state", "missing")
    assert [form["token_type_hint"] for form in tracker.forms_at("/revoke")] == ["refresh_token"]
    # The login is at another server, so its pages are requests to elsewhere.
    assert [each for each in visitor.trouble if tracker.origin not in each] == []
