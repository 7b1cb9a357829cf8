"""An administrator requires approval for a tool, the official client calls it, and operators decide."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Visit, opened_pages, picture, sign_in
from tests.servers.live import LiveServer, eventually

QUEUE = "/admin/mcp_app/approval/"
CARD = "[data-decision]"
END_WAITING = """
from mcp_app.execution.services import cancel_call
from mcp_app.models import Call
for pk in Call.objects.filter(state="approval_needed").values_list("pk", flat=True):
    cancel_call(call_id=pk, actor=None)
"""
LEAKED = """
import json
from django.contrib.auth import get_user_model
from mcp_app.auth.api_keys import issue_api_key
key, secret = issue_api_key(user=get_user_model().objects.get(username="root"), name="leaked")
print(json.dumps([key.pk, secret]))
"""
DECIDED = """
from mcp_app.models import Call
call = Call.objects.get(api_key_id={key})
print(call.decision, call.started_at)
"""


@pytest.fixture(scope="module")
def server(two_processes: LiveServer) -> LiveServer:
    """Return a server with separate processes for browsers and clients."""
    return two_processes


@pytest.fixture(scope="module")
def logins(chromium: Browser, server: LiveServer) -> dict[str, Any]:
    """Return the cookies of the superuser."""
    return {"root": sign_in(chromium, f"http://127.0.0.1:{server.ports[0]}", "root")}


@pytest.fixture(scope="module")
def open_page(chromium: Browser, server: LiveServer, logins: dict[str, Any]) -> Iterator[Visit]:
    """Return a factory of logged-in pages."""
    with opened_pages(chromium, f"http://127.0.0.1:{server.ports[0]}", logins) as start:
        yield start


@pytest.fixture(scope="module", autouse=True)
def _marked(open_page: Visit) -> None:
    """Require approval on the page of the tool ``count``."""
    visitor = open_page()
    page = visitor.goto("/admin/mcp_app/tool/?q=count")
    page.locator("#result_list a", has_text="count").first.click()
    page.click("[data-tabs] a[href='#access']")
    page.check("#id_needs_approval")
    page.fill("#id_approval_minutes", "30")
    page.locator("[name=_save]").first.click()
    expect(page.locator("body")).to_contain_text("was changed successfully")
    page = visitor.goto("/admin/mcp_app/tool/?q=count")
    page.locator("#result_list a", has_text="count").first.click()
    expect(page.locator("#id_needs_approval")).to_be_checked()
    picture(page, "tool-approval-light-1440")
    assert visitor.trouble == []


@pytest.fixture(autouse=True)
def _end_waiting_calls(server: LiveServer) -> Iterator[None]:
    """End the calls that a failed test leaves, which would fail all later tests."""
    yield
    server.shell(END_WAITING)


@dataclass
class Asking:
    """A call of ``count`` by the official client in a thread, waiting without a timeout."""

    port: int
    to: int = 5
    heard: list[tuple[float, str | None]] = field(default_factory=list)
    result: Any = None
    failure: Exception | None = None

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        eventually(lambda: self.heard or self.failure, 30, "the first word of the server")

    def _run(self) -> None:
        try:
            self.result = asyncio.run(self._call())
        except Exception as error:  # noqa: BLE001 - shown by the test that waits for the answer
            self.failure = error

    async def _call(self) -> Any:
        async def hear(progress: float, total: float | None, message: str | None) -> None:
            self.heard.append((progress, message))

        arguments = {"to": self.to, "delay_seconds": 0.05}
        async with Client(f"http://127.0.0.1:{self.port}/mcp", mode="legacy") as client:
            return await client.call_tool("count", arguments, progress_callback=hear)

    def text(self) -> str:
        """Return the text of the tool result."""
        self.thread.join(30)
        assert self.failure is None, self.failure
        assert isinstance(self.result.content[0], types.TextContent)
        return self.result.content[0].text


def _wide(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pending_call_is_approved_and_answered(
    scheme: str, width: int, server: LiveServer, open_page: Visit
) -> None:
    visitor = open_page(scheme=scheme, width=width)
    asking = Asking(server.ports[1])
    assert asking.heard[0][1] == "Waiting for approval (30 min left)"
    page = visitor.goto(QUEUE)
    expect(page.locator(f"{CARD} > .mcp-given dd")).to_have_text(["5", "0.05"])
    picture(page, f"approvals-{scheme}-{width}")
    assert _wide(page)
    calls = visitor.goto("/admin/mcp_app/call/")
    expect(calls.locator(".mcp-queues")).to_contain_text("1 call waits for approval.")
    assert _wide(calls)
    page = visitor.goto(QUEUE)
    page.locator("#result_list a", has_text="count").first.click()
    expect(page.locator("[data-live-state]")).to_have_text("waiting for approval")
    expect(page.locator("[data-live-text=left]")).to_contain_text("29 min")
    visitor.drawn()
    picture(page, f"approval-{scheme}-{width}")
    assert _wide(page)
    page.fill("#mcp-reason", "asked for on the phone")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("body")).to_contain_text("was approved.")
    assert "counted to 5" in asking.text().lower()
    numbers = [number for number, _ in asking.heard]
    assert numbers == sorted(set(numbers))
    expect(page.locator("[data-live-state]")).to_have_text("succeeded", timeout=15_000)
    expect(page.locator("body")).to_contain_text("asked for on the phone")
    visitor.drawn()
    picture(page, f"approval-given-{scheme}-{width}")
    assert _wide(page)
    assert visitor.trouble == []


def test_badge_of_the_sidebar_follows_the_waiting_calls_without_a_reload(
    server: LiveServer, open_page: Visit
) -> None:
    visitor = open_page()
    page = visitor.goto("/zone/")
    badge = page.locator("[data-badge]")
    expect(badge).to_be_hidden()

    def followed(number: str) -> bool:
        with page.expect_response(f"**{QUEUE}live/"):
            # As when the user returns to the tab.
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        return (badge.text_content(), badge.is_visible()) == (number, number != "0")

    Asking(server.ports[1])
    eventually(lambda: followed("1"), what="the number of a waiting call")
    server.shell(END_WAITING)
    eventually(lambda: followed("0"), what="the end of the badge")
    assert visitor.trouble == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_refusal_requires_a_reason_that_the_client_receives(
    scheme: str, width: int, server: LiveServer, open_page: Visit
) -> None:
    visitor = open_page(scheme=scheme, width=width)
    asking = Asking(server.ports[1])
    page = visitor.goto(QUEUE)
    page.locator("#result_list a", has_text="count").first.click()
    page.get_by_role("button", name="Refuse").click()
    expect(page.locator("body")).to_contain_text("Enter a reason")
    page.fill("#mcp-reason", "Not during <b>stocktaking</b>")
    page.get_by_role("button", name="Refuse").click()
    expect(page.locator("[data-live-state]")).to_have_text("refused")
    assert asking.text() == "count was refused by an administrator: Not during <b>stocktaking</b>"
    assert asking.result.is_error
    visitor.drawn()
    picture(page, f"approval-refused-{scheme}-{width}")
    page = visitor.goto(QUEUE + "?decision=refused")
    expect(page.locator("#result_list")).to_contain_text("refused")
    assert visitor.trouble == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_refusing_in_the_row_keeps_the_column_widths(
    scheme: str, width: int, server: LiveServer, open_page: Visit
) -> None:
    visitor = open_page(scheme=scheme, width=width)
    asking = Asking(server.ports[1])
    page = visitor.goto(QUEUE)
    columns = "[...document.querySelectorAll('#result_list tr > *')].map((cell) => cell.offsetWidth)"
    before = page.evaluate(columns)
    page.get_by_role("button", name="Refuse count").click()
    asked = page.get_by_role("dialog", name="Refuse count")
    expect(asked).to_contain_text("Refuse the call of count?")
    expect(asked.get_by_text("Reason (the caller sees it)")).to_be_visible()
    reason = asked.get_by_label("Reason (the caller sees it)")
    expect(reason).to_be_focused()
    assert page.evaluate(columns) == before
    expect(asked.locator(".mcp-given")).to_contain_text("delay_seconds")
    picture(page, f"approvals-refuse-{scheme}-{width}")
    asked.get_by_role("button", name="Cancel").click()
    expect(asked).to_be_hidden()
    page.get_by_role("button", name="Refuse count").click()
    reason.fill("not today")
    asked.get_by_role("button", name="Refuse", exact=True).click()
    expect(page.locator("body")).to_contain_text("The call of count by")
    assert asking.text() == "count was refused by an administrator: not today"
    assert visitor.trouble == []


def test_refuse_dialog_is_modal(server: LiveServer, open_page: Visit) -> None:
    visitor = open_page()
    asking = Asking(server.ports[1])
    page = visitor.goto(QUEUE)
    refuse = page.get_by_role("button", name="Refuse count")
    behind = page.get_by_role("button", name="Approve count").bounding_box()
    assert behind is not None
    refuse.click()
    asked = page.get_by_role("dialog", name="Refuse count")
    asked.get_by_label("Reason (the caller sees it)").fill("kept words")
    for _ in range(12):
        page.keyboard.press("Tab")
        inside = (
            "document.activeElement === document.body || !!document.activeElement.closest('dialog[open]')"
        )
        assert page.evaluate(inside)
    page.mouse.click(behind["x"] + behind["width"] / 2, behind["y"] + behind["height"] / 2)
    expect(asked).to_be_hidden()
    refuse.click()
    expect(asked.get_by_label("Reason (the caller sees it)")).to_have_value("kept words")
    page.keyboard.press("Escape")
    expect(asked).to_be_hidden()
    expect(refuse).to_be_focused()
    page.reload()
    expect(page.locator(f"{CARD} > .mcp-given dd").first).to_have_text("5")
    page.get_by_role("button", name="Approve count").click()
    asking.text()
    assert visitor.trouble == []


def test_call_of_a_revoked_key_cannot_be_approved(server: LiveServer, open_page: Visit) -> None:
    key, secret = json.loads(server.shell(LEAKED).strip().splitlines()[-1])
    visitor, other = open_page(), open_page()
    with closing(server.mcp(1, token=secret)) as client:
        client.initialize()
        with client.open_call("tools/call", {"name": "count", "arguments": {"to": 5}}):
            queue = visitor.goto(QUEUE)
            expect(queue.locator(CARD)).to_have_count(1)
            page = other.goto(f"/admin/mcp_app/apikey/{key}/change/")
            page.locator("[data-sure]", has_text="Revoke").click()
            page.get_by_role("button", name="Revoke the key").click()
            expect(page.locator("body")).to_contain_text("was revoked")
            # The queue was loaded before.
            queue.get_by_role("button", name="Approve count").click()
            expect(queue.locator(CARD)).to_have_count(0)
            assert server.shell(DECIDED.format(key=key)).split() == ["refused", "None"]
    assert other.trouble == []


def test_keys_move_between_calls_and_decide(server: LiveServer, open_page: Visit) -> None:
    visitor = open_page()
    asked = [Asking(server.ports[1], number) for number in (1, 2, 3)]
    page = visitor.goto(QUEUE)
    cards = page.locator(CARD)
    expect(cards).to_have_count(3)
    page.keyboard.press("?")
    for words in (
        "approve the selected call",
        "refuse the selected call",
        "select the next or previous call",
    ):
        expect(page.get_by_role("dialog")).to_contain_text(words)
    page.keyboard.press("?")
    page.keyboard.press("a")
    expect(cards.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(cards.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(cards.nth(0)).to_be_focused()
    page.keyboard.press("a")
    expect(cards).to_have_count(2)
    assert asked[0].text() == "counted to 1"
    # The next call is selected.
    expect(cards.nth(0)).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("r")
    reason = page.locator("dialog[open] textarea")
    expect(reason).to_be_focused()
    page.keyboard.type("a jar of r and k")
    expect(reason).to_have_value("a jar of r and k")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(cards).to_have_count(1)
    assert asked[2].text() == "count was refused by an administrator: a jar of r and k"
    page.get_by_role("button", name="Approve count").click()
    assert asked[1].text() == "counted to 2"
    expect(page.locator("[data-empty-queue]")).to_be_visible()
    picture(page, "approvals-empty-light-1440")
    assert visitor.trouble == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_approval_of_a_destructive_tool_asks_first(
    scheme: str, width: int, server: LiveServer, open_page: Visit
) -> None:
    annotate = "from mcp_app.models import Tool; Tool.objects.filter(name='count').update(annotations={})"
    stored = "from mcp_app.models import Tool; print(Tool.objects.get(name='count').annotations)"
    before = server.shell(stored).strip().splitlines()[-1]
    server.shell(annotate)
    visitor = open_page(scheme=scheme, width=width)
    asking = Asking(server.ports[1])
    page = visitor.goto(QUEUE)
    approve = page.get_by_role("button", name="Approve count")
    approve.click()
    asked = page.get_by_role("dialog", name="Approve count")
    expect(asked.locator(".mcp-given dd")).to_have_text(["5", "0.05"])
    expect(asked.get_by_role("button", name="Cancel")).to_be_focused()
    picture(page, f"approvals-approve-{scheme}-{width}")
    page.mouse.click(4, 4)
    expect(asked).to_be_hidden()
    expect(page.locator(CARD)).to_have_count(1)
    approve.click()
    asked.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(CARD)).to_have_count(0)
    assert asking.text() == "counted to 5"
    server.shell(annotate.replace("{}", before))
    assert visitor.trouble == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_queue_reports_changes_and_approves_selected_calls(
    scheme: str, width: int, server: LiveServer, open_page: Visit
) -> None:
    visitor, other = open_page(scheme=scheme, width=width), open_page()
    first = Asking(server.ports[1], 3)
    page = visitor.goto(QUEUE)
    watched = other.goto(QUEUE)
    second = Asking(server.ports[1], 4)
    expect(page.locator("[data-queue-words]")).to_have_text("1 more call waits.", timeout=15_000)
    expect(page.locator(CARD)).to_have_count(1)
    picture(page, f"approvals-changed-{scheme}-{width}")
    page.get_by_role("link", name="Reload").click()
    visitor.drawn()
    expect(page.locator(CARD)).to_have_count(2)
    for box in page.locator("#result_list .action-select").all():
        box.check()
    page.select_option("[name=action]", "approve_calls")
    page.locator("[name=index]").click()
    expect(page.locator("body")).to_contain_text("Approve all")
    visitor.drawn()
    picture(page, f"approvals-decide-{scheme}-{width}")
    assert _wide(page)
    page.get_by_role("button", name="Approve all").click()
    expect(page.locator("body")).to_contain_text("Calls approved: 2.")
    assert "3" in first.text()
    assert "4" in second.text()
    expect(watched.locator("[data-queue-words]")).to_contain_text("no longer", timeout=15_000)
    assert visitor.trouble == other.trouble == []


def test_call_page_shows_a_decision_made_elsewhere(server: LiveServer, open_page: Visit) -> None:
    visitor, other = open_page(), open_page()
    asking = Asking(server.ports[1])
    for each in (visitor, other):
        each.goto(QUEUE)
        each.page.locator("#result_list a", has_text="count").first.click()
        expect(each.page.get_by_role("button", name="Approve")).to_be_visible()
        each.drawn()
    visitor.page.get_by_role("button", name="Approve").click()
    asking.text()
    # The other page updates automatically: no decision is left to make.
    expect(other.page.get_by_role("button", name="Approve")).to_have_count(0, timeout=15_000)
    expect(other.page.locator("body")).to_contain_text("Decided by")
    assert visitor.trouble == other.trouble == []
