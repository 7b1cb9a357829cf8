"""Kinds of bearer tokens, distinguished by prefix. The issuer of each kind registers a look-up function.

The resource server therefore does not depend on an authorization server, and other kinds can be added.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcp_app.auth.api_keys import find_principal
from mcp_app.auth.bench import BENCH_PREFIX, find_bench_principal
from mcp_app.auth.doctor_tokens import DOCTOR_PREFIX, find_doctor_principal
from mcp_app.auth.identity_provider import provider as external
from mcp_app.auth.principal import Principal
from mcp_app.database.queries import aquery

# A look-up function. It runs in a database thread and returns None for an invalid token.
Find = Callable[[str], Principal | None]
# A function that returns the ended connections among the given ones. It runs in a database thread.
Ended = Callable[[frozenset[int]], frozenset[int]]

# Look-up functions by prefix. Each prefix that this server issues must also be in
# ``observability.redaction.PREFIXES``.
KINDS: dict[str, Find] = {
    BENCH_PREFIX: find_bench_principal,
    DOCTOR_PREFIX: find_doctor_principal,
    external.PREFIX: external.find_principal,
}
_ended: list[Ended] = []


def register(prefix: str, find: Find) -> None:
    """Register ``find`` for tokens that begin with ``prefix``."""
    KINDS[prefix] = find


def register_connections(ended: Ended) -> None:
    """Register a function that returns the ended connections among the given ones."""
    _ended.append(ended)


def ended(connections: frozenset[int]) -> frozenset[int]:
    """Return the ended connections among the given ones."""
    return frozenset().union(*(each(connections) for each in _ended))


async def aended(connections: frozenset[int]) -> frozenset[int]:
    """Return the same as ``ended`` without blocking the event loop."""
    return await aquery(ended, connections) if _ended else frozenset()


def kind_of(token: str) -> Find | None:
    """Return the look-up function for a token, or None if the token can only be an API key."""
    return next((find for prefix, find in KINDS.items() if token.startswith(prefix)), None)


def find(token: str) -> Principal | None:
    """Return the principal of a credential of any kind, or None if it is invalid."""
    return (kind_of(token) or find_principal)(token)


async def afind(token: str) -> Principal | None:
    """Return the same as ``find`` without blocking the event loop.

    No database thread waits during a fetch of the provider's keys.
    """
    if (arriving := external.arriving(token)) is not None:
        await asyncio.shield(asyncio.wrap_future(arriving))
    return await aquery(find, token)
