"""A request over a kept connection, and its bounded answer.

``exchange`` checks the target as ``fetch`` does. Unlike ``fetch`` it sends credentials, keeps connections
open between requests, and returns the answer before its body has arrived.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_plus

import httpcore2
import httpx2

from mcp_app.egress import target as targets
from mcp_app.egress.answer import ACCEPT_ENCODING, Answer
from mcp_app.egress.connections import PROGRESS, Progress, new_pool, pools, proxy_for
from mcp_app.egress.policy import EgressFailed, EgressRefused, Policy
from mcp_app.egress.target import Resolve, Target

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
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_COOKIE: Final = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*")
_BROKEN: Final = (
    httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, OSError
)  # fmt: skip
_BROKE_OFF: Final = "The server broke off or did not speak HTTP. Try again later."


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


@asynccontextmanager
async def exchange(
    request: Request,
    policy: Policy,
    secrets: Secrets = _NO_SECRETS,
    *,
    resolve: Resolve = targets.resolve_by_system,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Answer]:
    """Send a request within ``policy`` and yield the answer. The policy's time includes the block.

    Only GET and HEAD follow redirects, to the same origin, up to ``policy.max_redirects``. Raise
    EgressRefused if the policy forbids the request or the answer, and EgressFailed if the network or the
    server fails. Cancellation closes the connection at once.
    """
    check(request)
    target, progress = targets.read(request.url, policy), Progress()
    try:
        async with asyncio.timeout(policy.seconds) as limit:
            async with _answered(request, target, policy, secrets, progress, resolve, tls) as answer:
                yield answer
    except EgressRefused as refusal:
        refusal.sent = progress.sent
        raise
    except TimeoutError:
        if not limit.expired():
            raise
        raise EgressFailed(
            f"The answer was not complete within {round(policy.seconds, 1):g} seconds.", sent=progress.sent
        ) from None


@asynccontextmanager
async def _answered(
    request: Request,
    target: Target,
    policy: Policy,
    secrets: Secrets,
    progress: Progress,
    resolve: Resolve,
    tls: ssl.SSLContext | None,
) -> AsyncIterator[Answer]:
    kept = await pools()
    async with kept.turn(target, policy):
        proxy = await proxy_for(target, policy, resolve)
        key = (target.scheme, target.host, target.port, secrets.key, policy.allow, resolve, tls, proxy)
        used = kept.acquire(key, lambda: new_pool(target, policy, resolve, tls, proxy))
        try:
            for _ in range(policy.max_redirects + 1 if request.method in _SAFE else 1):
                response = await _sent(used.pool, request, target, policy, secrets, progress, proxy)
                try:
                    answer = Answer(request, response, policy, progress)
                    following = _following(answer, request, target, policy)
                    if following is None:
                        check_type(answer, policy)
                        yield answer
                        return
                    target = following
                finally:
                    await closed(response)
        finally:
            kept.release(key, used)
    raise EgressRefused(f"The address redirects more than {policy.max_redirects} times.")


async def _sent(
    pool: httpcore2.AsyncConnectionPool,
    request: Request,
    target: Target,
    policy: Policy,
    secrets: Secrets,
    progress: Progress,
    proxy: str,
) -> httpcore2.Response:
    progress.connected = progress.sent = False
    try:
        return await send(pool, request, target, policy, secrets, progress, proxy)
    except EgressFailed:
        # A kept connection may have been closed by the server while the request was under way (RFC 9110
        # section 9.2.2). Only requests that change nothing are sent again.
        if progress.connected or request.method not in _SAFE:
            raise
    return await send(pool, request, target, policy, secrets, progress, proxy)


async def send(
    pool: httpcore2.AsyncConnectionPool,
    request: Request,
    target: Target,
    policy: Policy,
    secrets: Secrets,
    progress: Progress,
    proxy: str = "",
) -> httpcore2.Response:
    """Send one request over a connection of the pool and return the answer, whose body is still arriving."""
    host = target.host.rstrip(".").encode() if proxy else target.host.encode()
    # The library writes a given port into requests to a proxy, even if it is the usual one.
    port, path = target.url.port, _path(target, secrets.query)
    url = httpcore2.URL(scheme=target.scheme.encode(), host=host, port=port, target=path)
    timeout = {"connect": policy.connect_seconds, "read": policy.seconds, "write": policy.seconds}
    extensions = {"timeout": timeout, "sni_hostname": target.host.rstrip(".")}
    body = request.body
    wire = httpcore2.Request(
        request.method,
        url,
        headers=[
            *_headers(target, policy, request, secrets),
            *_secret_headers(secrets, request),
        ],
        content=body if body is not None else b"",
        extensions=extensions,
    )
    token = PROGRESS.set(progress)
    try:
        return await pool.handle_async_request(wire)
    except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
        through = " through this server's proxy" if proxy else ""
        raise EgressFailed(
            f"No secure connection to the server could be made{through}. Check the address or try later.",
            sent=False,
        ) from None
    except httpcore2.ProxyError:
        raise EgressFailed("The proxy of this server refused the connection.", sent=False) from None
    except _BROKEN:
        raise EgressFailed(_BROKE_OFF, sent=progress.sent) from None
    finally:
        PROGRESS.reset(token)


async def closed(response: httpcore2.Response) -> None:
    """Close an answer. A connection whose answer was not read to its end is closed with it."""
    with suppress(*_BROKEN):
        await response.aclose()


def _path(target: Target, query: Sequence[tuple[str, str]]) -> bytes:
    """Return path and query with the credential's parameters, which replace others of their names."""
    path = target.url.raw_path
    if not query:
        return path
    names = {name for name, _ in query}
    before, _, given = path.partition(b"?")
    pairs = [
        pair
        for pair in given.decode("ascii").split("&")
        if pair and unquote_plus(pair.partition("=")[0]) not in names
    ]
    pairs += [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query]
    return before + b"?" + "&".join(pairs).encode()


def _headers(target: Target, policy: Policy, request: Request, secrets: Secrets) -> list[tuple[bytes, bytes]]:
    given = {name.lower() for name, _ in (*request.headers, *secrets.headers)}
    headers = [(b"Host", target.authority.encode())]
    usual = (
        ("User-Agent", policy.user_agent),
        ("Accept", "*/*"),
        ("Accept-Encoding", ACCEPT_ENCODING),
    )
    headers += [(name.encode(), value.encode()) for name, value in usual if name.lower() not in given]
    # A header of the credential replaces others of its name. Cookies are sent in one header together.
    without = {name.lower() for name, _ in secrets.headers} | ({"cookie"} if secrets.cookies else set())
    headers += [
        (name.encode(), value.encode()) for name, value in request.headers if name.lower() not in without
    ]
    if request.body is not None:
        headers.append((b"Content-Length", str(len(request.body)).encode()))
    return headers


def _secret_headers(secrets: Secrets, request: Request) -> list[tuple[bytes, bytes]]:
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
    return [(name.encode(), value.encode()) for name, value in headers]


def check(request: Request) -> None:
    """Raise EgressRefused for a method or header that cannot be sent."""
    if request.method not in METHODS:
        raise EgressRefused(f"{request.method} is not a method that can be sent.")
    for name, value in request.headers:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise EgressRefused("A header has a character that cannot be sent.")
        if name.lower() in OWN_HEADERS:
            raise EgressRefused(f"The header {name} is set by this server.")


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
