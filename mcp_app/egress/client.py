"""The guarded fetch: a request to a public address. All limits and checks apply at each redirect.

The name is resolved once, and the connection goes to the checked address. A name server therefore gains
nothing by changing its answer between check and use. With a proxy (EGRESS_PROXY) the proxy resolves the name.
Known private addresses are still refused here, and the proxy must refuse all others. Environment variables
such as HTTPS_PROXY are never read.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import httpx2
import orjson

from mcp_app import conf
from mcp_app.egress import target as targets
from mcp_app.egress.body import ACCEPT_ENCODING, read_bounded
from mcp_app.egress.policy import EgressFailed, EgressRefused, Policy
from mcp_app.egress.target import Resolve, Target

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_ATTEMPTS = 3
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Headers that callers cannot set. Through Host or the message's length they could reach another host.
_OWN_HEADERS = frozenset(
    {
        "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect",
        "keep-alive", "proxy-authorization", "proxy-connection", "accept-encoding",
    }
)  # fmt: skip
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
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


_GET = Sent("GET", {})


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
    if sent is not None:
        _check(sent, policy)
    try:
        async with asyncio.timeout(policy.seconds):
            return await _follow(targets.read(url, policy), policy, resolve, tls or _trust_store(), sent)
    except TimeoutError:
        raise EgressFailed(f"The answer was not complete within {policy.seconds:g} seconds.") from None


def _check(sent: Sent, policy: Policy) -> None:
    if policy.max_redirects:
        raise ValueError("What is sent to one place is not sent on to another: allow no redirects.")
    if sent.method not in METHODS:
        raise EgressRefused(f"{sent.method} is not a method that can be sent.")
    for name, value in sent.headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise EgressRefused("A header has a character that cannot be sent.")
        if name.lower() in _OWN_HEADERS:
            raise EgressRefused(f"The header {name} is set by this server.")


@lru_cache(maxsize=1)
def _trust_store() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)


async def _follow(
    target: Target, policy: Policy, resolve: Resolve, tls: ssl.SSLContext, sent: Sent | None
) -> Fetched:
    proxy = conf.get().egress_proxy
    for _ in range(policy.max_redirects + 1):
        found = await (targets.reach if proxy else targets.addresses)(target, policy, resolve)
        if found:
            answer = await _ask(target, found, policy, tls, sent)
        else:
            answer = await _ask(target, [target.host.rstrip(".")], policy, tls, sent, proxy)
        if isinstance(answer, Fetched):
            return answer
        target = answer
    raise EgressRefused(
        f"The address redirects more than {policy.max_redirects} times. Give its final address."
    )


async def _ask(
    target: Target,
    found: list[str],
    policy: Policy,
    tls: ssl.SSLContext,
    sent: Sent | None,
    proxy: str = "",
) -> Fetched | Target:
    for address in found[:_MAX_ATTEMPTS]:
        # Each request has its own transport, so that requests share no connection, cookie or credential.
        async with httpx2.AsyncHTTPTransport(verify=tls, trust_env=False, proxy=_proxied(proxy)) as transport:
            request = _request(target, address, policy, sent or _GET)
            try:
                response = await transport.handle_async_request(request)
                return await _read(target, response, policy)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
            except httpx2.ProxyError:
                raise EgressFailed("The proxy of this server refused the connection.") from None
            except (httpx2.HTTPError, OSError):
                raise EgressFailed("The server broke off or did not speak HTTP. Try again later.") from None
    through = " through this server's proxy" if proxy else ""
    raise EgressFailed(
        f"No secure connection to the server could be made{through}. Check the address or try later."
    )


def _proxied(proxy: str) -> httpx2.Proxy | None:
    if not proxy:
        return None
    return httpx2.Proxy(proxy, ssl_context=_trust_store() if proxy.startswith("https:") else None)


def _request(target: Target, address: str, policy: Policy, sent: Sent) -> httpx2.Request:
    headers = httpx2.Headers(
        {
            "Host": target.authority,
            "User-Agent": policy.user_agent,
            "Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5",
            "Accept-Encoding": ACCEPT_ENCODING,
            "Connection": "close",
        }
    )
    headers.update(sent.headers)
    timeout = httpx2.Timeout(policy.seconds, connect=policy.connect_seconds).as_dict()
    extensions = {"timeout": timeout, "sni_hostname": target.host.rstrip(".")}
    return httpx2.Request(
        sent.method, target.at(address), headers=headers, content=sent.body, extensions=extensions
    )


async def _read(target: Target, response: httpx2.Response, policy: Policy) -> Fetched | Target:
    try:
        location = response.headers.get("location")
        if response.status_code in _REDIRECTS and location is not None:
            return _redirected(target, location, policy)
        content_type, charset = _content_type(response, policy)
        body = await read_bounded(response, policy)
        headers = dict(response.headers)
        return Fetched(str(target.url), response.status_code, content_type, charset, body, headers)
    finally:
        await response.aclose()


def _redirected(target: Target, location: str, policy: Policy) -> Target:
    try:
        url = target.url.join(location)
    except (httpx2.InvalidURL, UnicodeError, ValueError):
        raise EgressRefused("The address redirects to something that is not a web address.") from None
    following = targets.read(url, policy)
    if target.scheme == "https" and following.scheme == "http":
        raise EgressRefused("The address redirects from https to http, which would give up its protection.")
    return following


def _content_type(response: httpx2.Response, policy: Policy) -> tuple[str, str]:
    name, _, parameters = response.headers.get("content-type", "").partition(";")
    content_type = name.strip().lower()
    if policy.content_types is not None and content_type not in policy.content_types:
        raise EgressRefused(
            f"The answer is not of a type that is read here: {', '.join(sorted(policy.content_types))}."
        )
    _, _, charset = parameters.lower().partition("charset=")
    return content_type, charset.partition(";")[0].strip(" \"'")
