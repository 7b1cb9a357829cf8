"""A test client's answers to the server's questions, and its errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Params = dict[str, Any]
Handler = Callable[[Params], Any]


class RequestError(Exception):
    """Raised if the server responds with an error instead of a result."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.code = int(error["code"])
        self.message = str(error["message"])
        self.data = error.get("data")
        super().__init__(f"{self.message} ({self.code})")


@dataclass(slots=True)
class Answers:
    """The client's answers to the server's questions. None disables a kind of question.

    ``elicit`` is the form's content, or "decline" or "cancel". ``sample`` is the model's text. ``roots`` is a
    list of URIs. ``elicit`` and ``sample`` may also be functions that take the request's params and return
    such an answer.
    """

    elicit: Params | str | Handler | None = None
    sample: str | Handler | None = None
    roots: Iterable[str] | None = None

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities that a client with these answers declares."""
        declared: dict[str, Any] = {}
        if self.elicit is not None:
            declared["elicitation"] = {"form": {}, "url": {}}
        if self.sample is not None:
            declared["sampling"] = {}
        if self.roots is not None:
            declared["roots"] = {}
        return declared

    async def to(self, method: str, params: Params) -> Params:
        """Return the result for one request of the server."""
        if method == "elicitation/create":
            chosen = await _chosen(self.elicit, params)
            return (
                {"action": chosen}
                if isinstance(chosen, str)
                else {"action": "accept", "content": chosen or {}}
            )
        if method == "sampling/createMessage":
            content = {"type": "text", "text": await _chosen(self.sample, params)}
            return {"role": "assistant", "content": content, "model": "test", "stopReason": "endTurn"}
        if method == "roots/list":
            return {"roots": [{"uri": uri} for uri in self.roots or ()]}
        return {}


async def _chosen(answer: Any, params: Params) -> Any:
    chosen = answer(params) if callable(answer) else answer
    return await chosen if isinstance(chosen, Awaitable) else chosen


def unwrap(message: Params) -> Params:
    if "error" in message:
        raise RequestError(message["error"])
    result: Params = message["result"]
    return result
