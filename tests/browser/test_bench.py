"""The test bench in a browser: forms, live runs, elicitation, results, history, presets, other users."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.conftest import Visitor, picture, sign_in
from tests.samples.admin_seed import HOSTILE, RAW_HIDDEN
from tests.servers.live import LiveServer, eventually

KEYS = """
import json
from mcp_app.models import *
from tests.samples.admin_seed import people
people()
kinds = {"tool": (Tool, "name"), "prompt": (Prompt, "name"), "resource": (Resource, "uri"),
         "resourcetemplate": (ResourceTemplate, "uri_template")}
print(json.dumps({kind: dict(model.objects.values_list(key, "pk")) for kind, (model, key) in kinds.items()}))
"""
ORDER: dict[str, Any] = {
    "customer": "Ada",
    "count": 3,
    "address": {"street": "Main Street 1", "country": "fr"},
    "items": [{"sku": "a-1", "price": 1.5}, {"sku": "b"}],
    "colours": ["green"],
    "pay": {"kind": "invoice", "days": 10},
    "gift": True,
    "due": "2026-12-24",
    "labels": {"room": "12"},
    "thread": {"text": "hi", "replies": [{"text": "ho"}]},
    "anything": [1, {"a": None}],
    "unforeseen": {"kept": True},
}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    """Start two web processes and a worker, with the demo and the entries of bench_app."""
    with LiveServer(web_processes=2, worker=True, settings="tests.browser.bench_settings") as live:
        yield live
        assert live.trouble(crashes=True) == []


@pytest.fixture(scope="module")
def keys(server: LiveServer) -> dict[str, dict[str, int]]:
    """Return the row id of each entry, by kind and name."""
    found: dict[str, dict[str, int]] = json.loads(server.shell(KEYS).strip().splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def cookies(chromium: Browser, server: LiveServer, keys: Any) -> Any:
    """Return the cookies of the superuser."""
    return sign_in(chromium, f"http://127.0.0.1:{server.port}", "root")


class Bench(Visitor):
    """A page of the bench."""

    def part(self, name: str) -> Locator:
        return self.page.locator(f"[data-bench-{name}]")

    def run(self) -> None:
        self.page.get_by_role("button", name="Run", exact=True).click()

    def ends(self, state: str) -> None:
        """Assert that the run ends in ``state``."""
        expect(self.part("state")).to_have_text(state)

    @property
    def json(self) -> Any:
        """The arguments as JSON, from the JSON view."""
        self.page.get_by_role("button", name="Edit as JSON").click()
        value = json.loads(self.page.locator("#mcp-bench-json").input_value())
        self.page.get_by_role("button", name="Edit as a form").click()
        return value


Open = Callable[..., Bench]


@pytest.fixture
def bench(chromium: Browser, server: LiveServer, cookies: Any, keys: Any) -> Iterator[Open]:
    """Open the bench of an entry: ``bench("tool", "echo", "?arguments={}", scheme="dark", width=390)``."""
    contexts: list[BrowserContext] = []
    opened: list[Bench] = []

    def start(kind: str, key: str, query: str = "", scheme: Any = "light", width: int = 1440) -> Bench:
        size: Any = {"width": width, "height": 900}
        context = chromium.new_context(storage_state=cookies, color_scheme=scheme, viewport=size)
        context.set_default_timeout(15_000)
        contexts.append(context)
        visitor = Bench(context.new_page(), f"http://127.0.0.1:{server.port}")
        opened.append(visitor)
        visitor.goto(f"/admin/mcp_app/{kind}/{keys[kind][key]}/try/{query}")
        return visitor

    yield start
    for visitor in opened:
        assert visitor.trouble == []
        assert visitor.page.evaluate("window.pwned ?? null") is None
    for context in contexts:
        context.close()


def _value(page: Page) -> float:
    return float(page.evaluate("document.querySelector('[data-bench-progress] progress').value"))


def test_run_shows_live_progress_and_is_cancelled(bench: Open) -> None:
    visitor = bench("tool", "count")
    visitor.page.get_by_label("to required").fill("600")
    visitor.run()
    expect(visitor.part("progress-text")).to_have_text(re.compile(r"\d+ of 600"))
    before = _value(visitor.page)
    eventually(lambda: _value(visitor.page) > before + 5, 10, "progress on the page")
    picture(visitor.page, "bench-running-light-1440")
    visitor.page.get_by_role("button", name="Cancel").click()
    visitor.ends("cancelled")
    expect(visitor.part("stop")).to_be_hidden()
    expect(visitor.part("runs")).to_contain_text("cancelled")


def test_waiting_run_is_named_so_without_a_number(bench: Open) -> None:
    visitor = bench("tool", "wait_for_approval")
    visitor.run()
    visitor.ends("waiting for approval")
    expect(visitor.part("progress-text")).to_have_text(re.compile("^Waiting for approval"))
    visitor.page.get_by_role("button", name="Cancel").click()
    visitor.ends("cancelled")


def test_elicitation_is_accepted_or_declined(bench: Open) -> None:
    visitor = bench("tool", "ask_name")
    visitor.run()
    question = visitor.page.get_by_role("group", name="The tool asks")
    expect(question).to_contain_text("What is your name?")
    question.get_by_role("button", name="Accept").click()
    expect(question).to_contain_text("A value is needed.")
    question.get_by_label("Name").fill("Ada")
    question.get_by_role("button", name="Accept").click()
    visitor.ends("succeeded")
    expect(visitor.part("output")).to_contain_text("Hello, Ada!")
    visitor.run()
    question.get_by_role("button", name="Decline").click()
    visitor.ends("failed")
    expect(visitor.part("output")).to_contain_text("The tool returned an error")


def test_sampling_is_answered_by_the_user(bench: Open) -> None:
    visitor = bench("tool", "ask_model")
    visitor.run()
    question = visitor.page.get_by_role("group", name="The tool asks the client's model")
    expect(question).to_contain_text("What is the capital of France?")
    question.get_by_label("Response of the model").fill("Paris")
    question.get_by_role("button", name="Send").click()
    visitor.ends("succeeded")
    expect(visitor.part("output")).to_contain_text("Paris")


def test_elicited_url_is_a_link_the_user_opens(bench: Open) -> None:
    visitor = bench("tool", "ask_visit")
    visitor.run()
    question = visitor.page.get_by_role("group", name="The tool asks for a visit")
    link = question.get_by_role("link", name="https://example.com/pay?a=1")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(link).to_have_attribute("target", "_blank")
    question.get_by_role("button", name="I did").click()
    visitor.ends("succeeded")
    expect(visitor.part("output")).to_contain_text("accept")


def test_catalogue_change_is_shown_on_the_page(bench: Open, server: LiveServer) -> None:
    visitor = bench("tool", "echo", '?arguments={"text":"hi"}')
    visitor.run()
    visitor.ends("succeeded")
    server.shell("""
from mcp_app.catalogue.changes.services import set_enabled
from mcp_app.models import Tool
set_enabled(entries=[Tool.objects.get(name="burn")], enabled=False, actor=None)
""")
    expect(visitor.part("trouble")).to_contain_text("The catalogue has changed", timeout=10_000)


def test_broken_stream_is_resumed(bench: Open) -> None:
    visitor = bench("tool", "broken_stream")
    visitor.run()
    visitor.ends("succeeded")
    expect(visitor.part("output")).to_contain_text("resumed")
    expect(visitor.part("log")).to_contain_text("before")


def test_ended_session_is_replaced_by_a_new_one(bench: Open, server: LiveServer) -> None:
    visitor = bench("tool", "echo", '?arguments={"text":"still here"}')
    visitor.run()
    visitor.ends("succeeded")
    end = """
from mcp_app.models import Session
from mcp_app.sessions.services import end_session_now
eventually = [session for session in Session.objects.filter(ended_at=None, client_name="Test bench")]
print([end_session_now(session_id=session.pk) for session in eventually])
"""
    eventually(lambda: "True" in server.shell(end), 10, "a session to end")
    visitor.run()
    expect(visitor.part("runs").locator("[data-duration=round-trip]")).to_have_count(2)
    visitor.ends("succeeded")
    visitor.trouble.clear()  # The browser itself logs the 404 of the old session.


def test_nested_form_round_trips_its_value(bench: Open) -> None:
    visitor = bench("tool", "order")
    page = visitor.page
    fresh = {"count": 2, "address": {"country": "ch"}, "items": [{}], "gift": False}
    assert visitor.json == fresh
    page.get_by_label("Customer").fill("Ada")
    page.get_by_label("street").fill("Main Street 1")
    page.get_by_label("country").select_option("France")
    page.get_by_label("sku").fill("a-1")
    page.get_by_label("price").fill("1.5")
    page.get_by_role("button", name="Add an item").click()
    page.get_by_label("sku").nth(1).fill("b")
    page.get_by_label("green").check()
    pay = page.get_by_role("group", name="pay")
    pay.get_by_role("button", name="Add").click()
    pay.get_by_label("Which alternative").select_option("by invoice")
    assert visitor.json == {
        **fresh,
        "customer": "Ada",
        "address": ORDER["address"],
        "items": ORDER["items"],
        "colours": ["green"],
        "pay": {"kind": "invoice", "days": 30},
    }
    page.get_by_role("button", name="Edit as JSON").click()
    page.locator("#mcp-bench-json").fill(json.dumps(ORDER))
    page.get_by_role("button", name="Edit as a form").click()
    expect(page.get_by_label("Other members")).to_have_value(re.compile("unforeseen"))
    expect(page.get_by_label("due")).to_have_value("2026-12-24")
    picture(page, "bench-form-light-1440")
    assert visitor.json == ORDER
    visitor.run()
    visitor.ends("succeeded")
    expect(visitor.part("output")).to_contain_text("Main Street 1")


def test_validation_error_appears_beside_the_field(bench: Open) -> None:
    arguments = {**ORDER, "items": [{"sku": "a"}, {"sku": "b", "price": "dear"}]}
    visitor = bench("tool", "order", f"?arguments={quote(json.dumps(arguments))}", "dark", 390)
    visitor.run()
    visitor.ends("refused")
    wrong = visitor.page.locator(".mcp-bench-field", has=visitor.page.get_by_label("price")).nth(1)
    expect(wrong.get_by_role("alert")).to_have_text("Enter a number.")
    expect(visitor.page.locator(".mcp-bench-error:visible")).to_have_count(1)
    picture(visitor.page, "bench-error-dark-390")
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_invalid_json_is_not_sent(bench: Open) -> None:
    visitor = bench("tool", "order")
    visitor.page.get_by_label("anything").fill("{nope")
    visitor.run()
    expect(visitor.page.locator(".mcp-bench-error:visible")).to_contain_text("Not JSON")
    visitor.page.get_by_label("anything").fill("null")
    visitor.page.get_by_role("button", name="Edit as JSON").click()
    visitor.page.locator("#mcp-bench-json").fill("[1]")
    visitor.run()
    expect(visitor.part("json-error")).to_have_text("Must be an object: { … }")
    expect(visitor.part("state")).to_have_text("not run yet")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_every_kind_of_content_is_rendered(scheme: str, width: int, bench: Open) -> None:
    visitor = bench("tool", "every_content", "", scheme, width)
    visitor.run()
    visitor.ends("succeeded")
    output = visitor.part("output")
    expect(output.get_by_role("heading", name="Report")).to_be_visible()
    expect(output.locator(".mcp-bench-tree").first).to_contain_text("a: [2]")
    assert output.locator("img").evaluate(
        "async image => { await image.decode(); return image.naturalWidth }"
    )
    output.locator("audio").evaluate(
        "async sound => { while (!(sound.duration > 0)) await new Promise(requestAnimationFrame) }"
    )
    expect(output).to_contain_text("inside")
    output.get_by_role("button", name="Read it").click()
    expect(output.get_by_role("heading", name="Today")).to_be_visible()
    picture(visitor.page, f"bench-contents-{scheme}-{width}")
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_hostile_text_is_escaped_in_the_bench(bench: Open) -> None:
    visitor = bench("tool", "hostile", "", "dark", 390)
    page = visitor.page
    visitor.run()
    question = page.get_by_role("group", name="The tool asks")
    expect(question).to_contain_text(HOSTILE["script"])
    question.get_by_role("button", name="Accept").click()
    visitor.ends("succeeded")
    visitor.part("wire").locator("summary").click()
    as_text = page.get_by_role("button", name="As text")
    while as_text.count():
        as_text.first.click()
    page.get_by_role("button", name="Copy as curl / Python").click()
    expect(visitor.part("snippets")).to_contain_text("curl")
    for name in ("fields", "output", "log", "progress-text", "messages", "snippets"):
        text = visitor.part(name).inner_text()
        assert not [f"U+{ord(each):04X}" for each in RAW_HIDDEN if each in text], name
    # Marks instead of hidden characters; an address with a script is not a link.
    expect(visitor.part("output")).to_contain_text("safeU+202Egnp.exe")
    assert page.locator("[data-bench] a[href^='javascript:']").count() == 0
    assert HOSTILE["svg"] in page.locator("[data-bench-fields] textarea").first.input_value()
    picture(page, "bench-hostile-dark-390")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("Object.prototype.text ?? null") is None


def test_run_is_saved_as_a_preset(bench: Open) -> None:
    visitor = bench("tool", "echo")
    page = visitor.page
    page.get_by_label("text").fill("as <b>ever</b>")
    visitor.run()
    visitor.ends("succeeded")
    page.get_by_role("button", name="Add preset").click()
    page.wait_for_url("**/tool/add/**")
    visitor.drawn()
    page.fill("#id_name", "as_ever")
    page.click("[name=_save]")
    page.wait_for_url("**/admin/mcp_app/tool/")
    page.get_by_role("link", name="as_ever").first.click()
    visitor.drawn()
    page.get_by_role("link", name="Test bench").click()
    visitor.drawn()
    expect(visitor.part("fields")).to_contain_text("It takes no arguments.")
    visitor.run()
    visitor.ends("succeeded")
    expect(visitor.part("output")).to_contain_text("as <b>ever</b>")


def test_run_as_another_user_has_its_permissions_and_is_audited(bench: Open, server: LiveServer) -> None:
    visitor = bench("tool", "whoami")
    visitor.run()
    visitor.ends("succeeded")
    expect(visitor.part("output")).to_contain_text("root")
    visitor.page.get_by_label("Run as").fill("viewer")
    visitor.run()
    expect(visitor.part("output")).to_contain_text("Unknown tool: whoami")
    visitor.ends("refused")
    visitor.page.get_by_label("Run as").fill("nobody")
    visitor.run()
    expect(visitor.part("output")).to_contain_text("There is no such user.")
    visitor.trouble.clear()  # The browser itself logs the refusal (403).
    audited = """
from mcp_app.models import AuditEvent
events = AuditEvent.objects.filter(action="bench.run_as")
print([*events.values_list("actor_name", "object_key")])
"""
    assert "[('root', 'viewer')]" in server.shell(audited)


def test_runs_are_stored_reloaded_and_compared(bench: Open) -> None:
    visitor = bench("tool", "calculate")
    page = visitor.page
    for expression in ("1 + 1", "1 + 2"):
        page.get_by_label("expression").fill(expression)
        visitor.run()
        expect(visitor.part("runs").get_by_text(re.compile("^run ")).first).to_be_visible()
        visitor.ends("succeeded")
    names = visitor.part("runs").get_by_text(re.compile("^run ")).all_text_contents()
    for box in page.get_by_label(re.compile("^Compare run ")).all():
        box.check()
    compared = visitor.part("compared")
    expect(compared.locator(".mcp-removed").first).to_have_text('      "text": "2",')
    expect(compared.locator(".mcp-added").first).to_have_text('      "text": "3",')
    picture(page, "bench-compare-light-1440")

    def logged() -> int:
        visitor.goto(page.url.removeprefix(visitor.base))
        return visitor.part("runs").locator("li").count()

    eventually(lambda: logged() == 2, 10, "both runs in the log")
    expect(visitor.part("runs").locator("[data-duration=server]")).to_have_count(2)
    page.get_by_label("expression").fill("1 + 3")
    visitor.run()
    visitor.ends("succeeded")
    # A new run has another name, and a duration of another kind, than those before.
    new = visitor.part("runs").locator("li", has=page.locator("[data-duration=round-trip]"))
    expect(new).to_have_count(1)
    assert new.get_by_text(re.compile("^run ")).text_content() not in names
    assert len({*names}) == 2
    page.get_by_role("button", name="Load these arguments").last.click()
    expect(page.get_by_label("expression")).to_have_value("1 + 1")
    link = visitor.part("runs").get_by_role("link", name=re.compile("^run ")).last
    name = link.inner_text()
    (message,) = re.findall(r"/message/(\d+)/", link.get_attribute("href") or "")
    visitor.goto(f"{page.url.removeprefix(visitor.base)}?message={message}")
    expect(page.get_by_label("expression")).to_have_value("1 + 1")
    page.get_by_label("expression").fill("1 + 4")
    visitor.run()
    # A replayed call is compared with its new result.
    expect(compared.locator(".mcp-added").first).to_have_text('      "text": "5",')
    expect(compared.locator("th").first).to_have_text(name)


def test_prompt_argument_is_completed_and_prompt_rendered(bench: Open) -> None:
    visitor = bench("prompt", "travel")
    visitor.page.get_by_label("city").press_sequentially("ber")
    suggestions = visitor.page.locator(".mcp-bench-suggestions")
    expect(suggestions.get_by_role("button")).to_have_text(["Bern", "Berlin"])
    suggestions.get_by_role("button", name="Berlin").click()
    visitor.run()
    visitor.ends("succeeded")
    expect(visitor.part("output")).to_contain_text("Plan a journey to Berlin")
    visitor.page.get_by_label("city").fill("")
    assert visitor.json == {"city": ""}


def test_missing_prompt_argument_is_reported_beside_the_field(bench: Open) -> None:
    visitor = bench("prompt", "travel")
    visitor.run()
    visitor.ends("failed")
    expect(visitor.page.locator(".mcp-bench-error:visible")).to_have_text("A value is needed.")


def test_template_uri_is_built_and_resource_read(bench: Open) -> None:
    visitor = bench("resourcetemplate", "demo://greeting/{name}")
    visitor.page.get_by_label("name").fill("Ada & Bob?")
    visitor.run()
    visitor.ends("succeeded")
    expect(visitor.part("output")).to_contain_text("demo://greeting/Ada%20%26%20Bob%3F")
    expect(visitor.part("output")).to_contain_text("Hello, Ada & Bob?!")
    expect(visitor.part("mode")).to_be_visible()
    visitor = bench("resource", "notes://today")
    expect(visitor.part("mode")).to_be_hidden()
    visitor.run()
    visitor.ends("succeeded")
    expect(visitor.part("output").get_by_role("listitem")).to_have_text(["bread", "milk"])


def test_leaving_the_page_ends_the_session(bench: Open, server: LiveServer) -> None:
    visitor = bench("tool", "get_timestamp")
    visitor.run()
    visitor.ends("succeeded")
    visitor.goto("/admin/")
    code = """
from mcp_app.models import Session
last = Session.objects.filter(client_name="Test bench").latest("created_at")
print(last.principal, last.end_reason)
"""
    eventually(lambda: "/bench ended by the client" in server.shell(code), 10, "the end of the session")


def test_crash_shows_its_exception_in_the_bench_and_on_its_pages(bench: Open, server: LiveServer) -> None:
    for name, number in (("customer", "x"), ("customer_later", "x"), ("customer", "C-2")):
        page = bench("tool", name)
        page.page.get_by_label("number", exact=False).first.fill(number)
        page.run()
        page.ends("failed")
        shown = page.part("output").locator("[data-failure] pre")
        expect(shown).to_be_visible()
        expect(shown).to_contain_text("ValueError" if number == "x" else "KeyError: 'C-2'")
        expect(shown).to_contain_text("tests/browser/crash_app/mcp.py:")
        expect(shown).to_contain_text("in name_of")
        assert "hunter2" not in page.page.content()
        assert "\u202e" not in page.part("output").inner_text()
        if number == "x":
            expect(shown).to_contain_text("U+202E")
        assert page.trouble == []
    call = server.shell("from mcp_app.models import Call; print(Call.objects.get(tool='customer_later').pk)")
    page.goto(f"/admin/mcp_app/call/{call.strip()}/change/")
    expect(page.page.locator("[data-failure] pre")).to_contain_text("in customer_later")


def test_cut_result_shows_its_sizes_and_pages(bench: Open) -> None:
    page = bench("tool", "long_rows", f"?arguments={quote(json.dumps({'count': 400}))}")
    page.run()
    page.ends("succeeded")
    expect(page.part("output").locator("[data-cut]")).to_contain_text("1.5 KiB of 11 KiB")
    read = page.part("output").get_by_role("button", name="Read it")
    read.click()
    expect(page.part("output").get_by_text("Page 1 of")).to_be_visible()
