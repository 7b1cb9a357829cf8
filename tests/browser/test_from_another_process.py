"""Browsers at one web process, the official Python client at the other: changes reach the client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Visitor, opened_pages, picture, sign_in, type_json
from tests.browser.listener import Listener
from tests.servers.live import LiveServer

SLOW = 30_000
ERAS = ["legacy", "2026-07-28"]


@pytest.fixture(scope="module")
def server(two_processes: LiveServer) -> LiveServer:
    """Return a server with separate processes for browsers and clients."""
    return two_processes


@pytest.fixture(scope="module")
def logins(chromium: Browser, server: LiveServer) -> dict[str, Any]:
    """Return the cookies of the superuser."""
    return {"root": sign_in(chromium, f"http://127.0.0.1:{server.ports[0]}", "root")}


@pytest.fixture
def visitor(chromium: Browser, server: LiveServer, logins: dict[str, Any]) -> Iterator[Visitor]:
    """Open a logged-in page, and assert that nothing went wrong on it."""
    with opened_pages(chromium, f"http://127.0.0.1:{server.ports[0]}", logins) as start:
        made = start()
        yield made
        assert made.trouble == []


def _client(server: LiveServer, mode: str) -> Listener:
    return Listener(f"http://127.0.0.1:{server.ports[1]}/mcp", mode)


def _press(page: Page, button: str) -> Callable[[], None]:
    return lambda: page.get_by_role("button", name=button, exact=True).first.click()


@pytest.mark.parametrize("mode", ERAS)
def test_added_preset_and_prompt_notify_the_client_and_are_used(
    mode: str, visitor: Visitor, server: LiveServer
) -> None:
    name = f"made_for_{mode.replace('-', '_')}"
    with _client(server, mode) as listener:
        page = visitor.goto("/admin/mcp_app/tool/add/")
        page.fill("#id_name", name)
        page.select_option("#id_preset_of", label="echo")
        type_json(page, "fixed_arguments", '{"text": "always the same"}')
        listener.hears("tools", page, lambda: page.click("[name=_save]"))
        assert name in listener.names("tools")
        assert "always the same" in listener.call(name, {})
        visitor.drawn()
        page = visitor.goto("/admin/mcp_app/prompt/add/")
        page.fill("#id_name", name)
        page.fill("#id_template", "Say it in one line.")
        listener.hears("prompts", page, lambda: page.click("[name=_save]"))
        assert name in listener.names("prompts")
        assert listener.text_of(name) == "Say it in one line."
        visitor.drawn()


def _history(visitor: Visitor) -> None:
    visitor.drawn()
    visitor.page.get_by_role("link", name="History").first.click()
    visitor.page.wait_for_url("**/history/**")


@pytest.mark.parametrize("mode", ERAS)
def test_edit_is_drafted_published_and_rolled_back_for_a_client(
    mode: str, visitor: Visitor, server: LiveServer
) -> None:
    name = f"greeting_{mode.replace('-', '_')}"
    with _client(server, mode) as listener:
        page = visitor.goto("/admin/mcp_app/prompt/add/")
        page.fill("#id_name", name)
        page.fill("#id_template", "Good morning.\nHow are you?")
        page.fill("#mcp-why", "asked for by support")
        page.get_by_role("button", name="Save as draft").click()
        expect(page.locator("body")).to_contain_text("Clients do not see it until it is published.")
        assert name not in listener.names("prompts")
        listener.hears("prompts", page, _press(page, "Publish"))
        expect(page.locator("body")).to_contain_text(f"Published: {name}.")
        assert listener.text_of(name) == "Good morning.\nHow are you?"

        visitor.drawn()
        page.fill("#id_template", "Good evening.\nHow are you?")
        page.get_by_role("button", name="Save as draft").click()
        draft = page.locator(".mcp-draft")
        expect(draft.locator(".mcp-removed")).to_have_text("-Good morning.")
        expect(draft.locator(".mcp-added")).to_have_text("+Good evening.")
        assert listener.text_of(name).startswith("Good morning.")
        draft.get_by_label("Reason").fill("it is late")
        listener.hears("prompts", page, _press(page, "Publish"))
        assert listener.text_of(name).startswith("Good evening.")

        _history(visitor)
        expect(page.locator(".mcp-card").first).to_contain_text("it is late")
        page.get_by_role("link", name="Roll back to this revision…").click()
        page.get_by_label("Reason").fill("too early for that")
        listener.hears("prompts", page, _press(page, "Roll back"))
        assert listener.text_of(name).startswith("Good morning.")
        expect(page.locator("body")).to_contain_text(f"Rolled back: {name}.")
        _history(visitor)
        expect(page.locator(".mcp-card").first).to_contain_text("too early for that")
        visitor.drawn()


def test_console_call_is_replayed_and_compared_in_the_bench(visitor: Visitor, server: LiveServer) -> None:
    page = visitor.goto("/admin/mcp_app/session/?live=1")
    expect(page.locator("#mcp-connection")).to_have_text("live", timeout=SLOW)
    with _client(server, "legacy") as client:
        row = page.locator("#mcp-rows tr", has_text="mcp").first
        expect(row).to_contain_text("1 listening", timeout=SLOW)
        row.get_by_role("link").first.click()
        expect(page.locator("#mcp-connection")).to_have_text("live", timeout=SLOW)
        client.call("calculate", {"expression": "1 + 1"})
        line = page.locator("#mcp-lines .mcp-line", has_text="calculate")
        expect(line).to_have_count(1, timeout=SLOW)
        replay = page.locator("#mcp-detail").get_by_role("link", name="Replay")
        # A message can be replayed once it is stored, a moment after it appears.
        for _ in range(100):
            line.click()
            page.wait_for_timeout(100)
            if replay.count():
                break
        replay.click()
        page.wait_for_url("**/try/?message=*")
        visitor.drawn()
        expect(page.get_by_label("expression")).to_have_value("1 + 1")
        page.get_by_label("expression").fill("1 + 4")
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator("[data-bench-state]")).to_have_text("succeeded")
        compared = page.locator("[data-bench-compared]")
        expect(compared.locator("th").first).to_have_text(re.compile("^run [0-9]+:"))
        expect(compared.locator(".mcp-removed").first).to_contain_text('"text": "2"')
        expect(compared.locator(".mcp-added").first).to_contain_text('"text": "5"')
        picture(page, "replayed-and-compared-light-1440")
