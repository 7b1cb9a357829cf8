"""The guarded fetch: a request to a public address. All limits and checks apply at each redirect.

The name is resolved once, and the connection goes to the checked address. A name server therefore gains
nothing by changing its answer between check and use. With a proxy (EGRESS_PROXY) the proxy resolves the name.
Known private addresses are still refused here, and the proxy must refuse all others. Environment variables
such as HTTPS_PROXY are never read.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from mcp_app.egress import target as targets
from mcp_app.egress.answer import Answer
from mcp_app.egress.dialing import dialed, proxy_for
from mcp_app.egress.exchange import (
    METHODS,
    REDIRECTS,
    Progress,
    Request,
    Secrets,
    check,
    check_type,
    head_of,
    redirected,
    send,
)
from mcp_app.egress.policy import EgressFailed, EgressRefused, Policy
from mcp_app.egress.target import Resolve, Target

__all__ = ["METHODS", "Fetched", "Sent", "fetch"]

_PAGE_HEADERS = (
    ("Accept", "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5"),
    ("Connection", "close"),
)

_DEFAULT_POLICY = Policy()


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer: the final URL after redirects, the status, the type without parameters, the body.

    Names of ``headers`` are in lower case. The values of repeated headers are joined with commas.
    """

    url: str
    status: int
    content_type: str
    charset: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def json_object(self) -> dict[str, Any] | None:
        """Return the body as a dict, or None if it is not a JSON object."""
        try:
            said = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None
        return said if isinstance(said, dict) else None


@dataclass(frozen=True, slots=True)
class Sent:
    """A request with a method, additional headers and a body. Its policy must allow no redirects.

    Headers of the connection, such as Host, cannot be set.
    """

    method: str
    headers: Mapping[str, str]
    body: bytes | None = None


async def fetch(
    url: str,
    policy: Policy = _DEFAULT_POLICY,
    *,
    sent: Sent | None = None,
    resolve: Resolve = targets.resolve_by_system,
    tls: ssl.SSLContext | None = None,
) -> Fetched:
    """Send a GET, or the request ``sent``, within ``policy``. Return the answer, which may have any status.

    ``resolve`` and ``tls`` replace the system's name lookup and trust store. Raise EgressRefused if the
    policy forbids the request (at any redirect) and EgressFailed if the network or the server fails.
    """
    request = _checked(sent, url, policy)
    try:
        async with asyncio.timeout(policy.seconds):
            return await _follow(targets.read(url, policy), policy, resolve, tls, request)
    except TimeoutError:
        raise EgressFailed(f"The answer was not complete within {policy.seconds:g} seconds.") from None


def _checked(sent: Sent | None, url: str, policy: Policy) -> Request:
    if sent is None:
        return Request("GET", url, _PAGE_HEADERS)
    if policy.max_redirects:
        raise ValueError("What is sent to one place is not sent on to another: allow no redirects.")
    request = Request(sent.method, url, tuple(sent.headers.items()), sent.body)
    check(request)
    named = {name.lower() for name in sent.headers}
    usual = (pair for pair in _PAGE_HEADERS if pair[0].lower() not in named)
    return replace(request, headers=(*usual, *request.headers))


async def _follow(
    target: Target, policy: Policy, resolve: Resolve, tls: ssl.SSLContext | None, request: Request
) -> Fetched:
    for _ in range(policy.max_redirects + 1):
        answer = await _ask(target, policy, resolve, tls, request)
        if isinstance(answer, Fetched):
            return answer
        target = answer
    raise EgressRefused(
        f"The address redirects more than {policy.max_redirects} times. Give its final address."
    )


async def _ask(
    target: Target, policy: Policy, resolve: Resolve, tls: ssl.SSLContext | None, request: Request
) -> Fetched | Target:
    proxy = await proxy_for(target, policy, resolve)
    head = head_of(request, target, policy, Secrets(), proxy)
    # Each request has its own connection, so that requests share no credential.
    wire = await dialed(target, policy, resolve, tls, proxy)
    try:
        response = await send(wire, request, head, Progress())
        try:
            return await _read(target, Answer(request.method, response, policy), policy)
        finally:
            response.close()
    finally:
        wire.abort()


async def _read(target: Target, answer: Answer, policy: Policy) -> Fetched | Target:
    location = answer.header("location")
    if answer.status in REDIRECTS and location is not None:
        return redirected(target, location, policy)
    check_type(answer, policy)
    body = await answer.read()
    headers = {name: answer.header(name) or "" for name, _ in answer.headers}
    return Fetched(str(target.url), answer.status, answer.content_type, answer.charset, body, headers)
