"""A server made with the official Python SDK, on a thread. Its tools can be changed while it runs."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel


class Line(BaseModel):
    """A form with one field."""

    text: str


def name_of() -> Elicit[Line]:
    return Elicit("Your name?", Line)


def greeting_of(name: Annotated[Line, Resolve(name_of)]) -> Elicit[Line]:
    return Elicit(f"{name.text}, your greeting?", Line)


def greet(name: Annotated[Line, Resolve(name_of)], greeting: Annotated[Line, Resolve(greeting_of)]) -> str:
    """Ask for a name, then for a greeting."""
    return f"{greeting.text}, {name.text}"


def welcome(name: str) -> str:
    """Write a welcome."""
    return f"Welcome {name}"


def notes() -> str:
    """List the notes."""
    return "one, two"


class SdkServer:
    """The running server. ``headers`` are those of each request."""

    def __init__(self) -> None:
        self.url = ""
        self.headers: list[dict[str, str]] = []
        self.waiting, self.stopped = threading.Event(), threading.Event()
        self.counts: dict[str, int] = {}
        self.mcp = MCPServer("crm", title="CRM", instructions="Search before you answer.", version="7")
        self.mcp.add_tool(self.search, name="search")
        self.mcp.add_tool(self.steps, name="steps")
        self.mcp.add_tool(self.counter, name="counter")
        self.mcp.add_tool(self.wait, name="wait")
        self.mcp.add_tool(self.failing, name="failing")
        self.mcp.add_tool(self.secret, name="echo.secret")
        self.mcp.add_tool(greet)
        self.mcp.prompt("welcome")(welcome)
        self.mcp.resource("notes://all", name="notes")(notes)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await self._app(scope, receive, send)

    def replace(self, name: str, function: Any) -> None:
        """Put another tool at a name."""
        self.mcp.remove_tool(name)
        self.mcp.add_tool(function, name=name)

    def replace_prompt(self, name: str, function: Any) -> None:
        """Put another prompt at a name."""
        del self.mcp._prompt_manager._prompts[name]
        self.mcp.prompt(name)(function)

    @staticmethod
    def search(query: str, limit: int = 10) -> str:
        """Search customers."""
        return f"{limit} of {query}"

    async def steps(self, number: int, ctx: Context) -> str:
        """Report each step."""
        for step in range(1, number + 1):
            await ctx.report_progress(step, number, f"step {step}")
        return f"{number} steps"

    def counter(self, ctx: Context) -> str:
        """Count the calls of a session."""
        key = (ctx.headers or {}).get("mcp-session-id", "")
        self.counts[key] = self.counts.get(key, 0) + 1
        return str(self.counts[key])

    async def wait(self) -> str:
        """Wait until the call is cancelled."""
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        return ""

    @staticmethod
    def failing() -> str:
        """Fail."""
        raise ValueError("out of customers")

    def secret(self) -> str:
        """Repeat the credential, as some servers do."""
        return self.headers[-1].get("authorization", "none")

    def serve(self, stop: asyncio.Event, ready: threading.Event, listening: socket.socket) -> Any:
        self._app = self.mcp.sse_app() if self.url.endswith("/sse") else self.mcp.streamable_http_app()
        server = uvicorn.Server(uvicorn.Config(self, log_level="warning", timeout_graceful_shutdown=1))

        async def run() -> None:
            task = asyncio.create_task(server.serve(sockets=[listening]))
            while not server.started:
                await asyncio.sleep(0.01)
            ready.set()
            await stop.wait()
            server.should_exit = True
            await task

        return run()


@contextmanager
def sdk_server(path: str = "/mcp") -> Iterator[SdkServer]:
    """Run the server until the end of the block. It speaks HTTP+SSE at ``/sse``."""
    found, ready, loop = SdkServer(), threading.Event(), asyncio.new_event_loop()
    stop, listening = asyncio.Event(), socket.socket()
    listening.bind(("127.0.0.1", 0))
    found.url = f"http://127.0.0.1:{listening.getsockname()[1]}{path}"

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(found.serve(stop, ready, listening))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        listening.close()
