"""Background calls in a browser: the live page of a running call, cancelling and retrying."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Visit, opened_pages, peopled, picture, sign_in
from tests.servers.live import LiveServer, eventually


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    """Start the real server with the demo and a worker, without calls."""
    with peopled(web_processes=1) as live:
        yield live


@pytest.fixture(scope="module")
def logins(chromium: Browser, server: LiveServer) -> dict[str, Any]:
    """Return the cookies of the superuser."""
    return {"root": sign_in(chromium, f"http://127.0.0.1:{server.port}", "root")}


@pytest.fixture
def open_page(chromium: Browser, server: LiveServer, logins: dict[str, Any]) -> Iterator[Visit]:
    """Return a factory of logged-in pages."""
    with opened_pages(chromium, f"http://127.0.0.1:{server.port}", logins) as start:
        yield start


def _address(call_id: str) -> str:
    return f"/admin/mcp_app/call/{call_id}/change/"


@contextmanager
def _counting(server: LiveServer, to: int) -> Iterator[None]:
    """Run a call of ``count`` that reports ten times a second; a worker runs it on entry."""
    client = server.mcp()
    try:
        client.initialize()
        arguments = {"to": to, "delay_seconds": 0.1}
        params = {"name": "count", "arguments": arguments, "_meta": {"progressToken": "p"}}
        with client.open_call("tools/call", params) as stream:
            stream.message()
            yield
        client.delete()
    finally:
        client.close()


@pytest.fixture
def counting(server: LiveServer) -> Iterator[str]:
    """Return the id of a call of ``count`` that reports for a minute."""
    with _counting(server, 600):
        code = "from mcp_app.models import Call; print(Call.objects.latest('accepted_at').pk)"
        yield server.shell(code).strip().splitlines()[-1]


def _value(page: Page) -> float:
    value: float = page.evaluate("document.querySelector('progress').value")
    return value


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_running_call_page_updates_live(scheme: str, width: int, counting: str, open_page: Visit) -> None:
    visitor = open_page(scheme=scheme, width=width)
    page = visitor.goto(_address(counting))
    before = _value(page)
    expect(page.locator("[data-live-progress-text]")).to_contain_text(re.compile(r"\d+ of 600"))
    eventually(lambda: _value(page) > before + 8, 10, "progress on the page")
    lines = page.locator("[data-live-lines] li")
    heard = lines.count()
    eventually(lambda: lines.count() > heard, 10, "more lines on the page")
    picture(page, f"call-live-{scheme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page = visitor.goto("/admin/mcp_app/call/")
    expect(page.locator(".mcp-queues")).to_contain_text("worker-0@")
    picture(page, f"call-queues-{scheme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert visitor.trouble == []


def test_call_is_cancelled_and_retried_by_buttons(counting: str, open_page: Visit) -> None:
    visitor = open_page()
    page = visitor.goto(_address(counting))
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the call").click()
    # The second text appears if the worker was faster than the page.
    expect(page.locator("body")).to_contain_text(re.compile("The call is (being )?cancelled"))
    # The page polls once more when the call has ended, and then stops.
    expect(page.locator("[data-live-state]")).to_have_text("cancelled", timeout=10_000)
    expect(page.locator("[data-live]")).to_have_count(0)
    expect(page.locator("body")).to_contain_text("cancelled by an administrator (root)")
    expect(page.locator("[data-unsent]")).to_have_count(0)
    page.get_by_role("button", name="Retry as a new call").click()
    expect(page.locator("body")).to_contain_text("This is the new call.")
    expect(page.locator("body")).to_contain_text(counting)
    expect(page.locator("[data-live-state]")).to_have_text("running", timeout=10_000)
    expect(page.locator("[data-live-progress-text]")).to_contain_text("of 600")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the call").click()
    expect(page.locator("[data-live-state]")).to_have_text("cancelled", timeout=10_000)
    assert visitor.trouble == []


def test_response_appears_when_the_call_ends(server: LiveServer, open_page: Visit) -> None:
    visitor = open_page()
    with _counting(server, 100):
        page = visitor.goto("/admin/mcp_app/call/?state=running")
        page.locator("#result_list a", has_text="count").first.click()
        expect(page.locator("[data-live-state]")).to_have_text("running")
        expect(page.locator("body")).to_contain_text("counted to 100", timeout=30_000)
        expect(page.locator("[data-live-state]")).to_have_text("succeeded")
    assert visitor.trouble == []
