"""The live console in a real browser: watching, filtering and acting on a session of another process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from mcp_app.admin.markup import from_now
from tests.browser.axe import seen
from tests.browser.conftest import Visit, Visitor, opened_pages, picture, sign_in
from tests.browser.hands import Keys, Mouse
from tests.clients.raw_http import Mcp
from tests.servers.live import LiveServer, eventually

# The hostile rows of the seed; the demo's tools stay.
MAKE = """
from django.contrib.auth import get_user_model
from tests.samples.admin_seed import hostile_traffic
hostile_traffic(get_user_model().objects.get(username="root"))
"""
ACTIVE = """
from django.contrib.auth import get_user_model
get_user_model().objects.filter(username="viewer").update(is_active={})
"""
HOSTILE_SESSION = f"{9:032x}"
SLOW = 30_000
# Returns true if a select is as wide as its longest choice.
IS_WHOLE = """field => {
  const whole = field.cloneNode(true);
  whole.style.cssText = "flex: none; width: max-content";
  field.after(whole);
  const wide = whole.offsetWidth;
  whole.remove();
  return field.offsetWidth >= wide;
}"""


@pytest.fixture(scope="module")
def server(two_processes: LiveServer) -> LiveServer:
    """Return a server with separate processes for browsers and clients, and hostile rows."""
    two_processes.shell(MAKE)
    return two_processes


@pytest.fixture(scope="module")
def logins(chromium: Browser, server: LiveServer) -> dict[str, Any]:
    """Return the cookies of the superuser and of a viewer."""
    return {
        role: sign_in(chromium, f"http://127.0.0.1:{server.ports[0]}", role) for role in ("root", "viewer")
    }


@pytest.fixture
def open_page(chromium: Browser, server: LiveServer, logins: dict[str, Any]) -> Iterator[Visit]:
    """Return a factory of logged-in pages."""
    with opened_pages(chromium, f"http://127.0.0.1:{server.ports[0]}", logins) as start:
        yield start


@pytest.fixture
def client(server: LiveServer) -> Iterator[Mcp]:
    """Open a client at another process than the browser's."""
    with closing(server.mcp(1)) as made:
        made.initialize()
        yield made


def _echo(client: Mcp, text: str) -> None:
    client.call("tools/call", {"name": "echo", "arguments": {"text": text}})


def _watch(visitor: Visitor, client: Mcp, query: str = "") -> Page:
    path = f"/console/sessions/{client.session}/{query}"
    # A web process writes the opening of a session after its response.
    asked = visitor.page.request
    eventually(lambda: asked.get(visitor.base + path).status == 200, 30, "the session is known")
    page = visitor.goto(path)
    expect(page.locator("#mcp-connection")).to_have_text("live", timeout=SLOW)
    expect(_lines(page).first).to_be_visible(timeout=SLOW)
    return page


def _lines(page: Page, **more: Any) -> Any:
    return page.locator("#mcp-lines .mcp-line", **more)


def test_session_list_updates_live(open_page: Visit, server: LiveServer, client: Mcp) -> None:
    visitor = open_page()
    page = visitor.goto("/admin/mcp_app/session/?live=1")
    expect(page.locator("#mcp-connection")).to_have_text("live", timeout=SLOW)
    mine = page.locator(f'tr[data-session="{client.session}"]')
    expect(mine).to_contain_text("raw 1", timeout=SLOW)
    expect(mine.locator('[data-name="protocol"]')).to_have_text("2025-11-25")
    assert page.locator("#mcp-state").evaluate(IS_WHOLE)
    with closing(server.mcp(1)) as another:
        another.initialize()
        row = page.locator(f'tr[data-session="{another.session}"]')
        expect(row).to_contain_text("raw 1")
        assert page.locator("#mcp-rows tr").first.get_attribute("data-session") == another.session
        with closing(another.via(server.ports[1])) as listening, listening.get_stream():
            expect(row).to_contain_text("1 listening", timeout=SLOW)
            count = page.locator("#mcp-count")
            expect(count).not_to_contain_text("of sessions that")
            page.fill("#mcp-search", str(client.session))
            expect(count).to_contain_text("of sessions that are not in this list", timeout=SLOW)
            page.fill("#mcp-search", "")
            expect(row).to_be_visible(timeout=SLOW)
        # A session that is used again comes first when the list is reloaded.
        _echo(client, "hello")

        def is_first() -> bool:
            page.select_option("#mcp-state", "idle")
            page.select_option("#mcp-state", "open")
            return page.locator("#mcp-rows tr").first.get_attribute("data-session") == client.session

        eventually(is_first, 30.0, "the session that was used last is first")
        page.fill("#mcp-search", str(another.session))
        expect(page.locator("#mcp-rows tr")).to_have_count(1)
        another.delete()
        expect(row).to_contain_text("ended")
        expect(row).to_contain_text("ended by the client")
    assert visitor.trouble == []


def test_keyboard_focus_survives_reloading_the_session_list(open_page: Visit, client: Mcp) -> None:
    page = open_page().goto("/admin/mcp_app/session/?live=1")
    row = page.locator(f'tr[data-session="{client.session}"]')
    row.locator("[data-name=client] a").focus()
    page.evaluate("window.stood = document.activeElement")
    page.evaluate("document.getElementById('mcp-note').textContent = 'reading'")
    page.evaluate("document.getElementById('mcp-search').dispatchEvent(new Event('input'))")
    expect(page.locator("#mcp-note")).to_be_empty(timeout=SLOW)
    assert page.evaluate("window.stood === document.activeElement")
    client.delete()
    expect(row).to_contain_text("ended", timeout=SLOW)
    expect(row.locator("[data-name=client] a")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{client.session}/**")


def test_session_messages_are_watched_filtered_paused_and_pinned(open_page: Visit, client: Mcp) -> None:
    visitor = open_page(permissions=["clipboard-read", "clipboard-write"])
    _echo(client, "before anybody watched")
    page = _watch(visitor, client)
    expect(_lines(page, has_text="before anybody watched")).to_have_count(1, timeout=SLOW)
    _echo(client, "while it is watched")
    expect(_lines(page, has_text="while it is watched")).to_have_count(1)
    client.call("tools/call", {"name": "calculate", "arguments": {"expression": "1/0"}})
    expect(_lines(page, has_text="Division by zero")).to_have_count(1)
    # Filtered: stored messages and new ones.
    page.fill("#mcp-search", "tool:echo watched")
    expect(_lines(page)).to_have_count(2)
    _echo(client, "not looked for")
    _echo(client, "looked for: watched")
    expect(_lines(page)).to_have_count(3)
    page.fill("#mcp-search", "tol:echo")
    expect(page.locator("#mcp-problems")).to_contain_text("Unknown search term “tol:”")
    expect(_lines(page)).to_have_count(0)
    expect(page.locator("#mcp-empty")).to_have_text("No results.")
    page.fill("#mcp-search", "tool:echo unheard-of")
    expect(page.locator("#mcp-empty")).to_have_text("No messages match.")
    page.fill("#mcp-search", "")
    page.select_option("#mcp-method", "initialize")
    expect(_lines(page)).to_have_count(1)
    page.select_option("#mcp-method", "")
    expect(_lines(page, has_text="not looked for")).to_have_count(1)
    # Paused: the list stays, and new messages are counted.
    page.click("#mcp-pause")
    for number in range(3):
        _echo(client, f"paused {number}")
    expect(page.locator("#mcp-new")).to_have_text("3 new")
    expect(_lines(page, has_text="paused")).to_have_count(0)
    page.click("#mcp-new")
    expect(_lines(page, has_text="paused")).to_have_count(3)
    # Selected, pinned and linked.
    line = _lines(page, has_text="while it is watched")
    line.click()
    detail = page.locator("#mcp-detail")
    expect(detail.locator(".mcp-pre").first).to_contain_text('"text": "while it is watched"')
    detail.get_by_role("button", name="Copy link").click()
    expect(detail.get_by_role("button", name="Copied")).to_be_visible()
    address = page.evaluate("navigator.clipboard.readText()")
    detail.get_by_role("button", name="Pin").click()
    page.reload()
    expect(page.locator("#mcp-pins .mcp-line")).to_contain_text("while it is watched")
    page.goto(address)
    expect(page.locator("#mcp-lines .mcp-chosen")).to_contain_text("while it is watched")
    expect(detail.locator(".mcp-pre").first).to_contain_text('"text": "while it is watched"')
    assert visitor.trouble == []


def test_messages_of_all_sessions_show_their_client(open_page: Visit, client: Mcp) -> None:
    visitor = open_page()
    # A text unique to this test: until the search is applied, the list contains lines of other sessions.
    _echo(client, "of one of many, before")
    page = visitor.goto("/admin/mcp_app/message/?live=1")
    page.fill("#mcp-search", f"session:{client.session}")
    # The search is applied: lines are replaced then, and an earlier click would be lost.
    expect(_lines(page)).to_have_count(3, timeout=SLOW)
    line = page.locator("#mcp-lines .mcp-line", has_text="of one of many, before")
    expect(line.locator(".mcp-line-client")).to_have_text(client.client_name, timeout=SLOW)
    _echo(client, "of one of many, after")
    line = page.locator("#mcp-lines .mcp-line", has_text="of one of many, after")
    expect(line.locator(".mcp-line-client")).to_have_text(client.client_name, timeout=SLOW)
    line.click()
    facts = page.locator("#mcp-detail .mcp-facts")
    expect(facts).to_contain_text("Client", timeout=SLOW)
    expect(facts).to_contain_text(client.client_name, timeout=SLOW)
    assert visitor.trouble == []


def test_running_call_shows_progress_and_is_cancelled(open_page: Visit, client: Mcp) -> None:
    visitor = open_page()
    page = _watch(visitor, client)
    params = {
        "name": "count",
        "arguments": {"to": 600, "delay_seconds": 0.1},
        "_meta": {"progressToken": "p"},
    }
    with client.open_call("tools/call", params) as stream:
        running = _lines(page, has_text="running")
        expect(running).to_contain_text("count", timeout=SLOW)
        expect(running.locator(".mcp-line-dir")).to_have_text("⋯no response yet")
        expect(_lines(page, has_text="of 600").first).to_be_visible()
        expect(page.locator("#mcp-running li")).to_contain_text("count")
        running.click()
        detail = page.locator("#mcp-detail")
        expect(detail.locator(".mcp-line").first).to_contain_text("notifications/progress")
        picture(page, "console-running-light-1440")
        detail.get_by_role("button", name="Cancel this call").click()
        detail.get_by_role("alertdialog").get_by_role("button", name="Cancel the call").click()
        # The answer replaces the mark, in the list and in the detail.
        answer = page.locator('#mcp-lines .mcp-line[data-kind="request"]', has_text="count")
        expect(answer.locator(".mcp-status")).to_have_text("cancelled", timeout=SLOW)
        expect(running).to_have_count(0)
        expect(detail.locator(".mcp-detail-head")).to_contain_text("cancelled")
        expect(page.locator("#mcp-running")).to_be_hidden(timeout=SLOW)
        while (message := stream.message()) is not None and "error" not in message:
            pass
    assert message is not None
    assert visitor.trouble == []


def test_finished_call_is_no_longer_found_as_running(open_page: Visit, client: Mcp) -> None:
    visitor = open_page()
    page = visitor.goto(f"/admin/mcp_app/message/?live=1&q=kind:running%20session:{client.session}")
    expect(page.locator("#mcp-connection")).to_have_text("live", timeout=SLOW)
    params = {"name": "count", "arguments": {"to": 20, "delay_seconds": 0.1}, "_meta": {"progressToken": "p"}}
    with client.open_call("tools/call", params) as stream:
        expect(_lines(page)).to_have_count(1, timeout=SLOW)
        assert "result" in stream.messages(60)[-1]
    # Its answer does not match the search.
    expect(_lines(page)).to_have_count(0, timeout=SLOW)
    expect(page.locator("#mcp-empty")).to_be_visible()
    page.fill("#mcp-search", f"session:{client.session} tool:count -method:notifications/progress")
    expect(_lines(page)).to_have_count(1, timeout=SLOW)
    expect(_lines(page).locator(".mcp-status")).to_have_text("succeeded")
    assert visitor.trouble == []


CAME = """async (times) => {
  // The page may have loaded a bundle instead; the source is served in any case.
  const page = document.querySelector("script[type=module][src*='console/messages']").src;
  const { List } = await import(new URL("list.js", page));
  const list = new List({ across: false, onScroll() {}, onReplaced() {} });
  list.clear();
  const row = (seconds) => ({
    key: `turn-${seconds}`, at: Date.now() - 60000 + seconds * 1000, dir: "in", kind: "request", skipped: 0,
    method: "ping", id: String(seconds), target: "", status: "ok", ms: 1, summary: "", session: "s", who: "",
  });
  for (const batch of times) list.append(batch.map(row));
  return [...list.list.querySelectorAll(".mcp-line")].map((line) => line.dataset.key.slice(5)).join("");
}"""


def test_late_line_is_inserted_by_time(open_page: Visit, client: Mcp) -> None:
    page = _watch(open_page(), client)
    assert page.evaluate(CAME, [[2, 4], [1, 3], [5]]) == "12345"


@pytest.mark.parametrize("hands", [Mouse, Keys], ids=lambda hands: hands.name)
def test_cancel_confirmation_survives_updates_and_keeps_the_focus(
    hands: type[Mouse], open_page: Visit, server: LiveServer, client: Mcp
) -> None:
    visitor = open_page()
    page = _watch(visitor, client)
    at = hands(page)
    running = page.locator("#mcp-running li")
    asked = {"name": "count", "arguments": {"to": 600, "delay_seconds": 0.1}}
    with client.open_call("tools/call", {**asked, "_meta": {"progressToken": "p"}}) as stream:
        cancel = running.get_by_role("button", name="Cancel", exact=True)
        at.press(cancel)
        question = page.get_by_role("alertdialog", name=re.compile("Cancel this call.*is notified"))
        keep = question.get_by_role("button", name="Keep it running")
        expect(keep).to_be_focused()
        # The list is redrawn when another call starts and ends: the confirmation stays, with the focus.
        with (
            closing(client.via(server.ports[0])) as other,
            other.open_call("tools/call", {**asked, "_meta": {"progressToken": "q"}}),
        ):
            expect(running).to_have_count(2, timeout=SLOW)
            expect(keep).to_be_focused()
            assert seen(page) == []
            picture(page, f"console-question-{at.name}")
            other.notify("notifications/cancelled", {"requestId": other.next_id})
            expect(running).to_have_count(1, timeout=SLOW)
        expect(keep).to_be_focused()
        at.press(keep)
        expect(question).to_have_count(0)
        expect(cancel).to_be_focused()
        at.press(cancel)
        at.press(question.get_by_role("button", name="Cancel the call"))
        assert "error" in stream.messages(60)[-1]
        expect(page.locator("#mcp-running")).to_be_hidden(timeout=SLOW)
        # Keyboard users are not sent to the top of the page.
        expect(page.locator("#mcp-scroll")).to_be_focused()
    assert visitor.trouble == []


def test_busy_session_shows_a_bounded_number_of_lines(open_page: Visit, client: Mcp) -> None:
    visitor = open_page()
    page = _watch(visitor, client)
    for number in range(1_100):
        _echo(client, f"number {number}")
    expect(_lines(page, has_text="number 1099")).to_have_count(1, timeout=SLOW)
    assert page.locator("#mcp-lines > li").count() <= 1_000
    assert visitor.trouble == []


def test_connection_recovers_after_a_restart(open_page: Visit, server: LiveServer, client: Mcp) -> None:
    visitor = open_page()
    page = _watch(visitor, client)
    server.restart(0)
    _echo(client, "after the restart")
    expect(_lines(page, has_text="after the restart")).to_have_count(1, timeout=SLOW)
    expect(page.locator("#mcp-connection")).to_have_text("live")
    assert [
        trouble for trouble in visitor.trouble if "WebSocket" not in trouble and "REFUSED" not in trouble
    ] == []


def test_messages_missed_by_a_paused_page_are_counted(
    open_page: Visit, server: LiveServer, client: Mcp
) -> None:
    page = _watch(open_page(), client)
    page.click("#mcp-pause")
    _echo(client, "paused 0")
    expect(page.locator("#mcp-new")).to_have_text("1 new", timeout=SLOW)
    with server.without(0):
        for number in (1, 2):
            _echo(client, f"paused {number}")
    expect(page.locator("#mcp-new")).to_have_text("3 new", timeout=SLOW)
    expect(_lines(page, has_text="paused")).to_have_count(0)
    page.click("#mcp-new")
    expect(_lines(page, has_text="paused")).to_have_count(3)


def test_session_is_ended_from_its_page(open_page: Visit, client: Mcp) -> None:
    visitor = open_page()
    page = _watch(visitor, client)
    page.get_by_role("button", name="End session").click()
    page.get_by_role("button", name="End the session").click()
    expect(page.locator("#mcp-state")).to_have_text("ended")
    expect(page.locator("[data-fact=reason]")).to_have_text("by an administrator")
    # The page is still connected, but nothing of this session is live.
    expect(page.locator("#mcp-connection")).to_have_text("ended")
    expect(page.locator("#mcp-connection")).to_have_class("mcp-badge mcp-badge-plain")
    assert client.post(client.request_message("ping")).status == 404
    assert visitor.trouble == []


def test_page_shows_that_access_was_lost(open_page: Visit, server: LiveServer, client: Mcp) -> None:
    visitor = open_page(role="viewer")
    page = _watch(visitor, client)
    assert page.locator("#mcp-end, #mcp-running .mcp-danger").count() == 0
    server.shell(ACTIVE.format(False))
    expect(page.locator("#mcp-connection")).to_have_text("access denied", timeout=SLOW)
    server.shell(ACTIVE.format(True))


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_console_pages_fit_and_escape_hostile_text(
    scheme: str, width: int, open_page: Visit, client: Mcp
) -> None:
    _echo(client, "<script>window.pwned=8</script> \u202e")
    visitor = open_page(scheme=scheme, width=width)
    pages = {
        "sessions": "/admin/mcp_app/session/?live=1",
        "session": f"/console/sessions/{client.session}/",
        "messages": "/admin/mcp_app/message/?live=1",
        "hostile": f"/console/sessions/{HOSTILE_SESSION}/",
    }
    for name, path in pages.items():
        page = visitor.goto(path)
        connection = "ended" if name == "hostile" else "live"
        expect(page.locator("#mcp-connection")).to_have_text(connection, timeout=SLOW)
        if name == "sessions":
            expect(page.locator("#mcp-rows tr").first).to_be_visible()
        else:
            _lines(page).last.click()
            expect(page.locator("#mcp-detail .mcp-pre").first).to_be_visible()
        wide, window, pwned = page.evaluate(
            "[document.documentElement.scrollWidth, window.innerWidth, window.pwned ?? null]"
        )
        picture(page, f"console-{name}-{scheme}-{width}")
        assert wide <= window, f"{name} is {wide} px wide in a window of {window}"
        assert pwned is None, f"{name} executed stored text"
        assert visitor.trouble == [], name
    expect(_lines(page).first.locator(".mcp-mark").first).to_have_text(re.compile("^U\\+"))


def test_download_contains_the_search_results(open_page: Visit, client: Mcp) -> None:
    visitor = open_page()
    _echo(client, "taken home")
    page = _watch(visitor, client)
    page.fill("#mcp-search", "home")
    expect(_lines(page)).to_have_count(1, timeout=SLOW)

    def stored() -> str:
        answer = page.request.get(f"{visitor.base}{page.locator('#mcp-jsonl').get_attribute('href')}")
        return answer.text()

    # The download contains stored messages; the worker stores them a moment later.
    for _ in range(100):
        if text := stored():
            break
        page.wait_for_timeout(100)
    assert json.loads(text)["message"]["params"]["arguments"] == {"text": "taken home"}
    assert visitor.trouble == []


def test_last_seen_is_written_as_on_all_pages(open_page: Visit) -> None:
    page = open_page().goto("/console/")
    module = (
        "async (ages) => { const { ago } = await import('/static/mcp_app/times.js'); return ages.map(ago); }"
    )
    seconds = [0.9, 32.1, 61, 3_599, 7_200, 90_000, 200_000]
    shown = page.evaluate(module, [1000 * each for each in seconds])
    assert shown == ["0 s ago", "32 s ago", "1 min ago", "59 min ago", "2 h ago", "1 day ago", "2 days ago"]
    now = datetime.now(UTC)
    assert shown == [from_now(now - timedelta(seconds=each)) for each in seconds]
