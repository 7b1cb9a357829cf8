"""Authentication of requests: an Authorization header becomes a principal or a 401 (AUTH-03, AUTH-06, S1)."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import inf
from typing import Any

from django.db import Error as DatabaseFault

from mcp_app.auth import tokens
from mcp_app.auth.challenges import unauthorized
from mcp_app.auth.own_addresses import resource
from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.auth.wrong_keys import WrongKeys
from mcp_app.database import clock
from mcp_app.protocol.errors import Unavailable
from mcp_app.protocol.messages.server import ENDPOINT

RECHECK_SECONDS = 10.0
# Seconds for which a verified credential is trusted when the database cannot be reached. During such an
# outage no key can be revoked, and earlier revocations have been broadcast (see ``forget``).
TRUST_SECONDS = 60.0
# Interval between look-ups of one credential during an outage of the database.
RETRY_SECONDS = 2.0
KNOWN_LIMIT = 10_000
RECENT_LIMIT = 256
# Tokens of some identity providers have several thousand bytes (AUTH-26).
MAX_CREDENTIAL = 8 * 1024 + 64
# A valid header with an API key is always shorter.
MAX_KEY_HEADER = 512
NO_CREDENTIAL = "This server needs a credential: send 'Authorization: Bearer <API key>'."
NOT_LOGGED_IN = "This server needs a login, or a credential: 'Authorization: Bearer <token or API key>'."
BAD_CREDENTIAL = "The API key is unknown, expired or revoked."
NOT_GOOD = "The token or API key is unknown, expired or revoked."
NO_DATABASE = "The server cannot reach its database now. Try again in a moment."

log = logging.getLogger("mcp.auth")


@dataclass(slots=True)
class _Known:
    principal: Principal
    recheck_at: float
    verified_at: float


class Authenticator:
    """Verifies the credential of each request and caches the result for a few seconds.

    ``mode`` is ``loopback`` (local requests need no credential), ``required`` or ``external``.
    """

    __slots__ = ("_changes", "_known", "_loopback", "_recent", "_wrong", "used")

    def __init__(self, mode: str, wrong_keys_per_minute: int = 0) -> None:
        self._loopback = mode == "loopback"
        self._wrong = WrongKeys(wrong_keys_per_minute)
        self._known: dict[bytes, _Known] = {}
        # The few credentials in use, keyed by the header itself, because computing a digest would cost more
        # than the rest of the look-up. The keys add no new exposure: open connections hold the same headers
        # in memory.
        self._recent: dict[bytes, _Known] = {}
        self._changes = 0
        self.used: dict[int, float] = {}

    def known(self, authorization: bytes | None, *, local: bool, path: str = ENDPOINT) -> Principal | None:
        """Return the principal of a request if no look-up is needed (hot path), else None.

        ``local`` is True if the request came directly from this machine to one of its loopback names, not
        through a proxy. ``path`` is the path of the MCP server that received the request.
        """
        if authorization is None:
            return LOOPBACK if self._loopback and local else None
        known = self._recent.get(authorization) or self._again(authorization)
        if known is None or known.recheck_at < time.monotonic():
            return None
        return known.principal if known.principal.path in ("", path) else None

    async def authenticate(
        self,
        authorization: bytes | None,
        *,
        local: bool,
        address: str = "",
        metadata: str = "",
        path: str = ENDPOINT,
    ) -> Principal:
        """Return the principal of a request from ``address`` to the MCP server at ``path``.

        ``metadata`` is the address of the document that explains to clients how to get a token. Raises
        Unauthorized with a Bearer challenge, TooManyRequests after too many wrong keys, and Unavailable if
        the database cannot be reached.
        """
        principal = self.known(authorization, local=local, path=path)
        if principal is not None:
            return principal
        if authorization is None:
            raise unauthorized(NOT_LOGGED_IN if metadata else NO_CREDENTIAL, metadata=metadata)
        if (another := self._for_another(authorization, path)) is not None:
            raise unauthorized(_misdirected(another, path), "invalid_token", metadata)
        # If ``forget`` runs during the look-up, the result may be outdated and must not be cached.
        changes = self._changes
        repeated = self._wrong.repeated(authorization, address)
        try:
            principal = None if repeated else await _find(authorization)
        except Unavailable as unavailable:
            return self._trusted(authorization, path, unavailable)
        if principal is None:
            self._known.pop(_remembered(authorization), None)
            self._recent.pop(authorization, None)
            self._wrong.count(authorization, address)
            # Unknown, expired, revoked and malformed keys get the same response, so that it reveals nothing
            # (S1).
            raise unauthorized(NOT_GOOD if metadata else BAD_CREDENTIAL, "invalid_token", metadata)
        if changes == self._changes:
            if len(self._known) >= KNOWN_LIMIT:
                self._known.clear()
            now = time.monotonic()
            recheck_at = now + min(RECHECK_SECONDS, _seconds_left(principal))
            self._recent.pop(authorization, None)
            self._known[_remembered(authorization)] = _Known(principal, recheck_at, now)
        if principal.api_key_id is not None:
            self.used[principal.api_key_id] = clock.timestamp()
        if principal.path not in ("", path):
            # This does not count as a wrong key, because the token is valid at another server of this
            # installation (AUTH-07).
            raise unauthorized(_misdirected(principal, path), "invalid_token", metadata)
        return principal

    def _for_another(self, authorization: bytes, path: str) -> Principal | None:
        """Return the principal of a credential that is cached for another server, without a look-up."""
        known = self._recent.get(authorization) or self._again(authorization)
        if known is None or known.recheck_at < time.monotonic() or known.principal.path in ("", path):
            return None
        return known.principal

    def _again(self, authorization: bytes) -> _Known | None:
        """Return a cached credential and move it to the cache of credentials in use."""
        known = self._known.get(_remembered(authorization))
        if known is not None:
            if len(self._recent) >= RECENT_LIMIT:
                self._recent = {}
            self._recent[authorization] = known
        return known

    def _trusted(self, authorization: bytes, path: str, unavailable: Unavailable) -> Principal:
        """Return the cached principal if it was verified within TRUST_SECONDS.

        Raises ``unavailable`` if it was not.
        """
        found, now = self._known.get(_remembered(authorization)), time.monotonic()
        if found is None or now > found.verified_at + TRUST_SECONDS:
            raise unavailable
        left = _seconds_left(found.principal)
        if left <= 0 or found.principal.path not in ("", path):
            raise unavailable
        found.recheck_at = min(now + min(RETRY_SECONDS, left), found.verified_at + TRUST_SECONDS)
        return found.principal

    def forget(self, what: Mapping[str, Any] | None = None) -> None:
        """Discard cached credentials that may have changed.

        ``what`` is the received broadcast: ``{"api_key": id}``, ``{"connections": ids}``, ``{"connection":
        id}`` or ``{"user": id}``. Without ``what``, and for a member that this version does not know, the
        whole cache is discarded.
        """
        self._changes += 1
        self._wrong.forget()
        self._recent = {}
        for name, member in _FORGOTTEN_BY.items():
            if what and name in what:
                named = what[name] if name == "connections" else [what[name]]
                # Primary keys of users may be UUIDs, which arrive as text in a broadcast.
                changed = set(map(str, named))
                for key, known in list(self._known.items()):
                    if str(getattr(known.principal, member)) in changed:
                        del self._known[key]
                return
        self._known = {}


def _misdirected(principal: Principal, path: str) -> str:
    """Return the reason why a valid token is refused at ``path``, for the holder of the token."""
    given, expected = principal.audience or principal.path, resource(path=path)
    return f"The token is for {given}. This server expects a token for {expected}."


_FORGOTTEN_BY = {
    "api_key": "api_key_id",
    "connections": "connection_id",
    "connection": "connection_id",
    "user": "user_id",
}


def _remembered(authorization: bytes) -> bytes:
    """Return the digest under which an idle credential is cached.

    A digest is used because memory may be written to disk if the process crashes.
    """
    return blake2b(authorization).digest()


def _seconds_left(principal: Principal) -> float:
    """Return the seconds until the credential of a principal expires."""
    return inf if principal.expires_at is None else principal.expires_at - time.time()


async def _find(authorization: bytes) -> Principal | None:
    token = _token(authorization)
    try:
        return await tokens.afind(token)
    except DatabaseFault as error:
        log.warning("A credential could not be checked: %s", error)
        raise Unavailable(NO_DATABASE) from None


def _token(authorization: bytes) -> str:
    """Return the bearer token of a header.

    Returns text that matches no key if the header is invalid, so that every refusal takes one look-up and the
    same time.
    """
    if len(authorization) > MAX_CREDENTIAL:
        return ""
    return readable(authorization.decode("latin-1"))


def readable(header: str) -> str:
    """Return the token of an Authorization header, or "" if it cannot be valid.

    Long headers are accepted only for tokens that may be long. A long header with an API key is refused,
    because variants of it with more blanks would each be looked up and cached.
    """
    scheme, _, token = header.partition(" ")
    token = token.strip() if scheme.lower() == "bearer" and len(header) <= MAX_CREDENTIAL else ""
    is_short = len(header) <= MAX_KEY_HEADER
    return token if is_short or tokens.kind_of(token) is not None else ""
