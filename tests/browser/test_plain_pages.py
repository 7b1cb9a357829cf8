"""The project's pages in Django's own admin, for projects without Unfold: layout and accessibility."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.axe import seen
from tests.browser.conftest import Visit, looks, opened_pages, picture, sign_in
from tests.browser.own_pages import every_page
from tests.browser.test_lists_fit import SCROLLING
from tests.servers.live import LiveServer

# One page of each shape; Django's own user pages are unchanged.
SHAPES = (
    *("index", "errors", "error-own", "figures-tool", "doctor", "draft-list", "auditevent-list"),
    *("tool-list", "tool-code", "tool-history", "tool-bench", "tool-callers", "tool-import", "tool-deleted"),
    *("tool-http", "credential-list", "credential-add", "limit-list", "limit-add"),
    *(
        "prompt-add",
        "resource-own",
        "apikey-list",
        "apikey-add",
        "session-own",
        "message-list",
        "message-own",
    ),
    *("call-list", "call-own", "approval-list", "console", "console-messages", "console-session"),
    *("searches", "seen", "zone", "notifications"),
)


@pytest.fixture(scope="module")
def plain() -> Iterator[LiveServer]:
    """Start a server without the skin, with the same rows."""
    with LiveServer(web_processes=1, settings="tests.browser.plain_settings", env={"DEMO": "off"}) as server:
        server.shell(
            "from tests.samples.admin_seed import *; seed(); [count_calls(each) for each in PERIODS.values()]"
            "; group_errors()"
        )
        yield server


@pytest.fixture(scope="module")
def visit_plain(chromium: Browser, plain: LiveServer) -> Iterator[Visit]:
    """Return a factory of pages as the superuser."""
    base = f"http://127.0.0.1:{plain.port}"
    with opened_pages(chromium, base, {"root": sign_in(chromium, base, "root")}) as start:
        yield start


@pytest.fixture(scope="module")
def addresses(plain: LiveServer) -> dict[str, str]:
    """Return the pages of the server."""
    return every_page(plain)


def test_pages_without_the_skin_fit_and_are_accessible(visit_plain: Visit, addresses: dict[str, str]) -> None:
    visitor = visit_plain()
    wrong: dict[str, list[str]] = {}
    for name in SHAPES:
        page = visitor.goto(addresses[name])
        for look in looks(page):
            picture(page, f"plain-{name}-{look}")
            wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            found = seen(page, look.rules) + ([f"{wide} px wide"] if wide > window else []) + visitor.trouble
            visitor.trouble.clear()
            if found:
                wrong[f"{name} {look}"] = found
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.parametrize("name", ["approval-list", "session-list", "auditevent-list", "apikey-list"])
def test_long_list_without_the_skin_does_not_scroll(
    name: str, visit_plain: Visit, addresses: dict[str, str]
) -> None:
    visitor = visit_plain(width=1440)
    assert visitor.goto(addresses[name]).evaluate(SCROLLING) == []


# The skin hides every page without scripts.
@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "no-scripts"])
def test_tabs_of_a_form_without_the_skin_are_links_to_its_sections(
    has_scripts: bool, visit_plain: Visit
) -> None:
    visitor = visit_plain(java_script_enabled=has_scripts)
    page = visitor.page
    page.goto(f"{visitor.base}/admin/mcp_app/tool/add/#access")
    sections = {name: page.locator(f"#{name}") for name in ("text", "access", "limits", "definition")}
    for name in ("access", "limits"):
        page.locator(f"[data-tabs] a[href='#{name}']").click()
        for other, section in sections.items():
            expect(section).to_be_visible(visible=other == name or not has_scripts)
        expect(sections[name]).to_be_in_viewport()
    assert visitor.trouble == []
