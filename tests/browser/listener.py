"""The official Python client in a separate thread, which records list change notifications."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self, TypeVar

from mcp import Client
from playwright.sync_api import Page

from tests.servers.live import eventually

T = TypeVar("T")
# One second is guaranteed; test machines are shared.
HEARD_WITHIN = 2.0


class Listener:
    """``with Listener(url, mode) as listener:``; mode ``legacy`` uses its session, other modes subscribe."""

    def __init__(self, url: str, mode: str) -> None:
        self._url = url
        self._mode = mode
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self.told: dict[str, list[float]] = {"tools": [], "prompts": []}
        self.client: Any = None

    def _run(self) -> None:
        self._listening = self._loop.create_task(self._listen())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._listening)

    def _note(self, message: Any) -> None:
        name = type(getattr(message, "root", message)).__name__
        for kind, heard in self.told.items():
            if "ListChanged" in name and name.startswith("Tool" if kind == "tools" else "Prompt"):
                heard.append(time.monotonic())

    async def _listen(self) -> None:
        async def hear(message: Any) -> None:
            self._note(message)

        async with Client(self._url, mode=self._mode, message_handler=hear) as self.client:
            if self._mode == "legacy":
                self._ready.set()
                await asyncio.Event().wait()
            async with self.client.listen(tools_list_changed=True, prompts_list_changed=True) as news:
                self._ready.set()
                async for message in news:
                    self._note(message)

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """Return the response to a request of the client."""
        return asyncio.run_coroutine_threadsafe(question, self._loop).result(15)

    def names(self, kind: str) -> list[str]:
        """Return the names of the tools or prompts offered to the client."""
        listed: Any = self.ask(getattr(self.client, f"list_{kind}")())
        return [each.name for each in getattr(listed, kind)]

    def text_of(self, prompt: str) -> str:
        """Return the text of a prompt."""
        return str(self.ask(self.client.get_prompt(prompt)).messages[0].content.text)

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Return the first text of a tool result."""
        return str(self.ask(self.client.call_tool(tool, arguments)).content[0].text)

    def hears(self, kind: str, page: Page, press: Callable[[], None]) -> None:
        """Press a button that changes a list, and assert that the client is notified soon after the
        response.
        """
        before = len(self.told[kind])
        with page.expect_response(lambda answer: answer.request.method == "POST") as posted:
            press()
        assert posted.value.status == 302
        answered = time.monotonic()
        eventually(lambda: len(self.told[kind]) > before, 5, f"a notice of the changed {kind}")
        assert self.told[kind][before] - answered < HEARD_WITHIN

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(15)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._listening.cancel)
        self._thread.join(15)
        self._loop.close()
