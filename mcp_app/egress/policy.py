"""The policy of an outbound fetch, and its two errors.

EgressError
 ├── EgressRefused   the policy forbids the request; a retry has the same outcome
 └── EgressFailed    the other side or the network failed; a retry may help

Messages are written for the caller. They never contain a resolved address. Unknown and private names get the
same message, so that fetching cannot map a private network.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from mcp_app import conf

Network = IPv4Network | IPv6Network

PAGE_TYPES = frozenset(
    {
        "text/html", "application/xhtml+xml", "text/plain", "text/markdown", "text/csv", "text/xml",
        "application/xml", "application/json", "application/atom+xml", "application/rss+xml",
    }
)  # fmt: skip

CONCURRENT: Final = 20


class EgressError(Exception):
    """A fetch that got no answer. ``str()`` of the error may be shown to the caller."""


class EgressRefused(EgressError):
    """A fetch that the policy forbids. ``sent`` is True if the policy refused the answer of the server."""

    sent = False


class EgressFailed(EgressError):
    """A failure of the network or of the other server.

    ``sent`` is False if no byte of the request left this server.
    """

    def __init__(self, text: str, *, sent: bool = True) -> None:
        super().__init__(text)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of one fetch: sizes in bytes, times in seconds. By default no private address is reachable."""

    ports: frozenset[int] | range = frozenset({80, 443, 8080, 8443})
    allow: frozenset[Network] = frozenset()
    # The setting behind ``allow``, for messages.
    allow_setting: str = ""
    # None allows any type, for callers that need only the status.
    content_types: frozenset[str] | None = PAGE_TYPES
    max_redirects: int = 5
    max_raw_bytes: int = 4 * 1024 * 1024
    max_bytes: int = 8 * 1024 * 1024
    seconds: float = 20.0
    connect_seconds: float = 5.0
    max_url_characters: int = 2_048
    # Requests to one origin at once, for requests over kept connections.
    concurrent: int = CONCURRENT
    user_agent: str = "django-mcp"


ANY_PORT = range(1, 65_536)


def entered(*, seconds: float, max_bytes: int, concurrent: int = CONCURRENT) -> Policy:
    """Return the policy for an address that an administrator entered: any port, and no redirect.

    Private networks are reached only if ``MCP["EGRESS_ALLOW"]`` names them. The caller checks the answer's
    type.
    """
    return _entered(conf.get().egress_allow, seconds, max_bytes, concurrent)


@lru_cache(maxsize=64)
def _entered(allow: tuple[str, ...], seconds: float, max_bytes: int, concurrent: int) -> Policy:
    return Policy(
        ports=ANY_PORT,
        allow=networks(allow),
        allow_setting="EGRESS_ALLOW",
        content_types=None,
        max_redirects=0,
        max_raw_bytes=max_bytes,
        max_bytes=max_bytes,
        seconds=seconds,
        connect_seconds=min(seconds, 5.0),
        max_url_characters=16_384,
        concurrent=concurrent,
    )


def networks(texts: list[str] | tuple[str, ...] | frozenset[str]) -> frozenset[Network]:
    """Convert texts of addresses and networks for ``Policy.allow``. Raises ValueError for an invalid text."""
    return _networks(tuple(texts))


@lru_cache(maxsize=8)
def _networks(texts: tuple[str, ...]) -> frozenset[Network]:
    return frozenset(ip_network(text) for text in texts)
