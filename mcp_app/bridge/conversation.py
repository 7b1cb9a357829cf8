"""The messages between the callers of a process and the process: routes of answers and questions.

Over stdio, all messages share one stream. An answer and a report of progress name their request. A question,
a log message and a changed list do not.
"""

from __future__ import annotations

import time
from typing import Any, Final, TypeVar

import orjson

from mcp_app.bridge.child import Child
from mcp_app.bridge.stream import ProcessGone, Stream
from mcp_app.credentials.hiding import hidden_bytes
from mcp_app.protocol.messages import jsonrpc

MAX_OPEN: Final = 200
_LIST_CHANGED: Final = "/list_changed"

V = TypeVar("V")


class RequestRefused(Exception):
    """Raised for a request that is not sent to the process."""


class Conversation:
    """The open requests of one process, and its questions that wait for an answer.

    A process with ``has_session`` belongs to the session of one caller. Any other serves requests of all
    callers, so it cannot ask, and its log messages are dropped, which may belong to an earlier request. With
    ``is_stateless``, it has served such a request or offered to, so it never becomes that of one session.
    """

    def __init__(self, child: Child, secrets: tuple[str, ...], *, has_session: bool) -> None:
        self.child, self.has_session = child, has_session
        self._secrets = secrets
        self._open: dict[jsonrpc.Id, Stream] = {}
        self._questions: dict[jsonrpc.Id, tuple[Stream, bytes]] = {}
        self._changed: dict[str, bytes] = {}
        self.used_at = time.monotonic()
        self.has_answered = self.is_stateless = False

    @property
    def open_requests(self) -> int:
        """The number of requests without an answer."""
        return len(self._open)

    async def request(self, number: jsonrpc.Id, message: bytes) -> Stream:
        """Send a request. Raise RequestRefused, and ProcessGone if the process has ended."""
        if not self.child.is_alive:
            raise ProcessGone(self.child.reason or "It has ended.", was_sent=False)
        if number in self._open or len(self._open) >= MAX_OPEN:
            raise RequestRefused("A request with this id is open, or too many are.")
        stream = self._open[number] = Stream()
        self.used_at = time.monotonic()
        for changed in self._changed.values():
            await stream.put(changed)
        self._changed.clear()
        await self.child.write(message)
        return stream

    async def notify(self, method: Any, params: Any, message: bytes) -> None:
        """Send a notification. A request that it cancels gets no answer any more."""
        self.used_at = time.monotonic()
        if method == "notifications/cancelled" and isinstance(params, dict):
            stream = _removed(self._open, params.get("requestId"))
            if stream is None:
                return
            stream.fail("The caller cancelled.")
            await self._release(stream)
        await self.child.write(message)

    async def answer(self, number: Any, message: bytes) -> None:
        """Send the answer to an open question. Any other answer is dropped."""
        if _removed(self._questions, number) is not None:
            await self.child.write(message)

    async def leave(self, number: jsonrpc.Id, stream: Stream) -> None:
        """Cancel a request whose caller closed the connection, unless it is answered."""
        self.used_at = time.monotonic()
        if self._open.get(number) is stream:
            del self._open[number]
            params = {"requestId": number, "reason": "The caller is gone."}
            await self.child.write(jsonrpc.encode_notification("notifications/cancelled", params))
        await self._release(stream)

    def end(self, reason: str) -> None:
        """End all open requests, because the process has ended."""
        for stream in self._open.values():
            stream.fail(reason)
        self._open.clear()
        self._questions.clear()

    async def take(self, line: bytes) -> bool:
        """Pass a line of the process to its caller. Return False if there is none."""
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError:
            return False
        if self._secrets:
            line = hidden_bytes(line, self._secrets)
        if isinstance(found, list):
            parts = [await self._route(each, jsonrpc.encode(each)) for each in found]
            return any(parts)
        # Within an event, a carriage return would end the line. Between tokens it means nothing.
        return await self._route(found, line.replace(b"\r", b" "))

    async def _route(self, message: Any, line: bytes) -> bool:
        if not isinstance(message, dict):
            return False
        number, method = _id(message.get("id")), message.get("method")
        if method is None:
            return await self._answered(number, line)
        if not isinstance(method, str):
            return False
        if number is not None:
            return await self._asked(number, method, line)
        params = message.get("params")
        stream = self._stream_of(method, params if isinstance(params, dict) else {})
        if stream is not None:
            return await stream.put(line)
        if self.has_session and method.endswith(_LIST_CHANGED) and len(self._changed) < 8:
            self._changed[method] = line
        return False

    async def _answered(self, number: jsonrpc.Id | None, line: bytes) -> bool:
        stream = _removed(self._open, number)
        if stream is None:
            return False
        self.has_answered = True
        self.used_at = time.monotonic()
        await self._release(stream)
        stream.answer(line)
        return True

    async def _asked(self, number: jsonrpc.Id, method: str, line: bytes) -> bool:
        if method == "ping":
            await self.child.write(jsonrpc.encode_result(number, {}))
            return False
        stream = next(reversed(self._open.values()), None)
        if not self.has_session or stream is None or number in self._questions:
            await self._decline(number)
            return False
        self._questions[number] = (stream, line)
        return await stream.put(line)

    async def _release(self, stream: Stream) -> None:
        """Pass the open questions of a finished request to another open request, or decline them."""
        for number, (owner, line) in list(self._questions.items()):
            if owner is not stream:
                continue
            other = next(reversed(self._open.values()), None)
            if other is None:
                del self._questions[number]
                await self._decline(number)
            else:
                self._questions[number] = (other, line)
                await other.put(line)

    async def _decline(self, number: jsonrpc.Id) -> None:
        error = {"code": -32601, "message": "No caller can answer this."}
        await self.child.write(jsonrpc.encode({"jsonrpc": "2.0", "id": number, "error": error}))

    def _stream_of(self, method: str, params: dict[str, Any]) -> Stream | None:
        if method == "notifications/progress":
            token = _id(params.get("progressToken"))
            return None if token is None else self._open.get(token)
        if method == "notifications/cancelled":
            found = _removed(self._questions, params.get("requestId"))
            return None if found is None else found[0]
        streams = list(self._open.values())
        if method.endswith(_LIST_CHANGED):
            return streams[-1] if streams else None
        return streams[0] if self.has_session and len(streams) == 1 else None


def _removed(found: dict[jsonrpc.Id, V], value: Any) -> V | None:
    """Remove and return the entry of an id. 0 and an empty text are ids, too."""
    number = _id(value)
    return None if number is None else found.pop(number, None)


def _id(value: Any) -> jsonrpc.Id | None:
    return value if type(value) in (str, int) else None
