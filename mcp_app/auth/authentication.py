"""From an Authorization header to a principal, or to a 401 with its challenge (AUTH-03, AUTH-06, S1)."""

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
from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.auth.refusals import unauthorized
from mcp_app.auth.wrong_keys import WrongKeys
from mcp_app.database import clock
from mcp_app.protocol.errors import Unavailable

RECHECK_SECONDS = 10.0
# While the database is away, a key verified this long ago is still trusted. No key can be revoked meanwhile,
# and earlier revocations were broadcast (``forget``).
TRUST_SECONDS = 60.0
# Then it is asked this often.
RETRY_SECONDS = 2.0
KNOWN_LIMIT = 10_000
RECENT_LIMIT = 256
# Tokens of some identity providers have several thousand bytes (AUTH-26).
MAX_CREDENTIAL = 8 * 1024 + 64
# A header with an API key is never longer.
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
    """Verifies the credential of every request; remembers a verified one for a few seconds.

    ``mode`` is ``loopback`` (no credential needed from this machine), ``required`` or ``external``.
    """

    __slots__ = ("_changes", "_known", "_loopback", "_recent", "_wrong", "used")

    def __init__(self, mode: str, wrong_keys_per_minute: int = 0) -> None:
        self._loopback = mode == "loopback"
        self._wrong = WrongKeys(wrong_keys_per_minute)
        self._known: dict[bytes, _Known] = {}
        # The few in use, by the credential itself: its digest would cost more than all else that is done to
        # recognise it. The headers of their open connections hold these credentials, too.
        self._recent: dict[bytes, _Known] = {}
        self._changes = 0
        self.used: dict[int, float] = {}

    def known(self, authorization: bytes | None, *, local: bool) -> Principal | None:
        """The principal when no look-up is needed (hot path), else None.

        ``local``: the request came from this machine, named it, and no proxy forwarded it.
        """
        if authorization is None:
            return LOOPBACK if self._loopback and local else None
        known = self._recent.get(authorization) or self._again(authorization)
        return None if known is None or known.recheck_at < time.monotonic() else known.principal

    async def authenticate(
        self, authorization: bytes | None, *, local: bool, address: str = "", metadata: str = ""
    ) -> Principal:
        """The principal of one request, which came from ``address``.

        ``metadata`` is where a client reads how to get a token. Raises Unauthorized with a Bearer challenge,
        TooManyRequests after too many wrong keys, and Unavailable while the database cannot be asked.
        """
        principal = self.known(authorization, local=local)
        if principal is not None:
            return principal
        if authorization is None:
            raise unauthorized(NOT_LOGGED_IN if metadata else NO_CREDENTIAL, metadata=metadata)
        changes = self._changes  # a look-up that ``forget`` overtakes must not be remembered
        repeated = self._wrong.repeated(authorization, address)
        try:
            principal = None if repeated else await _find(authorization)
        except Unavailable as unavailable:
            return self._trusted(authorization, unavailable)
        if principal is None:
            self._known.pop(_remembered(authorization), None)
            self._recent.pop(authorization, None)
            self._wrong.count(authorization, address)
            # One answer for unknown, expired, revoked and malformed keys: nothing to learn from it (S1).
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
        return principal

    def _again(self, authorization: bytes) -> _Known | None:
        """A verified credential that is used again."""
        known = self._known.get(_remembered(authorization))
        if known is not None:
            if len(self._recent) >= RECENT_LIMIT:
                self._recent = {}
            self._recent[authorization] = known
        return known

    def _trusted(self, authorization: bytes, unavailable: Unavailable) -> Principal:
        """The principal verified a while ago, while nobody can be asked; else raises ``unavailable``."""
        found, now = self._known.get(_remembered(authorization)), time.monotonic()
        if found is None or now > found.verified_at + TRUST_SECONDS:
            raise unavailable
        left = _seconds_left(found.principal)
        if left <= 0:
            raise unavailable
        found.recheck_at = min(now + min(RETRY_SECONDS, left), found.verified_at + TRUST_SECONDS)
        return found.principal

    def forget(self, what: Mapping[str, Any] | None = None) -> None:
        """Look credentials up again that changed: one key, some connections, or every one of a user.

        ``what`` is the broadcast: ``{"api_key": id}``, ``{"connections": ids}``, ``{"connection": id}`` or
        ``{"user": id}``. Without it, or with one that this version does not know, all are looked up again.
        """
        self._changes += 1
        self._wrong.forget()
        self._recent = {}
        for name, member in _FORGOTTEN_BY.items():
            if what and name in what:
                named = what[name] if name == "connections" else [what[name]]
                # Keys of users may be UUIDs, which are text in a broadcast.
                changed = set(map(str, named))
                for key, known in list(self._known.items()):
                    if str(getattr(known.principal, member)) in changed:
                        del self._known[key]
                return
        self._known = {}


_FORGOTTEN_BY = {
    "api_key": "api_key_id",
    "connections": "connection_id",
    "connection": "connection_id",
    "user": "user_id",
}


def _remembered(authorization: bytes) -> bytes:
    """What stands for a credential that is not in use: memory is written to disk when a process dies."""
    return blake2b(authorization).digest()


def _seconds_left(principal: Principal) -> float:
    """Until the credential ends."""
    return inf if principal.expires_at is None else principal.expires_at - time.time()


async def _find(authorization: bytes) -> Principal | None:
    token = _token(authorization)
    try:
        return await tokens.afind(token)
    except DatabaseFault as error:
        log.warning("A credential was not checked: %s", error)
        raise Unavailable(NO_DATABASE) from None


def _token(authorization: bytes) -> str:
    """The bearer token, or text that matches no key, so that every refusal costs the same look-up."""
    if len(authorization) > MAX_CREDENTIAL:
        return ""
    return readable(authorization.decode("latin-1"))


def readable(header: str) -> str:
    """The token of an Authorization header, "" when there is none that could be good.

    API keys are short, and one can be spelled with any number of blanks: each of the long spellings would be
    looked up, and remembered. Tokens of other kinds may be long.
    """
    scheme, _, token = header.partition(" ")
    token = token.strip() if scheme.lower() == "bearer" and len(header) <= MAX_CREDENTIAL else ""
    is_short = len(header) <= MAX_KEY_HEADER
    return token if is_short or tokens.kind_of(token) is not None else ""
