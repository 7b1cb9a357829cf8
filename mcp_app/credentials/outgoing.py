"""Records of the requests that a call sends to other servers, for the message log.

A record is bounded and has no secrets: the credential is removed when it is copied, and the message log
redacts the copy like all messages. Requests outside of calls are not recorded.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from pydantic_core import from_json

from mcp_app import conf
from mcp_app.credentials.hiding import HIDDEN, hidden, hidden_bytes, secret_texts, texts_to_hide
from mcp_app.egress import Answer, EgressFailed, EgressRefused, Request, Secrets, exchange
from mcp_app.egress.policy import Policy
from mcp_app.observability.correlation import CURRENT
from mcp_app.observability.incidents import secret_values
from mcp_app.observability.redaction import MARK, Redactor

# The first and the newest requests of a call that are kept. A task of a server may be polled for hours.
FIRST: Final = 4
NEWEST: Final = 4
MAX_URL: Final = 2_000
MAX_HEADER: Final = 500
MAX_HEADERS: Final = 50
# Bytes of a body.
MAX_BODY: Final = 64 * 1024
# Characters of all requests of a call together, as JSON. A batch of the message log must have room for them.
MAX_CHARACTERS: Final = 128 * 1024
_EVENTS: Final = "text/event-stream"
_DATA: Final = b"data:"
# Headers that identify a caller at the other server, beside those with names of secrets.
_SECRET_HEADERS: Final = frozenset({"mcp-session-id", "proxy-authorization", "www-authenticate"})
# A secret argument at the end of a cut text is found by so many characters, and fewer are removed.
_BEGINNING: Final = 8

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Body:
    """The beginning of a body, and the size of the whole in bytes."""

    data: bytes
    size: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request to another server and the beginning of its response, without the credential.

    ``number`` counts the requests of a call from 1. Before the response, ``status`` is 0 and ``seconds`` is
    None. ``problem`` is the reason for a failure.
    """

    number: int
    method: str
    url: str
    headers: Headers
    body: Body
    status: int
    content_type: str
    answer: Body
    seconds: float | None
    problem: str

    @property
    def size(self) -> int:
        """The bytes that the record takes."""
        return len(self.body.data) + len(self.answer.data) + len(self.url)


class Recording:
    """A request that is being made, with as much of its response as the message log stores."""

    __slots__ = (
        "_answer", "_behind", "_content_type", "_headers", "_limit", "_problem", "_received", "_request",
        "_seconds", "_secrets", "_started", "_status", "number",
    )  # fmt: skip

    def __init__(
        self, number: int, request: Request, own: Secrets, private: tuple[str, ...], limit: int
    ) -> None:
        self.number, self._limit = number, limit
        self._secrets = tuple(sorted((*secret_texts(own), *private), key=len, reverse=True))
        # A secret that begins before the limit has to be complete, also in UTF-16.
        self._behind = 2 * max((len(text.encode()) for text in self._secrets), default=0)
        url, self._headers = with_hidden(request, own, MARK)
        self._request = replace(request, url=url)
        self._answer, self._received = bytearray(), 0
        self._status, self._content_type, self._problem = 0, "", ""
        self._started = time.monotonic()
        self._seconds: float | None = None

    def take(self, data: bytes) -> None:
        """Record a part of the response."""
        self._received += len(data)
        room = self._limit + self._behind - len(self._answer)
        if room > 0:
            self._answer += data[:room]

    def answered(self, answer: Answer) -> None:
        """Record the head of the response, and its body as it arrives."""
        self._status, self._content_type = answer.status, answer.content_type
        answer.on_content = self.take

    def ended(self, error: Exception | None) -> None:
        """Record the end of the response. ``error`` is the reason if it failed."""
        self._seconds = time.monotonic() - self._started
        self._problem = "" if error is None else str(error)

    def copy(self) -> OutgoingRequest:
        """Return the record as it is now, without the credential."""
        request, body = self._request, self._request.body or b""
        return OutgoingRequest(
            self.number,
            request.method,
            hidden(request.url, self._secrets),
            tuple((name, hidden(value, self._secrets)) for name, value in self._headers),
            self._body(body, len(body)),
            self._status,
            hidden(self._content_type, self._secrets),
            self._body(bytes(self._answer), self._received),
            self._seconds,
            hidden(self._problem, self._secrets),
        )

    def _body(self, data: bytes, size: int) -> Body:
        """Return the beginning of a body without secrets. ``size`` is the size of the whole."""
        most = self._limit + self._behind
        text = hidden_bytes(data[:most], self._secrets)
        if size > most and self._behind:
            # The data may end within a secret.
            text = text[: -self._behind]
        return Body(text[: self._limit], size, is_cut=size > most or len(text) > self._limit)


@asynccontextmanager
async def recorded(
    request: Request,
    policy: Policy,
    own: Secrets,
    *,
    caller: str = "",
    socket: str = "",
    shown: str = "",
    private: tuple[str, ...] = (),
    seconds: float | None = None,
) -> AsyncIterator[Answer]:
    """Send a request as ``exchange`` does, and record it for the running call.

    ``shown`` is recorded in place of a URL that has secrets. ``private`` are further texts to remove.
    """
    recording = _recording(request, own, shown, private)
    if recording is None:
        async with exchange(request, policy, own, caller=caller, socket=socket, seconds=seconds) as answer:
            yield answer
        return
    error: Exception | None = None
    try:
        async with exchange(request, policy, own, caller=caller, socket=socket, seconds=seconds) as answer:
            recording.answered(answer)
            yield answer
    except (EgressFailed, EgressRefused) as failed:
        error = failed
        raise
    finally:
        recording.ended(error)


def _recording(request: Request, own: Secrets, shown: str, private: tuple[str, ...]) -> Recording | None:
    """Return the record of a request of the running call, or None if nothing is recorded."""
    current, settings = CURRENT.get(), conf.get()
    if current is None or current.sent is None or not settings.message_log:
        return None
    limit = min(settings.message_log_payload_bytes, MAX_BODY)
    if limit <= 0:
        return None
    sent: list[Recording] = current.sent
    request = replace(request, url=shown) if shown else request
    made = Recording(sent[-1].number + 1 if sent else 1, request, own, private, limit)
    if len(sent) >= FIRST + NEWEST:
        del sent[FIRST]
    sent.append(made)
    return made


def with_hidden(request: Request, own: Secrets, mark: str = HIDDEN) -> tuple[str, Headers]:
    """Return the URL and the headers of a request for display, with ``mark`` in place of the credential."""
    headers = [(name, mark) for name, _ in own.headers]
    if own.cookies:
        headers.append(("Cookie", "; ".join(f"{name}={mark}" for name, _ in own.cookies)))
    url = request.url
    if own.query:
        url += ("&" if "?" in url else "?") + "&".join(f"{name}={mark}" for name, _ in own.query)
    return url, (*request.headers, *headers)


def stored(
    requests: Iterable[OutgoingRequest], redactor: Redactor, message: bytes, limit: int
) -> list[dict[str, Any]]:
    """Return the requests of a call as the message log stores them.

    ``message`` is the message of the client. Values of its secret arguments are removed from all texts.
    """
    writer = _Writer(redactor, secret_values(redactor, message), limit)
    return [writer.request(each) for each in requests]


class _Writer:
    """Writes requests as redacted texts within the characters that are left."""

    def __init__(self, redactor: Redactor, private: Sequence[str], limit: int) -> None:
        self._redactor, self._left = redactor, min(2 * limit, MAX_CHARACTERS)
        self._private = tuple(dict.fromkeys((*texts_to_hide(private), *private)))

    def request(self, found: OutgoingRequest) -> dict[str, Any]:
        return {
            "number": found.number,
            "method": found.method,
            "url": self._short(found.url, MAX_URL),
            "headers": [[name, self._header(name, value)] for name, value in found.headers[:MAX_HEADERS]],
            "body": self._body(found.body, ""),
            "sent": found.body.size,
            "status": found.status or None,
            "content_type": self._short(found.content_type, MAX_HEADER),
            "answer": self._body(found.answer, found.content_type),
            "received": found.answer.size,
            "ms": None if found.seconds is None else round(found.seconds * 1000, 1),
            "problem": self._short(found.problem, MAX_HEADER),
        }

    def _header(self, name: str, value: str) -> str:
        if name.lower() in _SECRET_HEADERS or self._redactor.is_secret(name):
            return MARK
        return self._short(value, MAX_HEADER)

    def _short(self, text: str, limit: int) -> str:
        return self._redactor.text(self._public(text))[:limit]

    def _public(self, text: str) -> str:
        for value in self._private:
            text = text.replace(value, MARK)
        return text

    def _body(self, body: Body, content_type: str) -> str:
        """Return a body as redacted text."""
        data, is_cut = body.data, body.is_cut
        # Messages over HTTP+SSE do not arrive in the answer to their request.
        if content_type == _EVENTS or data.startswith(_DATA):
            *lines, last = data.split(b"\n")
            text = "\n".join([*(self._line(line) for line in lines), self._line(last, is_cut=is_cut)])
        else:
            text = self._redacted(data, is_cut=is_cut)
        text = self._public(text)
        if is_cut:
            text = self._without_beginning(text)
        text, is_short = self._fitted(text)
        return f"{text}… [{body.size} bytes, cut]" if is_cut or is_short else text

    def _line(self, line: bytes, *, is_cut: bool = False) -> str:
        """Return a line of an event stream. The data of an event is a message."""
        if not line.startswith(_DATA):
            return self._redacted(line, is_cut=is_cut)
        return f"data: {self._redacted(line[len(_DATA) :].strip(), is_cut=is_cut)}"

    def _redacted(self, data: bytes, *, is_cut: bool) -> str:
        if not is_cut:
            return self._redactor.message(data, len(data) + len(MARK) * 1_000)
        if not self._redactor.is_suspect(data):
            return data.decode("utf-8", "ignore")
        try:
            return json.dumps(self._redactor.value(from_json(data, allow_partial=True)), ensure_ascii=False)
        except ValueError:
            return self._redactor.text(data.decode("utf-8", "replace"))

    def _without_beginning(self, text: str) -> str:
        """Return a cut text without the beginning of a secret argument at its end."""
        for value in self._private:
            at = text.find(value[:_BEGINNING], max(0, len(text) - len(value)))
            text = text if at < 0 else text[:at]
        return text[:-_BEGINNING] if self._private else text

    def _fitted(self, text: str) -> tuple[str, bool]:
        """Return the part of a text that still fits, and whether it was cut."""
        # A character takes up to six as JSON.
        for length in (len(text), self._left, self._left // 6):
            found = text[:length]
            if (size := len(orjson.dumps(found)) - 2) <= self._left:
                break
        self._left -= size
        return found, len(found) < len(text)
