"""The kinds of bearer tokens by prefix; the issuer of each kind registers its verification.

So the resource server knows no authorization server, and another one can be added beside ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcp_app.auth.bench import BENCH_PREFIX, find_bench_principal
from mcp_app.auth.external import principals as external
from mcp_app.auth.principal import Principal
from mcp_app.auth.services import find_principal
from mcp_app.database.queries import aquery

# Asked in a database thread; None for a token that is not, or no longer, good here.
Find = Callable[[str], Principal | None]
# Asked in a database thread which of some connections were ended, and what runs for them with them.
Ended = Callable[[frozenset[int]], frozenset[int]]

_KINDS: dict[str, Find] = {BENCH_PREFIX: find_bench_principal, external.PREFIX: external.find_principal}
_ended: list[Ended] = []


def register(prefix: str, find: Find) -> None:
    """Tokens that begin with ``prefix`` are looked up by ``find``."""
    _KINDS[prefix] = find


def register_connections(ended: Ended) -> None:
    """Some tokens belong to connections; ``ended`` says which of them are over."""
    _ended.append(ended)


def ended(connections: frozenset[int]) -> frozenset[int]:
    """Return which of the connections that principals came by were ended."""
    return frozenset().union(*(each(connections) for each in _ended))


async def aended(connections: frozenset[int]) -> frozenset[int]:
    """Return the same as ``ended``, for async code."""
    return await aquery(ended, connections) if _ended else frozenset()


def kind_of(token: str) -> Find | None:
    """How a token that is no API key is found; None for whatever must be one."""
    return next((find for prefix, find in _KINDS.items() if token.startswith(prefix)), None)


def find(token: str) -> Principal | None:
    """The principal of a credential of any kind, None when it is not good (any more)."""
    return (kind_of(token) or find_principal)(token)


async def afind(token: str) -> Principal | None:
    """As ``find``, for async code. Who waits for an identity provider holds no thread of the database."""
    if (arriving := external.arriving(token)) is not None:
        await asyncio.shield(asyncio.wrap_future(arriving))
    return await aquery(find, token)
