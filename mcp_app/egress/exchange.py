"""A request over a kept connection, and its bounded answer.

``exchange`` checks the target as ``fetch`` does. Unlike ``fetch`` it sends credentials, keeps connections
open between requests, and returns the answer before its body has arrived.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Self
from urllib.parse import quote, unquote_plus

import httpx2

from mcp_app.egress import target as targets
from mcp_app.egress.answer import ACCEPT_ENCODING, BROKE_OFF, Answer
from mcp_app.egress.connections import Kept, kept
from mcp_app.egress.dialing import Proxy, bracketed, dialed, dialed_socket, proxy_for
from mcp_app.egress.policy import EgressFailed, EgressRefused, Policy
from mcp_app.egress.target import Resolve, Target
from mcp_app.egress.wire import BrokenError, Response, Wire, request_head

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SAFE: Final = frozenset({"GET", "HEAD"})
# Headers that callers cannot set. Through Host or the message's length they could reach another host.
OWN_HEADERS: Final = frozenset(
    {
        "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect",
        "keep-alive", "proxy-authorization", "proxy-connection", "accept-encoding",
    }
)  # fmt: skip
_USUAL: Final = {name: name.lower() for name in ("User-Agent", "Accept", "Accept-Encoding")}
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_COOKIE: Final = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*")


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it is logged and shown. ``url`` is complete; the body has a known length."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Secrets:
    """Secret parts of a request, which are added when it is sent and never shown.

    Requests with different values of ``key`` share no connection.
    """

    headers: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    cookies: tuple[tuple[str, str], ...] = ()
    key: str = ""

    def __repr__(self) -> str:
        return f"Secrets(key={self.key!r})"


_NO_SECRETS: Final = Secrets()


class _Unlimited:
    """The timeout of a request whose caller has a timeout."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def expired(self) -> bool:
        return False


_UNLIMITED: Final = _Unlimited()


@dataclass(slots=True)
class Progress:
    """The progress of one request: whether its first byte left this server."""

    sent: bool = False


@asynccontextmanager
async def exchange(
    request: Request,
    policy: Policy,
    secrets: Secrets = _NO_SECRETS,
    *,
    caller: str = "",
    resolve: Resolve = targets.resolve_by_system,
    tls: ssl.SSLContext | None = None,
    socket: str = "",
    seconds: float | None = None,
) -> AsyncIterator[Answer]:
    """Send a request within ``policy`` and yield the answer.

    The policy's time includes the block. ``seconds`` replaces it. ``math.inf`` leaves it to the caller.
    ``socket`` is the path of a unix socket of this installation, which is used instead of the host. Only GET
    and HEAD follow redirects, to the same origin, up to ``policy.max_redirects``. One ``caller`` cannot use
    all connections to an origin. Raise EgressRefused if the policy forbids the request or the answer, and
    EgressFailed if the network or the server fails. Cancellation closes the connection at once.
    """
    check(request)
    target, progress = targets.read(request.url, policy), Progress()
    seconds = policy.seconds if seconds is None else seconds
    try:
        async with _UNLIMITED if seconds == math.inf else asyncio.timeout(seconds) as limit:
            connections = await kept()
            task = await connections.enter(target, policy, caller)
            try:
                key, response, answer = await _answered(
                    connections, request, target, policy, secrets, progress, resolve, tls, socket
                )
                try:
                    yield answer
                finally:
                    _release(connections, key, response)
            finally:
                connections.leave(target, caller, task)
    except EgressRefused as refusal:
        refusal.sent = progress.sent
        raise
    except TimeoutError:
        if not limit.expired():
            raise
        raise EgressFailed(
            f"The answer was not complete within {round(seconds, 1):g} seconds.", sent=progress.sent
        ) from None


async def _answered(
    connections: Kept,
    request: Request,
    target: Target,
    policy: Policy,
    secrets: Secrets,
    progress: Progress,
    resolve: Resolve,
    tls: ssl.SSLContext | None,
    socket: str,
) -> tuple[Hashable, Response, Answer]:
    """Return the last answer, after its redirects, with its response and the key of its connection."""
    proxy = None if socket else await proxy_for(target, policy, resolve)
    key = (target.scheme, target.host, target.port, secrets.key, policy.allow, resolve, tls, proxy, socket)
    dial: Callable[[], Awaitable[Wire]] = partial(dialed, target, policy, resolve, tls, proxy)
    if socket:
        dial = partial(dialed_socket, socket, policy)
    for _ in range(policy.max_redirects + 1 if request.method in _SAFE else 1):
        head = head_of(request, target, policy, secrets, proxy)
        response = await _sent(connections.take(key), dial, request, head, progress)
        is_last = False
        try:
            answer = Answer(request.method, response, policy)
            following = _following(answer, request, target, policy)
            if following is None:
                check_type(answer, policy)
                is_last = True
                return key, response, answer
            target = following
        finally:
            if not is_last:
                _release(connections, key, response)
    raise EgressRefused(f"The address redirects more than {policy.max_redirects} times.")


def _release(connections: Kept, key: Hashable, response: Response) -> None:
    """End an answer, and keep its connection if it can be used again."""
    response.close()
    connections.put(key, response.wire)


async def _sent(
    idle: Wire | None, dial: Callable[[], Awaitable[Wire]], request: Request, head: bytes, progress: Progress
) -> Response:
    if idle is not None:
        try:
            return await send(idle, request, head, progress)
        except EgressFailed:
            # A kept connection may have been closed by the server while the request was under way (RFC 9110
            # section 9.2.2). Only requests that change nothing are sent again.
            if request.method not in _SAFE:
                raise
    return await send(await dial(), request, head, progress)


async def send(wire: Wire, request: Request, head: bytes, progress: Progress) -> Response:
    """Send one request and return the answer, whose body is still arriving."""
    progress.sent = True
    response = wire.ask(head, request.body, has_body=request.method != "HEAD")
    is_answered = False
    try:
        await response.head()
        is_answered = True
    except BrokenError:
        raise EgressFailed(BROKE_OFF) from None
    finally:
        if not is_answered:
            response.close()
            # The answer may have arrived in the moment of a cancellation.
            wire.abort()
    return response


def head_of(
    request: Request, target: Target, policy: Policy, secrets: Secrets, proxy: Proxy | None = None
) -> bytes:
    """Return the bytes of a request before its body. Raise EgressRefused if they cannot be sent."""
    headers = [*_headers(target, policy, request, secrets), *_secret_headers(secrets, request)]
    path = _path(target, secrets.query)
    if proxy is not None and target.scheme == "http":
        port = "" if target.stated_port is None else f":{target.stated_port}"
        path = f"http://{bracketed(target.host.rstrip('.'))}{port}{path}"
        headers += proxy.headers
    try:
        return request_head(request.method, path, headers)
    except ValueError:
        _check_headers(request)
        raise EgressRefused("The request has a character that cannot be sent.") from None


def _path(target: Target, query: Sequence[tuple[str, str]]) -> str:
    """Return path and query with the credential's parameters, which replace others of their names."""
    path = target.path
    if not query:
        return path
    names = {name for name, _ in query}
    before, _, given = path.partition("?")
    pairs = [pair for pair in given.split("&") if pair and unquote_plus(pair.partition("=")[0]) not in names]
    pairs += [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query]
    return f"{before}?{'&'.join(pairs)}"


def _headers(target: Target, policy: Policy, request: Request, secrets: Secrets) -> list[tuple[str, str]]:
    headers, given = [("Host", target.authority)], {name.lower() for name, _ in request.headers}
    # A header of the credential replaces others of its name. Cookies are sent in one header together.
    without = {name.lower() for name, _ in secrets.headers} if secrets.headers else set[str]()
    usual = ("User-Agent", policy.user_agent), ("Accept", "*/*"), ("Accept-Encoding", ACCEPT_ENCODING)
    for name, value in usual:
        if (lower := _USUAL[name]) not in given and lower not in without:
            headers.append((name, value))
    if secrets.cookies:
        without.add("cookie")
    if without:
        headers += [(name, value) for name, value in request.headers if name.lower() not in without]
    else:
        headers += request.headers
    if request.body is not None:
        headers.append(("Content-Length", str(len(request.body))))
    return headers


def _secret_headers(secrets: Secrets, request: Request) -> list[tuple[str, str]]:
    headers = list(secrets.headers)
    if secrets.cookies:
        if not all(_NAME.fullmatch(name) and _COOKIE.fullmatch(value) for name, value in secrets.cookies):
            raise EgressRefused("The credential has a character that a cookie cannot hold.")
        # A request has one Cookie header (RFC 6265 section 5.4).
        given = [value for name, value in request.headers if name.lower() == "cookie"]
        names = {name for name, _ in secrets.cookies}
        pairs = (pair.strip() for pair in ";".join(given).split(";"))
        given = [pair for pair in pairs if pair and pair.partition("=")[0].strip() not in names]
        own = [f"{name}={value}" for name, value in secrets.cookies]
        headers.append(("Cookie", "; ".join(given + own)))
    for name, value in headers:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or name.lower() in OWN_HEADERS:
            raise EgressRefused("The credential has a header that cannot be sent.")
    return headers


def check(request: Request) -> None:
    """Raise EgressRefused for a method that cannot be sent, or for a header that this server sets."""
    if request.method not in METHODS:
        raise EgressRefused(f"{request.method} is not a method that can be sent.")
    for name, _ in request.headers:
        if name.lower() in OWN_HEADERS:
            raise EgressRefused(f"The header {name} is set by this server.")


def _check_headers(request: Request) -> None:
    """Raise EgressRefused for a character of a header. ``request_head`` refuses it without a reason."""
    if not all(_NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in request.headers):
        raise EgressRefused("A header has a character that cannot be sent.")


def check_type(answer: Answer, policy: Policy) -> None:
    """Raise EgressRefused if the policy does not allow the answer's content type."""
    if policy.content_types is not None and answer.content_type not in policy.content_types:
        raise EgressRefused(
            f"The answer is not of a type that is read here: {', '.join(sorted(policy.content_types))}."
        )


def redirected(target: Target, location: str, policy: Policy) -> Target:
    """Return the checked target of a redirect."""
    try:
        url = target.url.join(location)
    except (httpx2.InvalidURL, UnicodeError, ValueError):
        raise EgressRefused("The address redirects to something that is not a web address.") from None
    following = targets.read(url, policy)
    if target.scheme == "https" and following.scheme == "http":
        raise EgressRefused("The address redirects from https to http, which would give up its protection.")
    return following


def _following(answer: Answer, request: Request, target: Target, policy: Policy) -> Target | None:
    location = answer.header("location")
    if answer.status not in REDIRECTS or location is None or request.method not in _SAFE:
        return None
    if not policy.max_redirects:
        return None
    following = redirected(target, location, policy)
    if (following.scheme, following.host, following.port) != (target.scheme, target.host, target.port):
        raise EgressRefused("The address redirects to another host, which is not followed.")
    return following
