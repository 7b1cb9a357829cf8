"""Questions to a client (elicitation, sampling, roots) and their answers (T-POST-10).

The answer may arrive at any process.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import orjson

from mcp_app.message_log.log import MessageLog
from mcp_app.observability.redaction import MARK
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.negotiated import Negotiated
from mcp_app.streams.base import SessionEnded, StreamsError
from mcp_app.streams.gateway import Streams

CANNOT_ASK = "The client cannot be asked now: the server's Redis takes nothing. Try again in a moment."
# Much longer than clients take to confirm their sessions.
CONFIRM_SECONDS = 10.0
CONFIRM_PAUSE, CONFIRM_PAUSE_MAX = 0.01, 0.5
UNCONFIRMED = (
    "The client has not confirmed its session with notifications/initialized, so it cannot be asked."
)

log = logging.getLogger("mcp.questions")


class Send(Protocol):
    """A function that sends a question, or its withdrawal, to the client."""

    def __call__(self, encoded: bytes, lost: Callable[[str], None] | None = None) -> None:
        """Send a message. If the message cannot be sent, ``lost`` is called with the reason."""
        ...


class ClientFailed(Exception):
    """Raised if the client answered a question with an error. The text of the error is untrusted."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class NoAnswer(Exception):
    """Raised if the client did not answer in time or could not be asked."""


class ClientRequests:
    """The open questions of one process.

    Questions are stored in Redis, because the answer may arrive at any process.
    """

    def __init__(
        self,
        streams: Streams,
        log: MessageLog,
        seconds: float,
        place: AbstractContextManager[None] | None = None,
    ) -> None:
        """Create the registry of open questions.

        ``place`` is a context manager around each open question. Entering it raises NoAnswer if too many
        questions are open.
        """
        self._streams = streams
        self.log = log
        self._seconds = seconds
        self.place = place or nullcontext()
        self._open: set[asyncio.Future[str]] = set()

    async def ask(
        self,
        session: Negotiated,
        method: str,
        params: dict[str, Any],
        send: Send,
        asked: set[str],
    ) -> dict[str, Any]:
        """Send a question to the client and return the client's result.

        The set ``asked`` contains the question's id as long as the question is open. Raises ClientFailed if
        the client answers with an error. Raises NoAnswer after the time limit (LIFE-09), when a withdrawal
        has been sent (CAN-08). Also raises NoAnswer if the client cannot be asked, or never confirms its
        session (LIFE-04).
        """
        if not session.initialized:
            await self._confirmed(session)
        request_id = f"{method.partition('/')[0]}-{secrets.token_urlsafe(9)}"
        try:
            await self._streams.requests.open(session.id, request_id, int(self._seconds) + 60)
        except SessionEnded:
            raise NoAnswer("The session has ended.") from None
        except StreamsError as error:
            log.warning("A question could not be sent to its client: %s", error)
            raise NoAnswer(CANNOT_ASK) from None
        encoded = jsonrpc.encode_request(request_id, method, params)
        self.log.single(session.id, session.principal_key, "out", "request", encoded, method, request_id)
        asked.add(request_id)
        try:
            payload = await self._sent(session, request_id, encoded, send)
        except (asyncio.CancelledError, NoAnswer):
            await asyncio.shield(self._withdraw(session, request_id, send, asked))
            raise
        if payload is None:
            await self._withdraw(session, request_id, send, asked)
            raise NoAnswer(f"The client did not answer {method} within {self._seconds:g} seconds.")
        asked.discard(request_id)
        await self._forget(session, request_id)
        answer = orjson.loads(payload)
        if "error" in answer:
            raise ClientFailed(answer["error"]["code"], answer["error"]["message"])
        result: dict[str, Any] = answer["result"]
        return result

    async def _confirmed(self, session: Negotiated) -> None:
        """Wait until the client has sent ``notifications/initialized`` (LIFE-04).

        Before that, no question may be sent. Clients send the notification in parallel with their first
        request, so either may arrive first, and at different processes. The stored session is polled, because
        a broadcast may be lost.
        """
        pause, until = CONFIRM_PAUSE, time.monotonic() + min(self._seconds, CONFIRM_SECONDS)
        while not session.initialized:
            try:
                stored = await self._streams.sessions.load(session.id)
            except SessionEnded:
                raise NoAnswer("The session has ended.") from None
            except StreamsError as error:
                log.warning("A question could not be sent to its client: %s", error)
                raise NoAnswer(CANNOT_ASK) from None
            if stored is not None and stored.get("initialized") == "1":
                session.initialized = True
            elif time.monotonic() >= until:
                raise NoAnswer(UNCONFIRMED)
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, CONFIRM_PAUSE_MAX)

    def give_up(self, reason: str) -> None:
        """Withdraw all open questions of this process.

        Each raises NoAnswer with ``reason`` as its message.
        """
        for question in self._open:
            if not question.done():
                question.set_result(reason)

    async def answer(self, session: Negotiated, response: jsonrpc.Response) -> bool:
        """Store the client's response to a question.

        Returns False if no question waits for the response, or if the question has already been answered
        (T-POST-09).
        """
        payload: dict[str, Any] = {"result": response.result}
        if response.error is not None:
            payload = {"error": response.error}
        return await self._streams.requests.answer(session.id, str(response.id), orjson.dumps(payload))

    async def _withdraw(self, session: Negotiated, request_id: str, send: Send, asked: set[str]) -> None:
        if request_id in asked:
            asked.discard(request_id)
            send(withdrawal(request_id))
        await self._forget(session, request_id)

    async def _sent(self, session: Negotiated, request_id: str, encoded: bytes, send: Send) -> bytes | None:
        """Send a question and wait for the answer. Raises NoAnswer if the question could not be sent."""
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(self._streams.requests.wait(session.id, request_id, self._seconds))
        self._open.add(lost)
        try:
            send(encoded, lambda reason: None if lost.done() else lost.set_result(reason))
            await asyncio.wait((waiting, lost), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            raise NoAnswer(lost.result())
        finally:
            self._open.discard(lost)
            waiting.cancel()

    async def _forget(self, session: Negotiated, request_id: str) -> None:
        """Delete a finished question, so that it does not occupy memory until it expires."""
        try:
            await self._streams.requests.drop(session.id, request_id)
        except StreamsError as error:
            # The question expires anyway. Raising here could replace a cancellation that is in progress.
            log.info("An answered question could not be deleted and will expire: %s", error)


def withdrawal(request_id: str) -> bytes:
    """Build the notification that withdraws a question (CAN-08)."""
    params = {"requestId": request_id, "reason": "the answer is no longer awaited"}
    return jsonrpc.encode_notification("notifications/cancelled", params)


def without_content(message: jsonrpc.Response, payload: bytes) -> bytes:
    """Return an answer for the log. Form content that users entered is removed (SEC-09)."""
    if message.result is None or "content" not in message.result:
        return payload
    return jsonrpc.encode_result(message.id, {**message.result, "content": MARK})


def without_contents(request: jsonrpc.Request, payload: bytes) -> bytes:
    """Return a request of revision 2026-07-28 for the log. The content of the answers in it is removed."""
    if "inputResponses" not in request.params:
        return payload
    found = request.params["inputResponses"]
    answers = {key: _hidden(answer) for key, answer in found.items()} if type(found) is dict else MARK
    return jsonrpc.encode_request(request.id, request.method, {**request.params, "inputResponses": answers})


def _hidden(answer: Any) -> Any:
    if type(answer) is not dict:
        return MARK
    return {**answer, "content": MARK} if "content" in answer else answer
