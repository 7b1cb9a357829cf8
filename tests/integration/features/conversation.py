"""A client that answers server requests and validates every message against the published schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.clients.raw_http import Answer, EventStream, Mcp, events_of, is_stream
from tests.wire import referee

VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
ASKING = ("2025-06-18", "2025-11-25")
EVERYTHING: dict[str, Any] = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
}
Outcome = Mapping[str, Any]
Reply = Outcome | Callable[[dict[str, Any]], Outcome | None]


class Fail(dict[str, Any]):
    """A response that is an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code=code, message=message)


@dataclass
class Conversation:
    """All messages of the server for one request."""

    response: dict[str, Any]
    before: list[dict[str, Any]] = field(default_factory=list)
    streamed: bool = False

    @property
    def result(self) -> dict[str, Any]:
        assert "result" in self.response, self.response
        found: dict[str, Any] = self.response["result"]
        return found

    @property
    def error(self) -> dict[str, Any]:
        assert "error" in self.response, self.response
        found: dict[str, Any] = self.response["error"]
        return found

    @property
    def text(self) -> str:
        """The text of the only block of a tool result."""
        (block,) = self.result["content"]
        found: str = block["text"]
        return found

    @property
    def failed(self) -> bool:
        """True if the tool failed."""
        return self.result.get("isError") is True

    def told(self, method: str) -> list[dict[str, Any]]:
        """Return the params of each message of that method, in order."""
        return [message.get("params", {}) for message in self.before if message["method"] == method]


@dataclass
class Client(Mcp):
    """A session; ``replies`` maps server methods to the client's responses."""

    replies: dict[str, Reply] = field(default_factory=dict)
    beside: list[Mcp] = field(default_factory=list)

    def at_port(self, port: int) -> Client:
        """Return the same session through the process that listens on ``port``; closed with this client."""
        other = self.via(port)
        assert isinstance(other, Client)
        other.beside = []
        self.beside.append(other)
        return other

    def close(self) -> None:
        for other in self.beside:
            other.close()
        super().close()

    def listen(self) -> EventStream:
        """Open the standalone stream, past the priming event of 2025-11-25."""
        stream = self.get_stream()
        if self.version == VERSIONS[-1]:
            priming = stream.next()
            assert priming is not None
            assert not priming.data
        return stream

    def open(self, version: str, capabilities: dict[str, Any] | None = None, **more: Any) -> Client:
        """Open a session of that revision."""
        result = self.initialize(version, capabilities, **more)
        self.judge({"jsonrpc": "2.0", "id": 0, "result": result}, "initialize")
        assert self.version == version
        return self

    def judge(self, message: dict[str, Any], method: str = "") -> dict[str, Any]:
        """Return the message if the published schema allows it."""
        assert self.version is not None
        found = referee.problems(self.version, message, method)
        assert not found, f"{found} in {json.dumps(message)[:2000]}"
        return message

    def converse(
        self, method: str, params: dict[str, Any] | None = None, *, answer_at: Mcp | None = None
    ) -> Conversation:
        """Send a request, answer every server request, and return all messages."""
        body = json.dumps(self.request_message(method, params)).encode()
        found = self.client.open_stream("POST", self.path, self.headers(), body)
        if isinstance(found, EventStream):
            with found:
                return self.follow(found, method, answer_at=answer_at)
        messages = (
            [json.loads(event.data) for event in events_of(found.body) if event.data]
            if is_stream(found)
            else [found.json()]
        )
        return Conversation(self._own(messages[-1], method, found))

    def follow(self, stream: EventStream, method: str, *, answer_at: Mcp | None = None) -> Conversation:
        """Read a stream up to its response."""
        before: list[dict[str, Any]] = []
        while (message := stream.message()) is not None:
            self.judge(message, method)
            if "method" not in message:
                assert stream.message() is None, "something follows the response (PROG-03)"
                return Conversation(message, before, streamed=True)
            before.append(message)
            if "id" in message:
                self.reply_to(message, answer_at or self)
        raise AssertionError(f"the stream of {method} ended without a response after {before}")

    def reply_to(self, question: dict[str, Any], sender: Mcp) -> None:
        """Answer a server request by ``replies``, through ``sender``."""
        reply = self.replies[question["method"]]
        outcome = reply(question.get("params", {})) if callable(reply) else reply
        if outcome is None:
            return
        if isinstance(outcome, Fail):
            answer = sender.respond(question["id"], error=dict(outcome))
        else:
            answer = sender.respond(question["id"], dict(outcome))
        assert answer.status == 202, answer

    def _own(self, message: dict[str, Any], method: str, answer: Answer) -> dict[str, Any]:
        assert answer.status == 200, answer
        assert message["id"] == self.next_id
        return self.judge(message, method)

    def use(self, tool: str, **arguments: Any) -> Conversation:
        """Call a tool."""
        return self.converse("tools/call", {"name": tool, "arguments": arguments})

    def listed(self, method: str) -> list[dict[str, Any]]:
        """Return the entries on all pages of a list."""
        member = {"resources/templates/list": "resourceTemplates"}.get(method, method.partition("/")[0])
        entries: list[dict[str, Any]] = []
        cursor: dict[str, Any] = {}
        while True:
            page = self.converse(method, cursor).result
            entries += page[member]
            if "nextCursor" not in page:
                return entries
            cursor = {"cursor": page["nextCursor"]}

    def entry(self, method: str, key: str) -> dict[str, Any]:
        """Return the only entry of a list whose name or URI is ``key``."""
        (found,) = [
            item
            for item in self.listed(method)
            if key in (item["name"], item.get("uri"), item.get("uriTemplate"))
        ]
        return found
