"""The addresses that may be reached for a server: its metadata and its authorization server.

Another server supplies these addresses, so they reach private networks only where an administrator has
allowed it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from mcp_app.credentials.checks import target_of
from mcp_app.egress.policy import Policy, entered

SECONDS: Final = 10.0
MAX_BYTES: Final = 256 * 1024
_LONGEST: Final = 2_000


def policy_for(url: str, server_url: str, trusted: Collection[str] = ()) -> Policy:
    """Return the policy for a request to ``url``, which belongs to the server at ``server_url``.

    Networks of EGRESS_ALLOW are reached if the server itself has an internal name or address, on the server's
    own host, and at the ``trusted`` origins. Raise ValueError for an invalid address.
    """
    policy = entered(seconds=SECONDS, max_bytes=MAX_BYTES)
    target, own = target_of(url), target_of(server_url)
    if own.is_inside or target.host == own.host or target.origin in trusted:
        return policy
    return replace(policy, allow=frozenset(), allow_setting="")


def objection_to(url: object) -> str:
    """Return the reason why an address from metadata is not used, or ""."""
    if not isinstance(url, str) or not 0 < len(url) <= _LONGEST:
        return "is missing or too long."
    try:
        target = target_of(url)
    except ValueError as error:
        return f"cannot be used. {error}"
    if target.scheme != "https" and not target.is_inside:
        return "does not use https."
    if "#" in url or target.url.userinfo:
        return "has a user name or a fragment."
    return ""


def covers(resource: str, url: str) -> bool:
    """Return True if a resource contains the address of a server: the same origin, and a parent path."""
    try:
        outer, inner = target_of(resource), target_of(url)
    except ValueError:
        return False
    path = inner.path.partition("?")[0]
    is_parent = path == outer.path or path.startswith(f"{outer.path.rstrip('/')}/")
    return outer.origin == inner.origin and is_parent
