"""Streamable HTTP to another server: one request and its answer, within limits.

Requests with different credentials share no connection. No header of a caller is sent, no cookie is stored,
and no redirect is followed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from mcp_app import conf
from mcp_app.credentials import services as credentials
from mcp_app.credentials.hiding import hidden, hidden_bytes, secret_texts
from mcp_app.credentials.outgoing import recorded
from mcp_app.egress import Answer, EgressFailed, EgressRefused, Request, Secrets, exchange
from mcp_app.egress.policy import Policy, entered
from mcp_app.observability.correlation import principal
from mcp_app.protocol.client import handshake
from mcp_app.protocol.client.answers import Answered, AnswerReader, Budget, Event, InputRequired
from mcp_app.protocol.client.faults import InsufficientScope, Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import SESSION_HEADER, Headers, Outgoing
from mcp_app.upstreams import bridge
from mcp_app.upstreams.accounts import exchanged
from mcp_app.upstreams.accounts import use as accounts
from mcp_app.upstreams.server import ExchangedAccount, UpstreamServer

# An event stream that sends nothing, not even a comment, for this time is given up.
IDLE_SECONDS: Final = 60.0
# After the result, the end of a stream is read for this time, so that its connection can be used again.
DRAIN_SECONDS: Final = 0.25
CONCURRENT: Final = 200
BUDGET: Final = Budget()
# The ids of sessions over HTTP+SSE begin so.
LOCAL_SESSION: Final = "sse-"
# No request is longer; each has its own time.
_SECONDS: Final = 86_400.0
_NO_SECRETS: Final = Secrets()
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"

OnEvent = Callable[[Event], Awaitable[None]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request, and the session id in its headers. A notification has no ``event``."""

    event: Event | None
    session: str | None = None


class LocalSession(Protocol):
    """A session whose connection belongs to this process."""

    @property
    def server_key(self) -> str:
        """The key of the server."""

    @property
    def is_here(self) -> bool:
        """True while its connection is open and belongs to the running event loop."""

    async def request(
        self,
        server: UpstreamServer,
        sent: Outgoing,
        on_event: OnEvent | None,
        until: float,
        budget: Budget,
    ) -> Event | None:
        """Send a message and return the answer. Raise UpstreamFault."""

    def close(self) -> None:
        """End the session."""


local_sessions: dict[str, LocalSession] = {}


async def post(
    server: UpstreamServer,
    sent: Outgoing,
    *,
    on_event: OnEvent | None = None,
    seconds: float | None = None,
    budget: Budget = BUDGET,
    idle: Callable[[], float] = lambda: IDLE_SECONDS,
    is_timed: bool = False,
) -> Reply:
    """Send a message and return the answer. Raise UpstreamFault if there is none.

    ``on_event`` is awaited for each message before the answer. ``idle`` returns the time for which the
    server may be silent within an event stream. ``is_timed`` is True if the caller has a timeout of at most
    ``seconds``.
    """
    until = time.monotonic() + (server.seconds if seconds is None else seconds)
    try:
        if (session_id := _local(sent.headers)) is not None:
            session = _session(session_id)
            return Reply(await session.request(server, sent, on_event, until, budget), session_id)
        attempt = partial(_attempt, server, sent, until, on_event, budget, idle, is_timed)
        if _has_secrets(server):
            return await with_secrets(server, until, attempt)
        return await attempt(_NO_SECRETS)
    except UpstreamFault as fault:
        # The text is stored as the state of the server, and shown to callers.
        fault.args = (hidden(str(fault), server.query_texts),)
        raise


async def with_secrets(server: UpstreamServer, until: float, attempt: Callable[[Secrets], Awaitable[T]]) -> T:
    """Return the result of ``attempt``, repeated with a new token after a refused one."""
    renewed = False
    while True:
        own = await secrets_of(server, until)
        try:
            return await attempt(own)
        except UpstreamFault as fault:
            if fault.kind != Kind.LOGIN:
                raise
            if isinstance(fault, InsufficientScope):
                await _record_need(server, fault)
                raise
            # The access token may have expired. A request that was refused for it was not processed.
            may_renew = await _refused(server, own, fault.status)
            if renewed or not may_renew:
                raise
            renewed = True


async def delete(server: UpstreamServer, headers: Headers, *, seconds: float) -> None:
    """End a session within ``seconds``, or within as many again at the second attempt.

    Servers may refuse this (405), so every answer is accepted.
    """
    if (session_id := _local(headers)) is not None:
        if (session := local_sessions.pop(session_id, None)) is not None:
            session.close()
        return
    own = await secrets_of(server, time.monotonic() + seconds)
    request = Request("DELETE", server.url, headers)
    # A kept connection may have been closed in this moment. DELETE is idempotent (RFC 9110 section 9.2.2).
    with suppress(EgressRefused):
        for _ in range(2):
            with suppress(EgressFailed):
                async with exchange(request, policy(BUDGET), own, socket=_socket(server), seconds=seconds):
                    return


async def _attempt(
    server: UpstreamServer,
    sent: Outgoing,
    until: float,
    on_event: OnEvent | None,
    budget: Budget,
    idle: Callable[[], float],
    is_timed: bool,
    own: Secrets,
) -> Reply:
    request = Request(sent.method, server.url, sent.headers, sent.body)
    secrets = secret_texts(own) if own is not _NO_SECRETS else ()
    cleaned = partial(hidden_bytes, secrets=secrets) if secrets else None
    # A message without an id belongs to a request that may have the last turn of its caller.
    caller, socket = "" if sent.id is None else principal(), _socket(server)
    left = math.inf if is_timed else left_until(until)
    try:
        bounds = policy(budget)
        async with recorded(
            request, bounds, own, caller=caller, socket=socket,
            shown=server.shown_url, private=server.query_texts, seconds=left,
        ) as answer:  # fmt: skip
            if sent.id is None:
                await accepted(server, answer, sent, own)
                return Reply(None)
            if answer.status != 200:
                raise await _refusal(server, answer, sent, own)
            reader = AnswerReader(sent.id, budget, cleaned)
            event = await _answer(answer, reader, on_event, budget, idle)
            return Reply(event, answer.header(SESSION_HEADER.lower()))
    except EgressRefused as refused:
        kind = Kind.TOO_LARGE if refused.sent else Kind.BLOCKED
        raise UpstreamFault(kind, f"cannot be used. {refused}", sent=refused.sent) from None
    except EgressFailed as failed:
        raise failure(server, failed, until) from None


async def _answer(
    answer: Answer,
    reader: AnswerReader,
    on_event: OnEvent | None,
    budget: Budget,
    idle: Callable[[], float],
) -> Event | None:
    if answer.content_type == _JSON:
        return await handled(reader.whole(await answer.read(budget.message_bytes)), on_event)
    if answer.content_type != _EVENTS:
        raise UpstreamFault(
            Kind.NOT_MCP, f"answered with {answer.content_type[:64] or 'no type'} instead of JSON or events."
        )
    chunks = answer.chunks()
    last: Event | None = None
    while not reader.done:
        seconds = idle()
        try:
            async with asyncio.timeout(seconds) as limit:
                chunk = await anext(chunks, None)
        except TimeoutError:
            if not limit.expired():
                raise
            raise UpstreamFault(Kind.TIMEOUT, f"sent nothing for {seconds:g} seconds.") from None
        if chunk is None:
            reader.end()
        else:
            last = await handled(reader.feed(chunk), on_event)
    await _drained(chunks)
    return last


async def handled(events: list[Event], on_event: OnEvent | None) -> Event | None:
    """Pass the events before the answer to ``on_event``, and return the answer once it is there."""
    for event in events:
        if isinstance(event, Answered | InputRequired):
            return event
        if on_event is not None:
            await on_event(event)
    return None


async def _drained(chunks: AsyncIterator[bytes]) -> None:
    """Read the end of a stream after the result. A stream that does not end is closed by the caller."""
    with suppress(TimeoutError, EgressFailed, EgressRefused):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass


async def accepted(server: UpstreamServer, answer: Answer, sent: Outgoing, own: Secrets) -> None:
    """Raise UpstreamFault if a message that gets no answer is refused."""
    if not 200 <= answer.status < 300:
        raise await _refusal(server, answer, sent, own)


async def _refusal(server: UpstreamServer, answer: Answer, sent: Outgoing, own: Secrets) -> UpstreamFault:
    body = bytearray()
    # The status counts, even if the rest cannot be read.
    with suppress(EgressFailed, EgressRefused):
        async for chunk in answer.chunks():
            body += chunk
            if len(body) > handshake.MAX_ERROR_BYTES:
                break
    # Servers repeat refused headers in their errors.
    cleaned = hidden_bytes(bytes(body), secret_texts(own))
    if server.command and (fault := bridge.fault_of(answer.status, cleaned)) is not None:
        return fault
    in_session = not sent.opens and any(name == SESSION_HEADER for name, _ in sent.headers)
    challenge = ", ".join(value for name, value in answer.headers if name == "www-authenticate")
    return handshake.fault_of(answer.status, cleaned, in_session=in_session, challenge=challenge)


def _local(headers: Headers) -> str | None:
    """Return the id of a session of one process, or None for all others. It is the last header."""
    if headers and headers[-1][0] == SESSION_HEADER and headers[-1][1].startswith(LOCAL_SESSION):
        return headers[-1][1]
    return None


def _session(session_id: str) -> LocalSession:
    session = local_sessions.get(session_id)
    if session is None or not session.is_here:
        raise UpstreamFault(Kind.EXPIRED, "ended the session.", sent=False)
    return session


def _socket(server: UpstreamServer) -> str:
    """Return the socket of the bridge for a server over stdio, or "" for all others."""
    return conf.get().upstream_socket if server.command else ""


async def secrets_of(server: UpstreamServer, until: float) -> Secrets:
    """Return the secrets of a request to a server. Raise UpstreamFault if they cannot be used."""
    if server.command:
        return bridge.secrets()
    if not _has_secrets(server):
        return _NO_SECRETS
    try:
        async with asyncio.timeout(left_until(until)) as limit:
            if isinstance(server.account, ExchangedAccount):
                return await exchanged.secrets_for(server.account, server.url)
            if server.account is not None:
                return await accounts.secrets_for(server.pk, server.account, server.url)
            return await credentials.secrets_for(server.credential, server.url)
    except (credentials.CredentialRefused, accounts.AccountRefused) as refused:
        raise UpstreamFault(Kind.LOGIN, f"cannot be used. {refused}", sent=False) from None
    except TimeoutError:
        if not limit.expired():
            raise
        owner = "The connection of the user" if server.account else f"The credential {server.credential!r}"
        text = f"cannot be used. {owner} got no access token in time."
        raise UpstreamFault(Kind.LOGIN, text, sent=False) from None


async def _refused(server: UpstreamServer, own: Secrets, status: int) -> bool:
    """Record that the server refused the secrets. Return True if another attempt gets a new token."""
    if isinstance(server.account, ExchangedAccount):
        return await exchanged.refused(server.account, server.url, own, status)
    if server.account is not None:
        return await accounts.refused(server.pk, server.account, own, status)
    return bool(server.credential) and await credentials.refused(server.credential, own, status)


async def _record_need(server: UpstreamServer, fault: InsufficientScope) -> None:
    """Record the scopes that the account of a user lacks, so that its next login asks for them."""
    account = server.account
    if account is not None and not isinstance(account, ExchangedAccount):
        fault.can_be_asked_for = await accounts.record_need(server.pk, account, fault.scopes)


def policy(budget: Budget) -> Policy:
    """Return the policy of a request, whose time is passed beside it."""
    return entered(seconds=_SECONDS, max_bytes=budget.total_bytes, concurrent=CONCURRENT)


def left_until(until: float) -> float:
    """Return the seconds until a monotonic time, and a little after it."""
    return max(until - time.monotonic(), 0.001)


def _has_secrets(server: UpstreamServer) -> bool:
    return bool(server.credential or server.command or server.account is not None)


def failure(server: UpstreamServer, failed: EgressFailed, until: float) -> UpstreamFault:
    """Return the fault for a request without an answer."""
    if time.monotonic() >= until - 0.01:
        return UpstreamFault(Kind.TIMEOUT, "did not answer in time.", sent=failed.sent)
    if not failed.sent and server.command:
        return UpstreamFault(Kind.UNREACHABLE, bridge.NOT_RUNNING, sent=False)
    if not failed.sent:
        return UpstreamFault(Kind.UNREACHABLE, f"cannot be reached. {failed}", sent=False)
    return UpstreamFault(Kind.BROKEN_OFF, "broke off its answer.")
