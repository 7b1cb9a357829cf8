"""What an outbound fetch may do, as one frozen value, and the two ways it can end without an answer.

EgressError
 ├── EgressRefused   the policy forbids it; trying again gives the same answer
 └── EgressFailed    the other side or the network did not deliver; trying again may help

Messages are written for the caller. They never name a resolved address, and an unknown name and an
inside name read alike, so that fetching cannot be used to map a private network.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

Network = IPv4Network | IPv6Network

PAGE_TYPES = frozenset(
    {
        "text/html", "application/xhtml+xml", "text/plain", "text/markdown", "text/csv", "text/xml",
        "application/xml", "application/json", "application/atom+xml", "application/rss+xml",
    }
)  # fmt: skip


class EgressError(Exception):
    """A fetch ended without an answer; ``str()`` may be shown to the caller."""


class EgressRefused(EgressError):
    """The policy forbids this fetch."""


class EgressFailed(EgressError):
    """The network or the other server did not deliver."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Bounds of one fetch: sizes in bytes, times in seconds; nothing private is reachable by default."""

    ports: frozenset[int] = frozenset({80, 443, 8080, 8443})
    allow: frozenset[Network] = frozenset()
    # None: any, for whom the answer's status is enough.
    content_types: frozenset[str] | None = PAGE_TYPES
    max_redirects: int = 5
    max_raw_bytes: int = 4 * 1024 * 1024
    max_bytes: int = 8 * 1024 * 1024
    seconds: float = 20.0
    connect_seconds: float = 5.0
    max_url_characters: int = 2_048
    user_agent: str = "django-mcp"


def networks(texts: list[str] | tuple[str, ...] | frozenset[str]) -> frozenset[Network]:
    """Addresses and networks in text as a policy's ``allow``; ValueError names the one that is neither."""
    return frozenset(ip_network(text) for text in texts)
