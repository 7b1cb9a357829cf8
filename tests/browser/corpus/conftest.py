"""A server filled by hostile users and clients, and a visitor that examines its pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page

from tests import wire
from tests.browser.conftest import Visitor, picture, sign_in
from tests.browser.corpus.planted import marks
from tests.browser.corpus.traffic import talk
from tests.browser.corpus.walk import Stop
from tests.samples.admin_seed import RAW_HIDDEN
from tests.servers.live import LiveServer

ROWS = "from tests.browser.corpus import rows; rows."
# Every text node, the values of fields, and texts for assistive technology.
READ = """() => {
  const found = [];
  const walker = document.createTreeWalker(document, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode;
    if (!parentElement?.closest("script, style, template, textarea, option, .cm-content")) found.push(data);
  }
  for (const each of document.querySelectorAll("[title], [aria-label], [alt], [placeholder]")) {
    found.push(each.title, each.ariaLabel ?? "", each.alt ?? "");
  }
  const typed = [...document.querySelectorAll("input, textarea, select, option")]
    .map((each) => `${each.value} ${each.textContent}`);
  return [found.join("\\n"), typed.join("\\n")];
}"""
FACTS = """() => [
  document.documentElement.scrollWidth, window.innerWidth,
  window.pwned ?? null, Object.prototype.pwned ?? null,
  document.querySelectorAll("[data-corpus]").length,
  [...document.querySelectorAll("[href], [src], [action], [formaction]")]
    .flatMap((each) => ["href", "src", "action", "formaction"].map((name) => each.getAttribute(name) ?? ""))
    .filter((address) => /^\\s*(javascript|vbscript):/i.test(address) || /^data:text/i.test(address)),
  [...document.querySelectorAll("[class*='mcp-'][hidden]")]
    .filter((each) => getComputedStyle(each).display !== "none").map((each) => each.className),
]"""


class Walker(Visitor):
    """A visitor that records the planted fields read on the current page."""

    read: set[str]
    hidden: set[str]

    def goto(self, path: str, status: int = 200) -> Page:
        self.read, self.hidden = set(), set()
        return super().goto(path, status)

    def visit(self, stop: Stop, widths: Sequence[int], look: str) -> list[str]:
        """Load a page at the first width, examine it at each, and return its faults; ``look`` names the
        run.
        """
        self.page.set_viewport_size({"width": widths[0], "height": 900})
        try:
            self.goto(stop.path, stop.status)
            if stop.then is not None:
                stop.then(self)
            found = []
            for width in widths:
                self.page.set_viewport_size({"width": width, "height": 900})
                found += self.faults(f"{stop.name} at {width}", stop.shows)
                picture(self.page, f"{stop.name}-{look}-{width}")
        except (AssertionError, Error) as error:
            # Faults of all pages are reported together.
            found = [f"{stop.name}: {str(error)[:500]}", *self.trouble]
            self.trouble.clear()
        return found

    def seen_more(self) -> None:
        """Examine the current state of the page."""
        text, typed = self.page.evaluate(READ)
        self.read |= marks(text + typed)
        self.hidden |= {f"U+{ord(each):04X}" for each in RAW_HIDDEN if each in text}

    def faults(self, name: str, shows: str = "") -> list[str]:
        """Return all faults of the page."""
        self.seen_more()
        wide, window, pwned, proto, elements, targets, shown = self.page.evaluate(FACTS)
        found = [*self.trouble]
        self.trouble.clear()
        found += [f"{wide} px wide in a window of {window}"] if wide > window else []
        found += ["text was executed"] if pwned is not None else []
        found += ["a prototype was changed"] if proto is not None else []
        found += [f"{elements} elements were made of text"] if elements else []
        found += [f"addresses that run or show text: {targets}"] if targets else []
        found += [f"hidden, and to be seen: {shown}"] if shown else []
        found += [f"hidden characters: {sorted(self.hidden)}"] if self.hidden else []
        missing = set(shows.split()) - self.read
        found += [f"not to be read: {sorted(missing)}"] if missing else []
        return [f"{name}: {fault}" for fault in found]


@pytest.fixture(scope="module")
def settings_module() -> str:
    """Return the settings of the server; the plain skin has others."""
    return "tests.browser.corpus.settings"


@pytest.fixture(scope="module")
def server(settings_module: str) -> Iterator[LiveServer]:
    """Start two web processes and a worker, filled by hostile users and clients."""
    # Results of hostile tools violate the published schema, and some fail in every possible way.
    env = {"DEMO": "off", wire.VARIABLE: ""}
    with LiveServer(web_processes=2, worker=True, settings=settings_module, env=env) as live:
        live.shell(f"{ROWS}fill()")
        talk(live)
        live.shell(f"{ROWS}decide()")
        yield live


@pytest.fixture(scope="module")
def keys(server: LiveServer) -> dict[str, Any]:
    """Return the keys of the rows whose pages are visited."""
    code = "import json; from tests.browser.corpus import rows; print(json.dumps(rows.keys()))"
    found: dict[str, Any] = json.loads(server.shell(code).strip().splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def cookies(chromium: Browser, server: LiveServer) -> Any:
    """Return the cookies of the superuser."""
    return sign_in(chromium, f"http://127.0.0.1:{server.ports[0]}", "root")


Walk = Callable[..., Walker]


@pytest.fixture
def walk(chromium: Browser, server: LiveServer, cookies: Any) -> Iterator[Walk]:
    """Return a factory of logged-in pages: ``walk("dark", 390)``."""
    contexts: list[BrowserContext] = []

    def start(scheme: Any = "light", width: int = 1440) -> Walker:
        size: Any = {"width": width, "height": 900}
        context = chromium.new_context(storage_state=cookies, color_scheme=scheme, viewport=size)
        context.set_default_timeout(60_000)
        contexts.append(context)
        return Walker(context.new_page(), f"http://127.0.0.1:{server.ports[0]}")

    yield start
    for context in contexts:
        context.close()
