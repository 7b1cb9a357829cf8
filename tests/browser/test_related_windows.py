"""Related objects are created in a separate window and selected in the form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.axe import seen
from tests.browser.conftest import Visit, Visitor, opened_pages, picture, sign_in
from tests.browser.hands import Keys, Mouse
from tests.samples.admin_seed import PASSWORD
from tests.servers.live import LiveServer

VIEWER: Final = """
from django.contrib.auth import get_user_model
viewer = get_user_model().objects.get(username="viewer")
"""


@pytest.fixture(scope="module", params=["skin", "plain"])
def server(request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    """Start a server with the skin, and one without."""
    more: dict[str, Any] = {"settings": "tests.browser.plain_settings"} if request.param == "plain" else {}
    with LiveServer(web_processes=1, env={"DEMO": "off"}, **more) as live:
        live.shell("from tests.samples.admin_seed import people; people()")
        yield live
        assert live.trouble() == []


@pytest.fixture(scope="module")
def open_here(chromium: Browser, server: LiveServer) -> Iterator[Visit]:
    """Return a factory of pages as the superuser."""
    base = f"http://127.0.0.1:{server.port}"
    with opened_pages(chromium, base, {"root": sign_in(chromium, base, "root")}) as start:
        yield start


@pytest.fixture(params=[Mouse, Keys], ids=lambda hands: hands.name)
def hands(request: pytest.FixtureRequest) -> type[Mouse]:
    """Return the mouse, and the keyboard alone."""
    found: type[Mouse] = request.param
    return found


def opened_by(link: Locator, at: Mouse, visitor: Visitor) -> Visitor:
    """Open the window of a link, and check its accessibility."""
    with visitor.page.expect_popup() as opened:
        at.press(link)
    window = Visitor(opened.value, visitor.base)
    window.drawn()
    # Django's own user pages are unchanged.
    assert visitor.page.locator("#nav-sidebar").count() or seen(window.page) == []
    return window


def save(window: Visitor, at: Mouse) -> None:
    """Save the form of the window, which closes automatically."""
    with window.page.expect_event("close"):
        at.press(window.page.locator("[name=_save]"))
    assert window.trouble == []


def said(server: LiveServer, code: str) -> str:
    """Return the last line printed by Python code in the installation."""
    return server.shell(code).strip().splitlines()[-1]


def chosen(page: Page, field: str) -> Locator:
    return page.locator(f"#id_{field} option:checked")


def test_user_created_in_a_window_is_selected_for_the_key(open_here: Visit, hands: type[Mouse]) -> None:
    visitor = open_here()
    page = visitor.goto("/admin/mcp_app/apikey/add/")
    at, name = hands(page), f"made-by-{hands.name}"
    window = opened_by(page.get_by_role("link", name="New user"), at, visitor)
    picture(window.page, f"window-user-{hands.name}")
    there = hands(window.page)
    there.write(window.page.locator("#id_username"), name)
    there.write(window.page.locator("#id_password1"), PASSWORD)
    there.write(window.page.locator("#id_password2"), PASSWORD)
    save(window, there)
    expect(chosen(page, "user")).to_have_text(name)
    at.write(page.locator("#id_name"), "desk")
    at.press(page.locator("[name=_save]"))
    expect(page.locator("#mcp-secret")).to_contain_text("mcp_")
    expect(page.locator("body")).to_contain_text(f"Key “desk” of {name}")
    assert visitor.trouble == []


def test_group_created_in_a_window_restricts_the_entry(open_here: Visit, hands: type[Mouse]) -> None:
    visitor = open_here()
    page = visitor.goto("/admin/mcp_app/prompt/add/")
    at, name = hands(page), f"Group by {hands.name}"
    text, access = (page.locator(f"[data-tabs] a[href='#{tab}']") for tab in ("text", "access"))
    at.press(access)
    window = opened_by(page.get_by_role("link", name="New group"), at, visitor)
    picture(window.page, f"window-group-{hands.name}")
    there = hands(window.page)
    there.write(window.page.locator("#id_name"), name)
    save(window, there)
    expect(chosen(page, "permission")).to_have_text(name)
    at.press(text)
    at.write(page.locator("#id_name"), f"greet_{hands.name}")
    at.write(page.locator("#id_template"), "Hello.")
    at.press(page.locator("[name=_save]"))
    row = page.locator("#result_list tr", has_text=f"greet_{hands.name}")
    expect(row).to_contain_text(f"members of {name}")
    assert visitor.trouble == []


def test_invalid_window_form_shows_its_error_and_selects_nothing(
    open_here: Visit, hands: type[Mouse]
) -> None:
    visitor = open_here()
    page = visitor.goto("/admin/mcp_app/apikey/add/")
    window = opened_by(page.get_by_role("link", name="New user"), hands(page), visitor)
    there = hands(window.page)
    there.write(window.page.locator("#id_username"), "root")
    there.press(window.page.locator("[name=_save]"))
    expect(window.page.locator("body")).to_contain_text("already exists")
    window.page.close()
    expect(page.locator("#id_user")).to_have_value("")
    assert visitor.trouble == []


def test_group_created_in_a_window_is_added_to_the_user(
    open_here: Visit, server: LiveServer, hands: type[Mouse]
) -> None:
    visitor = open_here()
    page = visitor.goto(f"/admin/auth/user/{said(server, VIEWER + 'print(viewer.pk)')}/change/")
    at, name = hands(page), f"Team by {hands.name}"
    link = page.locator("#add_id_groups")
    assert link.get_attribute("title") == "Add another group" or link.inner_text() == "New group"
    window = opened_by(link, at, visitor)
    there = hands(window.page)
    there.write(window.page.locator("#id_name"), name)
    save(window, there)
    expect(page.locator("#id_groups_to, #id_groups")).to_contain_text(name)
    at.press(page.locator("[name=_save]"))
    expect(page.locator("body")).to_contain_text("was changed successfully")
    assert said(server, VIEWER + "print(viewer.groups.get())") == name
    said(server, VIEWER + "print(viewer.groups.clear())")
    assert visitor.trouble == []
