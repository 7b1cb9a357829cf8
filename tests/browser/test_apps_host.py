"""Pages of a server (MCP Apps) in a host made of the official classes, in a real browser."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import picture
from tests.clients import node
from tests.servers.live import LiveServer
from tests.servers.sinks import page_server

HERE = Path(__file__).resolve().parent
HOST = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Host</title>
<style>
body { font: 16px sans-serif; margin: 24px }
iframe { width: 560px; height: 280px; border: 1px solid #888 }
</style><p id="state"></p><iframe id="page" sandbox="allow-scripts" title="Page of the tool"></iframe>
<script type="module">%s</script></html>"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the host's page."""
    try:
        packages = node.install("apps-host")
    except node.NodeUnavailable as missing:
        pytest.skip(f"needs npm packages: {missing}")
    built = tmp_path_factory.mktemp("host") / "host.js"
    command = [packages / ".bin" / "esbuild", HERE / "apps_host.mjs", "--bundle", "--format=esm"]
    environment = {**os.environ, "NODE_PATH": str(packages)}
    subprocess.run([*command, f"--outfile={built}", "--log-level=error"], check=True, env=environment)
    with page_server((HOST % built.read_text()).encode()) as address:
        yield f"{address}/"


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    """Start a web process with a tool that has a page."""
    with LiveServer(1, settings="tests.interop.settings") as live:
        yield live
        assert not live.trouble(), live.logs()[-4000:]


@pytest.mark.requirement("EXT-01", "DLG-000-12")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_page_of_a_tool_is_shown_in_the_official_host(
    chromium: Browser, server: LiveServer, host: str, version: str
) -> None:
    page = chromium.new_page(viewport={"width": 640, "height": 400})
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto(host)
    page.evaluate(
        "([url, version]) => show(url, version, 'show_shelves', {floor: 'cellar'})", [server.url, version]
    )
    expect(page.locator("#state")).to_have_text(f"{version}: shelves is shown.")
    shown = page.frame_locator("#page")
    expect(shown.locator("#arguments")).to_have_text('{"floor":"cellar"}')
    expect(shown.locator("#result")).to_have_text("See the shelves of the cellar.")
    expect(shown.locator("#called")).to_have_text("from the page")
    picture(page, f"apps-host-{version}")
    page.close()
    assert not trouble
