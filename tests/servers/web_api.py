"""A web API on loopback for tests of HTTP tools. It runs on a thread and records requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.servers.on_thread import on_thread
from tests.unit.egress.sites import Handle, Heard, KeptSite, response

Answer = Callable[[Heard], bytes]


class WebApi:
    """The running API. ``answer`` returns the bytes for a request; by default it echoes the request."""

    def __init__(self) -> None:
        self.site = KeptSite()
        self.answer: Answer | Handle = echoed

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.site.port}"

    @property
    def requests(self) -> list[Heard]:
        return self.site.requests

    @property
    def lines(self) -> list[str]:
        return [heard.line.rpartition(" ")[0] for heard in self.requests]

    def says(self, value: Any, *headers: str, status: str = "200 OK") -> None:
        """Answer every request with this JSON."""
        self.answer = lambda _: response(json.dumps(value).encode(), *headers, status=status)

    async def handle(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        found: Any = self.answer
        if asyncio.iscoroutinefunction(found):
            await found(heard, writer)
        else:
            writer.write(found(heard))


def echoed(heard: Heard) -> bytes:
    """Return the request as JSON."""
    method, target, _ = heard.line.split(" ")
    body = heard.body.decode("utf-8", "replace")
    shown = {"method": method, "target": target, "headers": dict(heard.headers), "body": body}
    return response(json.dumps(shown).encode())


@contextmanager
def web_api() -> Iterator[WebApi]:
    """Run the API until the end of the block."""
    api = WebApi()
    with on_thread(api.handle) as (api.site, _):
        yield api
