"""S11: hostile words in every field, on every page: read as text, never markup, nothing out of shape."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.urls import resolve
from playwright.sync_api import Browser, BrowserContext, Error, FilePayload, Page, expect

from tests.admin_seed import RAW_HIDDEN
from tests.browser.conftest import Visitor, picture, sign_in
from tests.browser.corpus_traffic import talk
from tests.browser.planted import marks, planted
from tests.browser.walk import SLOW, SOUGHT, Stop, addresses, reason, stops
from tests.live import LiveServer

HERE = Path(__file__).resolve().parent
SOURCES = ("corpus_rows.py", "corpus_traffic.py", "corpus_app/mcp.py", "walk.py", "test_corpus.py")
ROWS = "from tests.browser import corpus_rows; corpus_rows."
# Every text node, what fields hold, and what is said without being seen.
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
]"""


class Walker(Visitor):
    """Remembers which fields were read on the page it is at."""

    read: set[str]
    hidden: set[str]

    def goto(self, path: str) -> Page:
        self.read, self.hidden = set(), set()
        return super().goto(path)

    def visit(self, stop: Stop, scheme: str, widths: Sequence[int]) -> list[str]:
        """What is wrong with one page, loaded at the first width and looked at in each."""
        self.page.set_viewport_size({"width": widths[0], "height": 900})
        try:
            self.goto(stop.path)
            if stop.then is not None:
                stop.then(self)
            found = []
            for width in widths:
                self.page.set_viewport_size({"width": width, "height": 900})
                found += self.faults(f"{stop.name} at {width}", stop.shows)
                picture(self.page, f"{stop.name}-{scheme}-{width}")
        except (AssertionError, Error) as error:
            # All faults of all pages are told at once.
            found = [f"{stop.name}: {str(error)[:500]}", *self.trouble]
            self.trouble.clear()
        return found

    def seen_more(self) -> None:
        """Look at the page as it is now."""
        text, typed = self.page.evaluate(READ)
        self.read |= marks(text + typed)
        self.hidden |= {f"U+{ord(each):04X}" for each in RAW_HIDDEN if each in text}

    def faults(self, name: str, shows: str = "") -> list[str]:
        """All that is wrong with the page."""
        self.seen_more()
        wide, window, pwned, proto, elements, targets = self.page.evaluate(FACTS)
        found = [*self.trouble]
        self.trouble.clear()
        found += [f"{wide} px wide in a window of {window}"] if wide > window else []
        found += ["text was executed"] if pwned is not None else []
        found += ["a prototype was changed"] if proto is not None else []
        found += [f"{elements} elements were made of text"] if elements else []
        found += [f"addresses that run or show text: {targets}"] if targets else []
        # The API's page lets its long addresses break with these.
        hidden = self.hidden - {"U+200B"} if name.startswith("api-docs") else self.hidden
        found += [f"hidden characters: {sorted(hidden)}"] if hidden else []
        missing = set(shows.split()) - self.read
        found += [f"not to be read: {sorted(missing)}"] if missing else []
        return [f"{name}: {fault}" for fault in found]


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    """Two web processes and a worker, filled by people and by clients that mean ill."""
    settings = {"DEMO": "off"}
    with LiveServer(
        web_processes=2, worker=True, settings="tests.browser.corpus_settings", env=settings
    ) as live:
        live.shell(f"{ROWS}fill()")
        talk(live)
        live.shell(f"{ROWS}decide()")
        yield live
        assert live.trouble() == []


@pytest.fixture(scope="module")
def keys(server: LiveServer) -> dict[str, Any]:
    """The keys of the rows whose pages are walked."""
    code = "from tests.browser import corpus_rows; import json; print(json.dumps(corpus_rows.keys()))"
    found: dict[str, Any] = json.loads(server.shell(code).strip().splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def cookies(chromium: Browser, server: LiveServer) -> Any:
    """The cookies of the superuser."""
    return sign_in(chromium, f"http://127.0.0.1:{server.ports[0]}", "root")


Walk = Callable[..., Walker]


@pytest.fixture
def walk(chromium: Browser, server: LiveServer, cookies: Any) -> Iterator[Walk]:
    """A signed-in page: ``walk("dark", 390)``."""
    contexts: list[BrowserContext] = []

    def start(scheme: Any = "light", width: int = 1440) -> Walker:
        size: Any = {"width": width, "height": 900}
        context = chromium.new_context(storage_state=cookies, color_scheme=scheme, viewport=size)
        context.set_default_timeout(15_000)
        contexts.append(context)
        return Walker(context.new_page(), f"http://127.0.0.1:{server.ports[0]}")

    yield start
    for context in contexts:
        context.close()


def test_every_address_is_walked_or_known_to_be_no_page(keys: dict[str, Any]) -> None:
    walked = set()
    for stop in stops(keys):
        found = resolve(stop.path.partition("?")[0])
        walked.add(found.view_name or "None")
    served = {name for name, _ in addresses()}
    assert sorted(name for name in served - walked if not reason(name)) == []
    assert sorted(name for name in walked if reason(name)) == []


def test_what_is_said_to_be_no_page_is_none(walk: Walk, keys: dict[str, Any]) -> None:
    visitor = walk()
    visitor.goto("/admin/")
    known = {"session": keys["session_own"], "call": keys["call_own"], "message": keys["message_own"]}
    for name, route in addresses():
        if not reason(name) or name in ("admin:login", "admin:logout"):
            continue
        model = re.search(r"mcp_app/(\w+)/", route)
        key = known.get(model[1] if model else "session", keys["tool_echo"])
        path = re.sub(r"<[^>]+>", str(key), route).replace("^", "").replace(".*$", "x")
        if "(?P" in path:
            continue
        answer = visitor.page.request.get(f"{visitor.base}/{path}?s={SOUGHT}&q={SOUGHT}", max_redirects=0)
        if reason(name) == "a part of a page":
            assert not re.search(r"<\w[^<>]* data-corpus=", answer.text()), path
            continue
        html = answer.headers.get("content-type", "").startswith("text/html")
        assert not (html and answer.status == 200), (name, path)
        if answer.status == 200:
            assert answer.headers["x-content-type-options"] == "nosniff", path


@pytest.mark.parametrize(("scheme", "widths"), [("light", (1440, 390)), ("dark", (390, 1440))])
def test_nothing_written_anywhere_is_more_than_text(
    scheme: str, widths: tuple[int, int], walk: Walk, keys: dict[str, Any]
) -> None:
    visitor = walk(scheme, widths[0])
    found = [fault for stop in stops(keys) for fault in visitor.visit(stop, scheme, widths)]
    assert found == []


# What a client says in a session, as the console tells it, line by line.
SAID = """
  request.id request.tool request.argument_key request.argument_value request.deep request.method
  request.params request.uri request.segment request.prompt request.prompt_key request.city
  request.reference request.completed request.level request.cursor request.token request.meta_key
  request.traceparent request.subscription request.list request.not_an_object request.string_params
  talk.key talk.value notice.token notice.progress notice.level notice.logger notice.key notice.data
  notice.method notice.params cancel.id cancel.unknown_reason cancel.reason response.id response.key
  response.value response.error answer.value answer.key answer.other answer.meta sample.text
  sample.model sample.stop_reason root.uri root.name client.name client.title client.version
  client.capability client.capability_key error.text result.text progress.message log.data
  log.logger question.message question.title sampling.message job.log job.logger job.error
"""


def test_every_message_of_a_hostile_session_is_text_in_the_console(walk: Walk, keys: dict[str, Any]) -> None:
    visitor = walk()
    page = visitor.goto(f"/console/sessions/{keys['session_live']}/?search=-tool:hostile_job")
    lines = page.locator("#mcp-lines .mcp-line")
    expect(lines.first).to_be_visible(timeout=SLOW)
    lines.last.locator(".mcp-line-pin").click()
    for key in lines.evaluate_all("all => all.map(each => each.dataset.key)"):
        page.evaluate("key => document.querySelector(`[data-key='${key}']`).click()", key)
        page.wait_for_function("key => document.getElementById('mcp-detail').dataset.shown === key", arg=key)
        visitor.seen_more()
    assert visitor.faults("console", SAID) == []


def test_the_file_of_an_import_is_text_in_its_plan_and_its_problems(walk: Walk, server: LiveServer) -> None:
    visitor = walk()
    words = {name: planted(f"import.{name}", 900) for name in ("title", "description", "template")}
    exported = server.shell(
        "from mcp_app.catalogue.transfer import export_catalogue; print(export_catalogue())"
    )
    document = json.loads(exported)
    document["prompts"] = [{"name": "imported", "source": "admin", **words}]
    document["tools"] = document["resources"] = document["resource_templates"] = []
    wrong = {
        planted("import.key", 300): planted("import.value", 300),
        "format": planted("import.format", 300),
    }
    refused = {**document, "prompts": [{"name": planted("import.name", 120), "source": "admin", **words}]}
    for content, shown in (
        (document, "import.title import.description import.template"),
        (refused, "import.name"),
        (wrong, ""),
        (planted("import.not_json"), ""),
    ):
        page = visitor.goto("/admin/mcp_app/tool/import/")
        text = content if isinstance(content, str) else json.dumps(content)
        file = {"name": planted("import.file", 120), "mimeType": "text/html", "buffer": text.encode()}
        page.set_input_files("[type=file]", [FilePayload(**file)])
        page.click("text=Show what would change")
        page.wait_for_selector(
            "[aria-label=Problems], [aria-label='What would change'], .mcp-wrong, .mcp-note-bad"
        )
        visitor.drawn()
        assert visitor.faults("import", shown) == []


def test_a_sign_in_that_fails_repeats_names_as_text(chromium: Browser, server: LiveServer) -> None:
    context = chromium.new_context(user_agent=planted("login.user_agent", 300, hidden=False))
    visitor = Walker(context.new_page(), f"http://127.0.0.1:{server.ports[0]}")
    page = visitor.goto(f"/admin/login/?next=/admin/{SOUGHT}")
    attempts = 0
    while "Too many wrong passwords" not in page.title():
        attempts += 1
        page.fill("#id_username", planted("login.name", 150))
        page.fill("#id_password", planted("login.password"))
        page.click("[type=submit]")
        visitor.drawn()
        visitor.seen_more()
    assert attempts == 10
    # The browser tells by itself that it was refused (429).
    visitor.trouble = [each for each in visitor.trouble if "429" not in each]
    assert visitor.faults("sign-in", "login.name") == []
    context.close()
    server.manage("axes_reset")


# What no page shows, and why it is planted all the same: it must break nothing on its way.
NOWHERE = {
    "refused, or no part of a message": """header.authorization header.baggage header.origin header.request_id
        header.session header.user_agent header.version body.not_json request.batch request.jsonrpc
        request.odd_id login.user_agent login.password import.file""",
    "kept for the worker": "call.meta call.meta_key call.request_id",
}


def test_every_planted_field_is_looked_for() -> None:
    planting = re.compile(r'planted(?:_uri)?\(\s*f?"([a-z_.]+)"')
    sources = [(HERE / name).read_text() for name in SOURCES]
    fields = {field for source in sources for field in planting.findall(source)}
    words = " ".join(planting.sub("", source) for source in sources)
    looked_for = set(re.findall(r"[a-z_]+\.[a-z_]+", words))
    assert len(fields) > 150
    assert sorted(fields - looked_for) == []
