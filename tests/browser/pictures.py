"""Makes the pictures of README and docs: ``python -m tests.browser.pictures``.

Needs chromium and requirements-pictures.txt. Clients use a real server with the demo, shown in a real
browser. The animation shows each frame for its real duration.
"""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import django
from playwright.sync_api import Browser, Page, sync_playwright

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from tests.browser.conftest import ARGUMENTS, CHROMIUM, DRAWN, peopled, sign_in  # noqa: E402
from tests.clients.raw_http import Mcp  # noqa: E402
from tests.servers.live import LiveServer  # noqa: E402

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SIZE: Final[Any] = {"width": 1280, "height": 800}
FILM_SIZE: Final[Any] = {"width": 1024, "height": 768}
FILM_SECONDS: Final = 20.0
FRAME_SECONDS: Final = 0.2

# An hour of calls, and users with keys.
ROWS: Final = """
import json, math, random
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from mcp_app.auth.api_keys import issue_api_key
from mcp_app.catalogue.changes.services import save_tool_preset
from mcp_app.models import Tool
from mcp_app.message_log.rollup_cells import RollupCells
from mcp_app.message_log import rollups
root = get_user_model().objects.get(username="root")
ada = get_user_model().objects.create_user("ada")
tally, chance = RollupCells(), random.Random(7)
tools = {"echo": 0.4, "calculate": 0.6, "web_scrape": 420, "count": 2600, "add": 0.3}
for minute in range(3, 60):
    at = (timezone.now() - timedelta(minutes=minute)).timestamp()
    for tool, typical in tools.items():
        for _ in range(int((5 + 3 * math.sin(minute / 9)) * chance.random() * (3 if tool == "echo" else 1))):
            bad = chance.random() < (0.08 if tool == "web_scrape" else 0.01)
            took = typical * chance.lognormvariate(0, 0.6)
            tally.add(at, "tools/call", tool, "tool_error" if bad else "ok", took)
rollups.write(tally)
save_tool_preset(actor=root, name="count_to_a_hundred", preset_of=Tool.objects.get(name="count"),
                 fixed_arguments={"to": 100}, needs_approval=True)
print(json.dumps([issue_api_key(user=user, name=name, actor=root)[1]
                  for user, name in ((root, "laptop"), (ada, "desk"))]))
"""


def main() -> None:
    """Make all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with peopled(web_processes=1) as server, sync_playwright() as playwright:
        keys = json.loads(server.shell(ROWS).strip().splitlines()[-1])
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        base = f"http://127.0.0.1:{server.port}"
        cookies = sign_in(chromium, base, "root")
        with (
            closing(_client(server, "claude-code", keys[0])) as claude,
            closing(_client(server, "Cursor", keys[1])) as cursor,
        ):
            _traffic(claude, cursor)
            _film(chromium, base, cookies, cursor)
            page = _page(chromium, cookies, SIZE)
            _stills(page, base, claude, cursor)
        chromium.close()


def _client(server: LiveServer, name: str, token: str) -> Mcp:
    made = server.mcp(token=token)
    made.client_name = name
    made.initialize()
    return made


def _traffic(claude: Mcp, cursor: Mcp) -> None:
    for number in range(6):
        claude.tool("echo", text=f"shelf {number}")
        cursor.tool("add", a=number, b=40)
    claude.tool("calculate", expression="(2 + 3) * 4 ** 2 / 7")
    cursor.tool("calculate", expression="1/0")
    with claude.open_call("tools/call", {"name": "count_to_a_hundred", "arguments": {}}) as waits:
        waits.cut()


def _page(chromium: Browser, cookies: Any, size: Any) -> Page:
    context = chromium.new_context(storage_state=cookies, viewport=size, color_scheme="light")
    return context.new_page()


def _stills(page: Page, base: str, claude: Mcp, cursor: Mcp) -> None:
    def go(path: str) -> None:
        page.goto(base + path)
        page.wait_for_function(DRAWN)

    go("/admin/")
    _keep(page, "first-page")
    go("/admin/mcp_app/tool/")
    _keep(page, "tools")
    page.locator("#result_list").get_by_role("link", name="count", exact=True).first.click()
    page.wait_for_function(DRAWN)
    _keep(page, "tool-form")
    go("/admin/mcp_app/tool/")
    page.locator("#result_list a", has_text="calculate").first.click()
    page.get_by_role("link", name="Test bench").click()
    page.wait_for_function(DRAWN)
    page.locator("[data-bench-fields] input, [data-bench-fields] textarea").first.fill("(2 + 3) * 4 ** 2 / 7")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_timeout(1_500)
    _keep(page, "bench")
    go(f"/console/sessions/{cursor.session}/")
    page.wait_for_timeout(1_500)
    line = page.locator("#mcp-lines .mcp-line", has_text="Division by zero").last
    line.click()
    page.wait_for_timeout(800)
    line.scroll_into_view_if_needed()
    page.wait_for_timeout(200)
    _keep(page, "live-session")


def _keep(page: Page, name: str) -> None:
    from PIL import Image

    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(256).save(FOLDER / f"{name}.png", optimize=True)


def _film(chromium: Browser, base: str, cookies: Any, cursor: Mcp) -> None:
    """Film an administrator who opens a session, watches a running call and cancels it."""
    page = _page(chromium, cookies, FILM_SIZE)
    page.goto(f"{base}/console/")
    page.wait_for_function(DRAWN)
    page.wait_for_timeout(1_000)
    asked = {"name": "count", "arguments": {"to": 60, "delay_seconds": 0.5}, "_meta": {"progressToken": "p"}}

    def call() -> None:
        with cursor.open_call("tools/call", asked) as stream:
            stream.messages(60)

    calling = threading.Thread(target=call)
    scenes: list[tuple[float, Callable[[], object]]] = [
        (1.5, lambda: page.locator("#mcp-rows a", has_text="Cursor").first.click()),
        (3.5, calling.start),
        (8.5, lambda: page.locator("#mcp-lines .mcp-line", has_text="running").last.click()),
        (12.0, lambda: page.locator("#mcp-detail").get_by_role("button", name="Cancel this call").click()),
        (14.0, lambda: page.get_by_role("alertdialog").get_by_role("button", name="Cancel the call").click()),
    ]
    frames: list[tuple[float, bytes]] = []
    began = time.monotonic()
    while (now := time.monotonic() - began) < FILM_SECONDS:
        if scenes and now >= scenes[0][0]:
            scenes.pop(0)[1]()
        frames.append((time.monotonic() - began, page.screenshot()))
        page.wait_for_timeout(max(0.0, FRAME_SECONDS - (time.monotonic() - began - now)) * 1000)
    calling.join()
    page.context.close()
    _keep_film(frames, "live-call")


def _keep_film(frames: list[tuple[float, bytes]], name: str) -> None:
    from PIL import Image

    ends = [at for at, _ in frames[1:]] + [FILM_SECONDS]
    lasted = [max(20, int((end - at) * 1000)) for (at, _), end in zip(frames, ends, strict=True)]
    pictures = [Image.open(io.BytesIO(data)).convert("RGB") for _, data in frames]
    pictures[0].save(
        FOLDER / f"{name}.webp", save_all=True, append_images=pictures[1:], duration=lasted, loop=0,
        quality=60, method=4, minimize_size=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
