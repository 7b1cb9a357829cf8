"""Drafts by hand, while the official Python client listens: publish an edit, see it arrive, roll it back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from typing import Any, Self, TypeVar

import pytest
from mcp import Client
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, picture
from tests.live import LiveServer, eventually

T = TypeVar("T")
# A second is promised; test machines are shared.
HEARD_WITHIN = 2.0


class Listener:
    """The official client in a thread of its own; remembers when it was told that the prompts changed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._over = asyncio.Event()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._listen(),))
        self.told: list[float] = []
        self.client: Any = None

    async def _listen(self) -> None:
        async def hear(message: Any) -> None:
            if "PromptListChanged" in type(getattr(message, "root", message)).__name__:
                self.told.append(time.monotonic())

        async with Client(self._url, mode="legacy", message_handler=hear) as self.client:
            self._ready.set()
            await self._over.wait()

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """The answer to a request of the client."""
        return asyncio.run_coroutine_threadsafe(question, self._loop).result(10)

    def prompts(self) -> list[str]:
        """The names of the prompts it is offered."""
        return [prompt.name for prompt in self.ask(self.client.list_prompts()).prompts]

    def text_of(self, name: str) -> str:
        """A prompt as the client gets it."""
        message = self.ask(self.client.get_prompt(name)).messages[0]
        return str(message.content.text)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(15)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(15)
        self._loop.close()


@pytest.fixture
def listener(site: LiveServer) -> Iterator[Listener]:
    """A client that is connected while people work in the admin."""
    with Listener(site.url) as listening:
        yield listening


def _press_and_hear(page: Page, button: str, listener: Listener) -> None:
    """Press a button that changes what is offered; the client hears of it soon after the answer."""
    before = len(listener.told)
    with page.expect_response(lambda answer: answer.request.method == "POST") as posted:
        page.get_by_role("button", name=button, exact=True).click()
    assert posted.value.status == 302
    answered = time.monotonic()
    eventually(lambda: len(listener.told) > before, 5, "a notice of the changed list")
    assert listener.told[before] - answered < HEARD_WITHIN


def _history(page: Page) -> None:
    page.get_by_role("link", name="History").first.click()
    page.wait_for_url("**/history/**")


def test_an_edit_is_drafted_published_to_a_listening_client_and_rolled_back(
    visit: Visit, listener: Listener
) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/prompt/add/")
    page.fill("#id_name", "greeting")
    page.fill("#id_template", "Good morning.\nHow are you?")
    page.fill("#mcp-why", "asked for by support")
    page.get_by_role("button", name="Save as draft").click()
    expect(page.locator("body")).to_contain_text("Clients do not see it until it is published.")
    assert "greeting" not in listener.prompts()
    _press_and_hear(page, "Publish", listener)
    expect(page.locator("body")).to_contain_text("Published: greeting.")
    assert listener.text_of("greeting") == "Good morning.\nHow are you?"

    visitor.drawn()
    page.fill("#id_template", "Good evening.\nHow are you?")
    page.get_by_role("button", name="Save as draft").click()
    draft = page.locator(".mcp-draft")
    expect(draft.locator(".mcp-removed")).to_have_text("-Good morning.")
    expect(draft.locator(".mcp-added")).to_have_text("+Good evening.")
    assert listener.text_of("greeting").startswith("Good morning.")
    draft.get_by_label("Why").fill("it is late")
    _press_and_hear(page, "Publish", listener)
    assert listener.text_of("greeting").startswith("Good evening.")

    visitor.drawn()
    _history(page)
    expect(page.locator(".mcp-card").first).to_contain_text("it is late")
    page.get_by_role("link", name="Roll back to this…").click()
    page.get_by_label("Why").fill("too early for that")
    _press_and_hear(page, "Roll back", listener)
    assert listener.text_of("greeting").startswith("Good morning.")
    expect(page.locator("body")).to_contain_text("Rolled back: greeting.")
    visitor.drawn()
    _history(page)
    expect(page.locator(".mcp-card").first).to_contain_text("too early for that")
    assert visitor.trouble == []


SHOWN = """
from django.contrib.auth import get_user_model
from mcp_app.catalogue import drafts, services
from mcp_app.models import CatalogueChange, Draft, Prompt, Tool
from tests.admin_seed import ALL_HOSTILE, HOSTILE
root = get_user_model().objects.get(username="root")
text = "You review code.\\n\\nLook at {{code}}.\\nBe kind.\\nName the line of each fault.\\n"
code = [{"name": "code"}]
row = services.save_prompt(actor=root, name="review", template=text, arguments=code, title="Check")
services.save_prompt(actor=root, entry=row, title="Review code", why="as people call it")
new = text.replace("Be kind.", "Be kind and short.\\nBegin with the worst.")
drafts.save_draft(kind=Prompt, actor=root, entry=row, template=new, meta={"example.com/team": "core"},
                  enabled=False, note="answers were too long")
services.save_prompt(actor=root, entry=row, description="For reviewers.", why="nobody knew what it is for")
drafts.save_draft(kind=Prompt, actor=root, name="weekly_report", template="Report on {{week}}.",
                  title="Weekly", arguments=[{"name": "week", "required": True}], note="for the meeting")
echo = Tool.objects.get(name="echo")
drafts.save_draft(kind=Tool, actor=root, entry=echo, title=HOSTILE["bidi"], description=ALL_HOSTILE,
                  note=ALL_HOSTILE[:400])
who = [{"name": "who"}]
gone = services.save_prompt(actor=root, name="farewell", template="Bye, {{who}}.", arguments=who)
services.delete_entry(entry=gone, actor=root, why="nobody used it")
change = CatalogueChange.objects.latest("id").pk
first = CatalogueChange.objects.filter(key="review").earliest("id").pk
print(f"{row.pk} {Draft.objects.get(key='weekly_report').pk} {echo.pk} {change} {first} "
      f"{Draft.objects.get(key='review').pk}")
"""


@pytest.fixture(scope="module")
def pages(site: LiveServer) -> dict[str, str]:
    """The pages about drafts and history, by a short name."""
    prompt, new, echo, gone, first, draft = site.shell(SHOWN).strip().splitlines()[-1].split()
    base = "/admin/mcp_app"
    return {
        "drafts-list": f"{base}/draft/",
        "drafts-entries": f"{base}/prompt/",
        "drafts-entry": f"{base}/prompt/{prompt}/change/",
        "drafts-edit": f"{base}/prompt/{prompt}/change/?draft={draft}",
        "drafts-new": f"{base}/draft/{new}/change/",
        "drafts-hostile": f"{base}/tool/{echo}/change/",
        "drafts-history": f"{base}/prompt/{prompt}/history/",
        "drafts-roll-back": f"{base}/prompt/roll-back/{first}/",
        "drafts-deleted": f"{base}/prompt/deleted/",
        "drafts-past": f"{base}/prompt/deleted/{gone}/",
        "drafts-restore": f"{base}/prompt/roll-back/{gone}/",
    }


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1440), ("dark", 390), ("dark", 1440), ("light", 390)]
)
def test_no_page_about_drafts_is_broken(scheme: str, width: int, visit: Visit, pages: dict[str, str]) -> None:
    visitor = visit(scheme=scheme, width=width)
    for name, path in pages.items():
        page = visitor.goto(path)
        wide, window, pwned = page.evaluate(
            "[document.documentElement.scrollWidth, window.innerWidth, window.pwned ?? null]"
        )
        picture(page, f"{name}-{scheme}-{width}")
        assert wide <= window, f"{name} is {wide} px wide in a window of {window}"
        assert pwned is None, f"{name} executed stored text"
        assert visitor.trouble == [], name


def test_the_key_enter_saves_and_never_publishes_what_waits(visit: Visit, pages: dict[str, str]) -> None:
    visitor = visit()
    page = visitor.goto(pages["drafts-entry"])
    page.fill("#id_title", "Typed")
    page.press("#id_title", "Enter")
    page.wait_for_url("**/admin/mcp_app/prompt/")
    row = page.locator("#result_list tr", has_text="review").filter(has_text="Typed")
    expect(row).to_contain_text("draft")
    assert visitor.trouble == []
