"""The kinds of bearer tokens by prefix; the issuer of each kind registers its look-up.

So the resource server does not depend on an authorization server, and others can be added.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcp_app.auth.api_keys import find_principal
from mcp_app.auth.bench import BENCH_PREFIX, find_bench_principal
from mcp_app.auth.identity_provider import principals as external
from mcp_app.auth.principal import Principal
from mcp_app.database.queries import aquery

# Runs in a database thread; None for an invalid token.
Find = Callable[[str], Principal | None]
# Runs in a database thread; returns the connections that ended together with their work.
Ended = Callable[[frozenset[int]], frozenset[int]]

# By prefix. A prefix that this server issues is also one of ``observability.redaction.PREFIXES``.
KINDS: dict[str, Find] = {BENCH_PREFIX: find_bench_principal, external.PREFIX: external.find_principal}
_ended: list[Ended] = []


def register(prefix: str, find: Find) -> None:
    """Register ``find`` for tokens that begin with ``prefix``."""
    KINDS[prefix] = find


def register_connections(ended: Ended) -> None:
    """Register ``ended``, which returns the ended ones among given connections."""
    _ended.append(ended)


def ended(connections: frozenset[int]) -> frozenset[int]:
    """Return the ended ones among connections."""
    return frozenset().union(*(each(connections) for each in _ended))


async def aended(connections: frozenset[int]) -> frozenset[int]:
    """Return the same as ``ended``, for async code."""
    return await aquery(ended, connections) if _ended else frozenset()


def kind_of(token: str) -> Find | None:
    """Return the look-up for a token, or None for an API key."""
    return next((find for prefix, find in KINDS.items() if token.startswith(prefix)), None)


def find(token: str) -> Principal | None:
    """Return the principal of a credential of any kind, or None if it is invalid."""
    return (kind_of(token) or find_principal)(token)


async def afind(token: str) -> Principal | None:
    """Return the same as ``find``, for async code; occupies no database thread while keys are fetched."""
    if (arriving := external.arriving(token)) is not None:
        await asyncio.shield(asyncio.wrap_future(arriving))
    return await aquery(find, token)
