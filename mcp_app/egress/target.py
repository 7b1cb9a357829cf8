"""Targets of a fetch: URL checks and name resolution, without a connection."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import httpx2

from mcp_app.egress.addresses import is_public, parse
from mcp_app.egress.policy import EgressRefused, Policy

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host name and port to the addresses it stands for; OSError when there are none."""

_HOST_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_ADDRESSES = 32
# Behind a proxy, this host often cannot resolve public names, and some name servers then never answer.
_LOOKUP_SECONDS = 1.0
# Names outside the public DNS (RFC 6761, 6762, 7686, 8375, 9476; ICANN: internal).
_INSIDE_NAMES = ("local", "localhost", "internal", "home.arpa", "alt", "test", "invalid", "onion")


# Addresses that the parser of URLs does not change, and whose origin ends at the first slash.
_PLAIN: Final = re.compile(
    r"(https?://[a-z0-9.-]+(?::[0-9]{1,5})?)"
    r"((?:/(?!\.)(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})*)+(?:\?(?:[A-Za-z0-9._~=&+-]|%[0-9A-F]{2})+)?)"
)


@dataclass(frozen=True, slots=True)
class Target:
    """A checked target: ``host`` is lower-case ASCII without brackets, ``authority`` the Host header.

    ``path`` includes the query as it is sent. ``stated_port`` is None if the URL has no port.
    """

    text: str
    scheme: str
    host: str
    port: int
    stated_port: int | None
    path: str

    @property
    def url(self) -> httpx2.URL:
        """The parsed URL. Parsing takes longer than everything else that a request needs."""
        return httpx2.URL(self.text)

    @property
    def authority(self) -> str:
        """The Host header, without the scheme's default port (RFC 9110 section 7.2)."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _DEFAULT_PORTS[self.scheme] else f"{name}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, in one spelling."""
        return f"{self.scheme}://{self.authority}"

    @property
    def is_inside(self) -> bool:
        """True for a name or address that is not on the public internet."""
        literal = parse(self.host)
        return _is_inside_name(self.host) if literal is None else not is_public(literal)


def read(url: httpx2.URL | str, policy: Policy) -> Target:
    """Return the checked target of ``url`` without network access. Raises EgressRefused with the reason."""
    text = str(url)
    if len(text) > policy.max_url_characters:
        raise EgressRefused(f"The address is longer than {policy.max_url_characters} characters.")
    if plain := _PLAIN.fullmatch(text):
        scheme, stated_port, host = _origin(plain[1])
        path = plain[2]
    else:
        parsed = _parse(text)
        if parsed.scheme not in _DEFAULT_PORTS:
            raise EgressRefused("Start the address with http:// or https://.")
        if parsed.userinfo:
            raise EgressRefused(
                "The address holds a user name or password. Give it without the part before '@'."
            )
        scheme, stated_port, host = parsed.scheme, parsed.port, parsed.raw_host.decode("ascii")
        path = parsed.raw_path.decode("ascii")
    port = _DEFAULT_PORTS[scheme] if stated_port is None else stated_port
    if port not in policy.ports:
        ports = ", ".join(map(str, sorted(policy.ports)))
        raise EgressRefused(f"Port {port} is not open for fetching. Use one of: {ports}.")
    _check_host(host)
    return Target(text, scheme, host, port, stated_port, path)


@lru_cache(maxsize=512)
def _origin(text: str) -> tuple[str, int | None, str]:
    """Return scheme, stated port and host of an origin."""
    parsed = _parse(text)
    return parsed.scheme, parsed.port, parsed.raw_host.decode("ascii")


def _parse(text: str) -> httpx2.URL:
    # Parsers disagree about backslashes, spaces and control characters, so these are refused.
    if "\\" in text or " " in text or not text.isprintable():
        raise EgressRefused(
            "This is not a web address: it has a space, backslash or control character. "
            "Percent-encode it, if it belongs to the address."
        )
    try:
        return httpx2.URL(text)
    except (httpx2.InvalidURL, UnicodeError, ValueError):
        raise EgressRefused("This is not a well-formed web address. Check its spelling.") from None


def _check_host(host: str) -> None:
    if (len(host) > 253 or not _HOST_NAME.fullmatch(host)) and parse(host) is None:
        raise EgressRefused("The address has no well-formed host name. Check its spelling.")


def _inside(target: Target, policy: Policy) -> EgressRefused:
    """Return the refusal of a target that is private or unknown."""
    remedy = "Addresses in a private network can only be reached when an administrator allows them."
    if policy.allow_setting:
        remedy = (
            f"If it is in a private network, add its address to the setting {policy.allow_setting} "
            "and restart the server."
        )
    if parse(target.host) is not None:
        return EgressRefused(f"The address is not on the public internet. {remedy}")
    return EgressRefused(f"This host is not on the public internet. Check its spelling. {remedy}")


async def addresses(target: Target, policy: Policy, resolve: Resolve) -> list[str]:
    """Resolve the name once and return its addresses.

    Raises EgressRefused if an address is forbidden. A mix of allowed and forbidden addresses is an attack.
    """
    try:
        answers = [target.host] if parse(target.host) else await resolve(target.host, target.port)
    except (OSError, UnicodeError):
        answers = []
    if not answers or len(answers) > _MAX_ADDRESSES or not all(_allowed(text, policy) for text in answers):
        raise _inside(target, policy)
    return list(dict.fromkeys(answers))


async def reach(target: Target, policy: Policy, resolve: Resolve) -> list[str]:
    """Return the addresses to connect to without the configured proxy, or [] to use the proxy.

    The proxy resolves the name itself, so its answer cannot be checked here. Known private targets are
    refused: literal addresses, private names, and names that resolve to such addresses here. Targets in
    networks that the policy allows are reached directly.
    """
    literal = parse(target.host) is not None
    try:
        async with asyncio.timeout(_LOOKUP_SECONDS):
            answers = [target.host] if literal else list(await resolve(target.host, target.port))
    except (OSError, UnicodeError, TimeoutError):
        answers = []
    if answers and all(_is_allowed_inside(text, policy) for text in answers[:_MAX_ADDRESSES]):
        return await addresses(target, policy, _known(answers))
    if _is_inside_name(target.host) or not all(_allowed(text, policy) for text in answers):
        raise _inside(target, policy)
    return []


def _known(answers: list[str]) -> Resolve:
    async def resolve(host: str, port: int) -> list[str]:
        return answers

    return resolve


def _is_inside_name(host: str) -> bool:
    if parse(host) is not None:
        return False
    name = host.rstrip(".")
    # A numeric last label is an address in a spelling that some resolvers accept: 127.1, 0x7f.1, 2130706433,
    # or 127.0.0.1 with a trailing dot.
    last = name.rpartition(".")[2]
    return (
        "." not in name
        or last[:1].isdigit()
        or any(name == inside or name.endswith("." + inside) for inside in _INSIDE_NAMES)
    )


def _is_allowed_inside(text: str, policy: Policy) -> bool:
    address = parse(text)
    return address is not None and any(address in network for network in policy.allow)


def _allowed(text: str, policy: Policy) -> bool:
    return is_public(text) or _is_allowed_inside(text, policy)


@lru_cache(maxsize=1)
def _resolver_threads() -> ThreadPoolExecutor:
    # getaddrinfo cannot be cancelled: a slow name server must not occupy the threads of other code.
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="egress-resolve")


async def resolve_by_system(host: str, port: int) -> list[str]:
    """Return the addresses from the operating system, in its order. Raises OSError for an unknown name."""
    found = await asyncio.get_running_loop().run_in_executor(
        _resolver_threads(), lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    return [str(entry[4][0]) for entry in found]
