"""The settings of another MCP server, as requests need them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import urlsplit

from mcp_app.credentials.exchange import Subject
from mcp_app.credentials.hiding import query_texts
from mcp_app.observability.redaction import without_query_values


@dataclass(frozen=True, slots=True)
class Account:
    """A user's account at a server. ``key`` changes with each login."""

    user: str
    key: str


@dataclass(frozen=True, slots=True)
class ExchangedAccount(Account):
    """An account at a server that accepts tokens in exchange for those of the caller (RFC 8693).

    ``credential`` is the token exchange. ``subject`` returns the token of the caller, or None if it cannot
    be read.
    """

    credential: str
    subject: Callable[[], Subject | None] = field(repr=False, compare=False)


@dataclass(frozen=True)
class UpstreamServer:
    """Another MCP server.

    ``era`` is "auto", "modern" or "legacy". ``seconds`` is the time for one request. A server over stdio has
    the name of its ``command``, which the bridge serves, and a further time for its start. Requests with an
    ``account`` are sent in the name of its user, and share no session with requests of other users.
    """

    pk: int
    name: str
    url: str
    credential: str = ""
    era: str = "auto"
    seconds: float = 60.0
    command: str = ""
    start_seconds: float = 0.0
    account: Account | None = None

    @cached_property
    def key(self) -> str:
        """A text that changes with every setting that a session depends on."""
        own = () if self.account is None else (self.account.user, self.account.key)
        # A command has its URL.
        parts = "\0".join((str(self.pk), self.url, self.credential, self.era, *own))
        return hashlib.sha256(parts.encode()).hexdigest()[:32]

    @cached_property
    def shown_url(self) -> str:
        """The URL without the values of its query."""
        return without_query_values(self.url)

    @cached_property
    def query_texts(self) -> tuple[str, ...]:
        """The values of the URL's query in each form in which the server may repeat them, longest first."""
        return query_texts(urlsplit(self.url).query)
