"""A server over stdio, from npm, is added by hand; its tool is published, and its processes are shown."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.bounds import PATIENCE
from tests.browser import axe
from tests.browser.conftest import Visit, looks, opened_pages, picture, sign_in
from tests.browser.hands import Keys
from tests.clients import node
from tests.interop.npm import packages
from tests.servers import stdio_program
from tests.servers.live import ROOT, LiveServer, eventually

SCRIPT = "@modelcontextprotocol/server-everything/dist/index.js"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Start a server with commands, and the bridge that runs them."""
    commands: dict[str, Any] = {
        "everything": {"command": [node.executable(), str(packages("everything") / SCRIPT), "stdio"]},
        "broken": {"command": [sys.executable, stdio_program.__file__, "broken"]},
    }
    socket = tmp_path_factory.mktemp("bridge") / "upstreams.sock"
    environment = {"DEMO": "off", "UPSTREAM_COMMANDS": json.dumps(commands), "UPSTREAM_SOCKET": str(socket)}
    with LiveServer(web_processes=1, env=environment) as server:
        server.shell("from tests.samples.admin_seed import people; people()")
        command = [sys.executable, "manage.py", "mcp_upstreams"]
        with subprocess.Popen(command, cwd=ROOT, env=server.environment) as bridge:
            try:
                eventually(socket.exists, PATIENCE, "the bridge")
                yield server
            finally:
                bridge.terminate()
        assert server.trouble() == []


@pytest.fixture
def visit_local(chromium: Browser, local: LiveServer) -> Iterator[Visit]:
    base = f"http://127.0.0.1:{local.port}"
    with opened_pages(chromium, base, {"root": sign_in(chromium, base, "root")}) as start:
        yield start


@pytest.mark.requirement("INT-60")
@pytest.mark.requirement("INT-76")
def test_npm_package_is_added_and_published_by_keyboard_alone(visit_local: Visit) -> None:
    visitor = visit_local()
    page = visitor.goto("/admin/mcp_app/upstream/")
    keys = Keys(page)
    keys.press(page.locator("#mcp-add-upstream"))
    keys.write(page.locator("#id_name"), "all")
    page.locator("#id_command").select_option("everything")
    keys.press(page.locator("#mcp-upstream-form button[type=submit]"))
    expect(page.locator("[data-health=available]")).to_be_visible()
    keys.press(page.locator("tr[data-tool=echo] input"))
    keys.press(page.locator("#mcp-save-drafts"))
    keys.press(page.locator("#mcp-publish-drafts"))
    expect(page.locator("tr[data-tool=echo] a")).to_have_text("all_echo")
    expect(page.locator("[data-state=running], [data-state=stopped]")).to_be_visible()
    assert visitor.trouble == []


@pytest.mark.requirement("INT-76")
def test_page_of_a_failing_command_shows_its_error_output_in_every_look(visit_local: Visit) -> None:
    visitor = visit_local()
    page = visitor.goto("/admin/mcp_app/upstream/add/")
    page.locator("#id_name").fill("broken")
    page.locator("#id_command").select_option("broken")
    page.locator("#mcp-upstream-form button[type=submit]").click()
    page.locator("#mcp-read-tools").click()
    expect(page.locator("[data-state=failing]")).to_be_visible()
    expect(page.locator("#mcp-error-output pre")).to_contain_text("The configuration is missing.")
    for look in looks(page):
        wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window, str(look)
        assert axe.seen(page, look.rules) == [], str(look)
        picture(page, f"stdio-{look}")
    assert visitor.trouble == []
