"""The reading of the answer to one request: messages before the answer, and the answer itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from mcp_app.protocol.client.events import EventDecoder
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.errors import McpError
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.logging import DEFAULT_LEVEL, LEVELS

MAX_TEXT: Final = 2_000
_UNREADABLE: Final = "asked a question that cannot be read."


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one answer: bytes of a message, bytes of all messages together, and their number."""

    message_bytes: int = 8 * 1024 * 1024
    total_bytes: int = 32 * 1024 * 1024
    messages: int = 10_000
    limits: jsonrpc.Limits = field(init=False, compare=False)

    def __post_init__(self) -> None:
        most = self.message_bytes
        limits = jsonrpc.Limits(body_bytes=most, members=1_000_000, string_bytes=most)
        object.__setattr__(self, "limits", limits)


@dataclass(frozen=True, slots=True)
class Progress:
    """A report of progress."""

    progress: float
    total: float | None
    message: str | None


@dataclass(frozen=True, slots=True)
class LogLine:
    """A log message of the server."""

    level: str
    logger: str
    data: Any


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of a legacy server, which must be answered."""

    id: jsonrpc.Id
    method: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Notice:
    """Any other notification, such as a changed list."""

    method: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of the request."""

    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class InputRequired:
    """Questions of a modern server. The request is repeated with the answers and the state.

    If a task asks, ``task`` is its id, and the task gets the answers.
    """

    requests: dict[str, dict[str, Any]]
    state: str | None
    task: str = ""


Event = Progress | LogLine | Asked | Notice | Answered | InputRequired


class AnswerReader:
    """The reader of the answer to one request. ``done`` is True after the answer."""

    def __init__(
        self, number: jsonrpc.Id, budget: Budget, cleaned: Callable[[bytes], bytes] | None = None
    ) -> None:
        """Read the answer to the request ``number``. ``cleaned`` changes each message before it is parsed."""
        self._number, self._budget, self._cleaned = number, budget, cleaned
        self._events: EventDecoder | None = None
        self._size = self._count = 0
        self.done = False

    def whole(self, body: bytes) -> list[Event]:
        """Return the events in a JSON body. Raise UpstreamFault for an error or an invalid answer."""
        found = self._messages(body)
        self.end()
        return found

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that a chunk of an event stream completes. Raise UpstreamFault as ``whole``."""
        self._size += len(chunk)
        if self._size > self._budget.total_bytes:
            raise UpstreamFault(
                Kind.TOO_LARGE,
                f"sent more than the {self._budget.total_bytes // 1024} KiB that are read for one request.",
            )
        found: list[Event] = []
        self._events = self._events or EventDecoder(self._budget.message_bytes)
        for data in self._events.feed(chunk):
            if self.done:
                break
            found += self._messages(data)
        return found

    def end(self) -> None:
        """Raise UpstreamFault if the answer is missing."""
        if not self.done:
            raise UpstreamFault(Kind.BROKEN_OFF, "ended its answer before the result.")

    def _messages(self, body: bytes) -> list[Event]:
        body = self._cleaned(body) if self._cleaned is not None else body
        try:
            parsed = jsonrpc.parse(body, self._budget.limits)
        except McpError as error:
            raise UpstreamFault(Kind.INVALID, f"did not answer with a valid message. {error}") from None
        if type(parsed) is jsonrpc.Response and not self._count:
            self._count = 1
            return [self._answer(parsed)]
        # Servers of 2025-03-26 may answer with a batch.
        members = parsed if isinstance(parsed, list) else [parsed]
        self._count += len(members)
        if self._count > self._budget.messages:
            raise UpstreamFault(
                Kind.TOO_LARGE, f"sent more than {self._budget.messages} messages for one request."
            )
        found = (self._event(member) for member in members if not self.done)
        return [event for event in found if event is not None]

    def _event(self, message: jsonrpc.Message | jsonrpc.Invalid) -> Event | None:
        if isinstance(message, jsonrpc.Request):
            return Asked(message.id, message.method, message.params)
        if isinstance(message, jsonrpc.Notification):
            return self._notice(message)
        if isinstance(message, jsonrpc.Invalid):
            raise UpstreamFault(Kind.INVALID, f"did not answer with a valid message. {message.error}")
        return self._answer(message)

    def _answer(self, message: jsonrpc.Response) -> Event:
        if message.id != self._number or type(message.id) is not type(self._number):
            raise UpstreamFault(Kind.INVALID, "answered a request that was not made.")
        self.done = True
        if message.error is not None:
            raise error_of(message.error)
        return _outcome(message.result or {})

    def _notice(self, message: jsonrpc.Notification) -> Event | None:
        params = message.params
        if message.method == "notifications/progress":
            return _progress(params) if params.get("progressToken") == self._number else None
        if message.method == "notifications/message":
            level, logger = params.get("level"), params.get("logger")
            name = logger[:200] if isinstance(logger, str) else ""
            return LogLine(level if level in LEVELS else DEFAULT_LEVEL, name, params.get("data"))
        return Notice(message.method, params)


def error_of(error: dict[str, Any], status: int = 0) -> UpstreamFault:
    """Return the fault for a JSON-RPC error."""
    text = f"refused the request: {error['message'][:MAX_TEXT]} ({error['code']})"
    return UpstreamFault(Kind.REFUSED, text, code=error["code"], data=error.get("data"), status=status)


def _outcome(result: dict[str, Any]) -> Event:
    if result.get("resultType") != "input_required":
        return Answered(result)
    state = result.get("requestState")
    if not (state is None or isinstance(state, str)):
        raise UpstreamFault(Kind.INVALID, _UNREADABLE)
    return InputRequired(questions_of(result), state)


def questions_of(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the questions in a result or a task, by name. Raise UpstreamFault if they are not valid."""
    requests = result.get("inputRequests", {})
    if not isinstance(requests, dict) or not all(
        isinstance(each, dict) and isinstance(each.get("method"), str) for each in requests.values()
    ):
        raise UpstreamFault(Kind.INVALID, _UNREADABLE)
    return requests


def _progress(params: dict[str, Any]) -> Progress | None:
    progress, total, message = params.get("progress"), params.get("total"), params.get("message")
    if not _is_number(progress):
        return None
    return Progress(
        float(progress),
        float(total) if _is_number(total) else None,
        message[:MAX_TEXT] if isinstance(message, str) else None,
    )


def _is_number(value: Any) -> TypeGuard[float]:
    # The decoder refuses numbers that are not finite.
    return isinstance(value, int | float) and not isinstance(value, bool)
