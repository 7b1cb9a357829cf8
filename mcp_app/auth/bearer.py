"""From an Authorization header to a principal, or to a 401 with its challenge (AUTH-03, AUTH-06, S1)."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from django.db import Error as DatabaseFault

from mcp_app import database_clock
from mcp_app.auth.bench import BENCH_PREFIX, find_bench_principal
from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.auth.services import find_principal
from mcp_app.auth.wrong_keys import WrongKeys
from mcp_app.database import aquery
from mcp_app.protocol.errors import Unauthorized, Unavailable

RECHECK_SECONDS = 10.0
# While the database cannot be asked, who was verified this long ago is still trusted. Nobody can revoke a key
# meanwhile, and of what was revoked before, the broadcast (``forget``) has told.
TRUST_SECONDS = 60.0
# Then it is asked this often.
RETRY_SECONDS = 2.0
KNOWN_LIMIT = 10_000
MAX_CREDENTIAL = 512
NO_CREDENTIAL = "This server needs a credential: send 'Authorization: Bearer <API key>'."
BAD_CREDENTIAL = "The API key is unknown, expired or revoked."
NO_DATABASE = "The server cannot reach its database now. Try again in a moment."

log = logging.getLogger("mcp.auth")


@dataclass(slots=True)
class _Known:
    principal: Principal
    recheck_at: float
    verified_at: float


class Authenticator:
    """Verifies the credential of every request; remembers a verified one for a few seconds.

    ``mode`` is ``loopback`` (no credential needed from this machine) or ``required``.
    """

    __slots__ = ("_known", "_loopback", "_wrong", "used")

    def __init__(self, mode: str, wrong_keys_per_minute: int = 0) -> None:
        self._loopback = mode == "loopback"
        self._wrong = WrongKeys(wrong_keys_per_minute)
        self._known: dict[bytes, _Known] = {}
        self.used: dict[int, float] = {}

    def known(self, authorization: bytes | None, *, local: bool) -> Principal | None:
        """The principal when no look-up is needed (hot path), else None.

        ``local``: the request came from this machine, named it, and no proxy forwarded it.
        """
        if authorization is None:
            return LOOPBACK if self._loopback and local else None
        known = self._known.get(authorization)
        if known is None or known.recheck_at < time.monotonic():
            return None
        principal = known.principal
        if principal.expires_at is not None and principal.expires_at <= time.time():
            return None
        return principal

    async def authenticate(self, authorization: bytes | None, *, local: bool, address: str = "") -> Principal:
        """The principal of one request, which came from ``address``.

        Raises Unauthorized with a Bearer challenge, TooManyRequests after too many wrong keys, and
        Unavailable while the database cannot be asked.
        """
        principal = self.known(authorization, local=local)
        if principal is not None:
            return principal
        if authorization is None:
            raise Unauthorized(NO_CREDENTIAL, challenge=_challenge())
        known = self._known  # a look-up that ``forget`` overtakes must not be remembered
        repeated = self._wrong.repeated(authorization, address)
        try:
            principal = None if repeated else await _find(authorization)
        except Unavailable:
            return self._trusted(known, authorization)
        if principal is None:
            known.pop(authorization, None)
            self._wrong.count(authorization, address)
            # One answer for unknown, expired, revoked and malformed keys: nothing to learn from it (S1).
            raise Unauthorized(BAD_CREDENTIAL, challenge=_challenge("invalid_token"))
        if len(known) >= KNOWN_LIMIT:
            known.clear()
        now = time.monotonic()
        known[authorization] = _Known(principal, now + RECHECK_SECONDS, now)
        if principal.api_key_id is not None:
            self.used[principal.api_key_id] = database_clock.timestamp()
        return principal

    def _trusted(self, known: dict[bytes, _Known], authorization: bytes) -> Principal:
        """Who was verified a while ago, while nobody can be asked; else raises Unavailable."""
        found, now = known.get(authorization), time.monotonic()
        if found is None or known is not self._known or now > found.verified_at + TRUST_SECONDS:
            raise Unavailable(NO_DATABASE)
        if found.principal.expires_at is not None and found.principal.expires_at <= time.time():
            raise Unavailable(NO_DATABASE)
        found.recheck_at = min(now + RETRY_SECONDS, found.verified_at + TRUST_SECONDS)
        return found.principal

    def forget(self) -> None:
        """Look every credential up again: keys or permissions changed."""
        self._known = {}
        self._wrong.forget()


def _challenge(error: str = "") -> str:
    return 'Bearer realm="mcp"' + (f', error="{error}"' if error else "")


async def _find(authorization: bytes) -> Principal | None:
    token = _token(authorization)
    find = find_bench_principal if token.startswith(BENCH_PREFIX) else find_principal
    try:
        return await aquery(find, token)
    except DatabaseFault as error:
        log.warning("A credential was not checked: %s", error)
        raise Unavailable(NO_DATABASE) from None


def _token(authorization: bytes) -> str:
    """The bearer token, or text that matches no key, so that every refusal costs the same look-up."""
    # One key can be spelled with any number of blanks: the long spellings must not fill the memory.
    if len(authorization) > MAX_CREDENTIAL:
        return ""
    scheme, _, token = authorization.decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
