"""A live server with seeded rows, and pages of the machine's headless chromium."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.bounds import PATIENCE
from tests.browser import bundles
from tests.browser.axe import COLOURS, RULES
from tests.clients import node
from tests.samples.admin_seed import PASSWORD
from tests.servers.live import LiveServer

HERE = Path(__file__).resolve().parent
# The folder for screenshots of the pages. Without it none are taken, because they take time.
PICTURES = os.environ.get("PICTURES")
TALLEST_PICTURE = 15_000
# Both colour schemes and both widths, on pages that are loaded twice.
LOOKS: list[tuple[Any, tuple[int, int]]] = [("light", (1440, 390)), ("dark", (390, 1440))]
# The skin chooses its scheme when it is loaded, and on a key; Django's own admin follows the browser. Colours
# are judged when they no longer change.
REPAINT = """async (dark) => {
  if (window.Alpine) document.documentElement.classList.toggle("dark", dark);
  const changing = document.getAnimations().filter((each) => each instanceof CSSTransition);
  await Promise.allSettled(changing.map((each) => each.finished));
}"""
# The headless shell first: it draws the same pages in half the processor time.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOAD_SECONDS = PATIENCE
# The longest tests start first, so that none is left alone at the end.
LONG = ("test_every_page.py", "test_tasks.py", "test_accessible.py")
expect.set_options(timeout=LOAD_SECONDS * 1000)
# Loaded, no longer hidden by the skin, and every visible JSON field has its editor.
DRAWN = """() => document.readyState === "complete" && !document.documentElement.hasAttribute("x-cloak")
  && document.querySelectorAll("textarea[data-json-editor][hidden]").length
  === document.querySelectorAll(".mcp-json-editor .jse-text-mode .cm-content").length"""

# Runs in every page before its scripts: policy violations, and elements made of planted text, even for a
# moment, are logged to the console, where every visitor listens.
WATCH = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy: ${event.effectiveDirective} refused ${event.blockedURI} ${event.sample}`);
});
new MutationObserver((records) => {
  for (const { target, addedNodes } of records) {
    for (const node of [target, ...addedNodes]) {
      if (node.nodeType !== Node.ELEMENT_NODE) continue;
      const made = node.matches("[data-corpus]") ? node : node.querySelector("[data-corpus]");
      if (made) console.error(`text became an element: ${made.outerHTML.slice(0, 200)}`);
    }
  }
}).observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-corpus"] });
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests without a browser, and run long tests first."""
    missing = pytest.mark.skip(
        reason="No chromium on this machine: install the package chromium-headless-shell or chromium, or set "
        "CHROMIUM."
    )
    items.sort(key=_place)
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if not CHROMIUM:
                item.add_marker(missing)


def _place(item: pytest.Item) -> int:
    is_long = item.path.parent == HERE and item.path.name in LONG
    return LONG.index(item.path.name) if is_long else len(LONG)


@dataclass
class Visitor:
    """A browser page, and everything that went wrong on it."""

    page: Page
    base: str
    trouble: list[str] = field(default_factory=list)
    loading: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.trouble.append(f"script error: {error}"))
        self.page.on("console", self._said)
        self.page.on("requestfailed", self._failed)
        self.page.on("requestfinished", self._finished)
        self.page.on("request", self._asked)
        self.page.on("dialog", self._dialog)
        self.page.on("response", self._answered)
        self.page.add_init_script(WATCH)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.trouble.append(f"console: {message.text} ({message.location['url']})")

    def _finished(self, request: Any) -> None:
        self.loading.discard(request)

    def _failed(self, request: Any) -> None:
        self.loading.discard(request)
        # Leaving a page aborts its requests at any time, and a download leaves the page where it is.
        if request.failure == "net::ERR_ABORTED":
            return
        self.trouble.append(f"request failed: {request.url}: {request.failure}")

    def _asked(self, request: Any) -> None:
        self.loading.add(request)
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.trouble.append(f"request to elsewhere: {request.url}")

    def _answered(self, response: Any) -> None:
        html = response.headers.get("content-type", "").startswith("text/html")
        if html and "content-security-policy" not in response.headers:
            self.trouble.append(f"no content security policy: {response.url}")

    def _dialog(self, dialog: Any) -> None:
        self.trouble.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def goto(self, path: str, status: int = 200) -> Page:
        """Open a page of the site, and wait until it is drawn; it must return ``status``."""
        answer = self.page.goto(self.base + path)
        assert answer is not None
        assert answer.status == status, (path, answer.status)
        self.drawn()
        if status != 200:  # The browser logs the status of such a page.
            self.trouble = [line for line in self.trouble if f"({self.base}{path})" not in line]
        return self.page

    def drawn(self) -> None:
        """Wait until the page is drawn and no request is running: leaving earlier would abort requests."""
        self.page.wait_for_function(DRAWN)
        deadline = time.monotonic() + LOAD_SECONDS
        while self.loading:
            assert time.monotonic() < deadline, [request.url for request in self.loading]
            self.page.wait_for_timeout(20)


Visit = Callable[..., Visitor]


def picture(page: Page, name: str) -> None:
    """Save a screenshot if screenshots are enabled."""
    if not PICTURES:
        return
    Path(PICTURES).mkdir(parents=True, exist_ok=True)
    size = page.evaluate("[window.innerWidth, document.documentElement.scrollHeight]")
    clip: Any = {"x": 0, "y": 0, "width": size[0], "height": min(size[1], TALLEST_PICTURE)}
    page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True, clip=clip)


def widen(page: Page, width: int) -> None:
    """Set the width of the window, and wait for the new layout."""
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("() => new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))")


@dataclass(frozen=True, slots=True)
class Look:
    """A colour scheme and a width in which a page is shown, and the rules of axe that can differ in it."""

    scheme: str
    width: int
    rules: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.scheme}-{self.width}"


def looks(page: Page) -> Iterator[Look]:
    """Show the open page in all looks, one after the other, without another load.

    Structure is judged in the light scheme; the dark one changes only colours. The page was loaded in the
    light scheme and is shown in it again at the end.
    """
    for scheme, widths in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.evaluate(REPAINT, scheme == "dark")
        for width in widths:
            widen(page, width)
            yield Look(scheme, width, RULES if scheme == "light" else COLOURS)
    page.emulate_media(color_scheme="light")
    page.evaluate(REPAINT, False)
    widen(page, LOOKS[0][1][0])


def type_json(page: Page, field: str, text: str) -> None:
    """Type into the JSON editor of a field."""
    closed = page.locator(f"details:not([open]):has(#id_{field}) > summary")
    if closed.count():
        closed.click()
    page.locator(f".mcp-json-field:has(#id_{field})").scroll_into_view_if_needed()
    editor = page.locator(f".mcp-json-field:has(#id_{field}) .cm-content")
    editor.click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)


def sign_in(chromium: Browser, base: str, name: str) -> Any:
    """Return the cookies of a user who logged in at the login form."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{base}/admin/login/")
    page.fill("#id_username", name)
    page.fill("#id_password", PASSWORD)
    page.click("[type=submit]")
    page.wait_for_url(f"{base}/admin/")
    stored = context.storage_state()
    context.close()
    return stored


@pytest.fixture(scope="session", autouse=True)
def _bundles() -> None:
    """Serve scripts and style sheets as a built package does, if esbuild is available; CI has it."""
    with suppress(node.NodeUnavailable):
        bundles.build()


@pytest.fixture(scope="session")
def site() -> Iterator[LiveServer]:
    """Start the real server without the demo, with realistic and hostile rows."""
    with LiveServer(web_processes=1, env={"DEMO": "off"}) as server:
        server.shell(
            "from tests.samples.admin_seed import *; seed(); [count_calls(each) for each in PERIODS.values()]"
            "; group_errors()"
        )
        yield server
        assert server.trouble() == []


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Start the machine's chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def base(site: LiveServer) -> str:
    """Return the address of the site."""
    return f"http://127.0.0.1:{site.port}"


@pytest.fixture(scope="session")
def logins(chromium: Browser, base: str) -> dict[str, Any]:
    """Return the cookies of each role, from the login form."""
    return {role: sign_in(chromium, base, role) for role in ("root", "viewer")}


@contextmanager
def opened_pages(chromium: Browser, base: str, logins: dict[str, Any]) -> Iterator[Visit]:
    """Open pages of logged-in users: ``visit(role="root", scheme="light", width=1440)``."""
    contexts: list[BrowserContext] = []

    def start(role: str = "root", scheme: Any = "light", width: int = 1440, **more: Any) -> Visitor:
        context = chromium.new_context(
            storage_state=logins[role], color_scheme=scheme, viewport={"width": width, "height": 900}, **more
        )
        context.set_default_timeout(LOAD_SECONDS * 1000)
        contexts.append(context)
        return Visitor(context.new_page(), base)

    yield start
    for context in contexts:
        context.close()


@pytest.fixture
def visit(chromium: Browser, base: str, logins: dict[str, Any]) -> Iterator[Visit]:
    """Open a page of the site."""
    with opened_pages(chromium, base, logins) as start:
        yield start


@pytest.fixture(scope="module")
def near() -> Iterator[LiveServer]:
    """Start a server that may reach this machine."""
    with LiveServer(web_processes=1, env={"DEMO": "off", "EGRESS_ALLOW": "127.0.0.0/8"}) as server:
        server.shell("from tests.samples.admin_seed import people; people()")
        yield server
        assert server.trouble() == []


@pytest.fixture
def visit_near(chromium: Browser, near: LiveServer) -> Iterator[Visit]:
    base = f"http://127.0.0.1:{near.port}"
    with opened_pages(chromium, base, {"root": sign_in(chromium, base, "root")}) as start:
        yield start


@contextmanager
def peopled(web_processes: int, settings: str = "", *, crashes: bool = False) -> Iterator[LiveServer]:
    """Start the real server with the demo, a worker and users; assert at the end that its logs show no
    trouble. With ``crashes``, entries may crash.
    """
    named = {"settings": settings} if settings else {}
    with LiveServer(web_processes=web_processes, worker=True, **named) as live:
        live.shell("from tests.samples.admin_seed import people; people()")
        yield live
        assert live.trouble(crashes=crashes) == []


@pytest.fixture(scope="module")
def two_processes() -> Iterator[LiveServer]:
    """Start a server with two web processes: one for browsers, one for clients."""
    with peopled(web_processes=2) as live:
        yield live
