"""Pages that nobody signed in for, and what a viewer meets; every other page is walked in test_corpus.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.conftest import Visit, picture
from tests.live import LiveServer


@pytest.fixture(scope="module")
def pages(site: LiveServer) -> dict[str, str]:
    """The pages that have buttons for those who may, by a short name."""
    code = """
import json
from mcp_app.models import *
print(json.dumps({
    "tool-drift": f"tool/{Tool.objects.get(name='web_scrape').pk}/change",
    "apikey-own": f"apikey/{ApiKey.objects.get(name='laptop').pk}/change",
    "session-own": f"session/{0:032x}/change",
    "call-own": f"call/{Call.objects.get(retry_of=None, tool='echo').pk.hex}/change",
    "call-running": f"call/{Call.objects.get(tool='count', state='running').pk.hex}/change",
    "call-undecided": f"call/{Call.objects.get(tool='discard').pk.hex}/change",
}))
"""
    rows: dict[str, str] = json.loads(site.shell(code).strip().splitlines()[-1])
    found = {name: f"/admin/mcp_app/{path}/" for name, path in rows.items()}
    for model in ("tool", "session", "approval"):
        found[f"{model}-list"] = f"/admin/mcp_app/{model}/"
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_login_page_is_not_broken(scheme: Any, base: str, visit: Visit) -> None:
    visitor = visit(scheme=scheme)
    visitor.page.context.clear_cookies()
    page = visitor.goto("/admin/login/")
    picture(page, f"login-{scheme}-1440")
    assert visitor.trouble == []


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_connect_page_is_not_broken_and_copies(scheme: Any, width: int, base: str, visit: Visit) -> None:
    visitor = visit(scheme=scheme, width=width, permissions=["clipboard-read", "clipboard-write"])
    visitor.page.context.clear_cookies()
    page = visitor.goto("/connect/")
    picture(page, f"connect-{scheme}-{width}")
    wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window, f"{wide} px wide in a window of {window}"
    page.click("[data-copy=endpoint]")
    page.wait_for_selector("[data-copy=endpoint]:text-is('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == f"{base}/mcp"
    assert visitor.trouble == []


def test_the_connect_page_is_whole_without_scripts(visit: Visit) -> None:
    visitor = visit(width=390, java_script_enabled=False)
    answer = visitor.page.goto(f"{visitor.base}/connect/")
    assert answer is not None
    assert answer.status == 200
    assert visitor.page.locator("pre").count() > 10
    assert visitor.page.locator("button:visible").count() == 0
    assert visitor.trouble == []


def test_text_that_got_into_a_page_as_markup_would_run_nothing(visit: Visit) -> None:
    page = visit().goto("/admin/")
    # No page is reported by the site's policy (above); here it shows that it would.
    with page.expect_console_message(lambda message: "Content Security Policy" in message.text):
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<svg onload=window.pwned=3>')")
    assert page.evaluate("window.pwned ?? null") is None


def test_a_viewer_meets_no_button_that_acts(visit: Visit, pages: dict[str, str]) -> None:
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
        for selector in (".mcp-switch", "[formaction]", ".mcp-danger", "[name=_save]", "[form=mcp-retry]"):
            assert page.locator(selector).count() == 0, (name, selector)
    assert visitor.trouble == []
