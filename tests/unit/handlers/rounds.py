"""An in-process 2026-07-28 client: repeats a request until it is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_app.sessions.session import LiveSession, stored_fields
from tests.unit.handlers.desk import CLIENT, Desk

Wire = dict[str, Any]
EVERYTHING: Wire = {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
ROOT = {"uri": "file:///test/root"}


def accept(**content: Any) -> Wire:
    """Return the answer of a user who filled in a form."""
    return {"action": "accept", "content": content}


def said(text: str) -> Wire:
    """Return the answer of a model."""
    return {
        "role": "assistant",
        "content": {"type": "text", "text": text},
        "model": "test",
        "stopReason": "endTurn",
    }


@dataclass
class Rounds:
    """A request and its rounds: ``asked`` has the open questions, ``states`` the states of each round."""

    desk: Desk
    method: str
    params: Wire
    capabilities: Wire = field(default_factory=lambda: EVERYTHING)
    version: str = "2026-07-28"
    asked: list[Wire] = field(default_factory=list)
    states: list[str] = field(default_factory=list)

    async def go(self, responses: Mapping[str, Any] | None = None, **members: Any) -> Any:
        """Run one more round with the newest state; return its result or error.

        ``members`` take precedence.
        """
        sent = dict(self.params)
        if responses is not None:
            sent["inputResponses"] = dict(responses)
        if self.states:
            sent["requestState"] = self.states[-1]
        self._new_session()
        message = await self.desk.request(self.method, sent | members)
        if "error" in message:
            return message["error"]
        result = message["result"]
        if result.get("resultType") == "input_required":
            self.asked.append(result["inputRequests"])
            self.states.append(result["requestState"])
        return result

    async def text(self, responses: Mapping[str, Any] | None = None, **members: Any) -> str:
        """Return the text of a tool result after one more round."""
        result = await self.go(responses, **members)
        assert "content" in result, result
        return str(result["content"][0]["text"])

    def _new_session(self) -> None:
        # No state of the previous request remains: each round is independent.
        self.desk.session = LiveSession(
            f"request-{len(self.states)}",
            stored_fields(
                version=self.version,
                principal_key=self.desk.principal.key,
                client_info=CLIENT,
                capabilities=self.capabilities,
                announced=0,
            ),
        )


def call(desk: Desk, name: str, arguments: Wire | None = None, **given: Any) -> Rounds:
    """Return the rounds of one tool call."""
    return Rounds(desk, "tools/call", {"name": name, "arguments": arguments or {}}, **given)
