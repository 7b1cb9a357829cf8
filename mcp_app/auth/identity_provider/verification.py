"""Verification of tokens issued by an identity provider (AUTH-07, RFC 7519, RFC 8725, RFC 9068).

The library checks signature, times, issuer and audience. This module adds the remaining checks.
"""

from __future__ import annotations

import base64
import binascii
import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final

import jwt
import orjson

from mcp_app.auth.identity_provider.claims import Claims, read
from mcp_app.auth.identity_provider.keys import ALGORITHMS, Key, Keys
from mcp_app.auth.identity_provider.metadata import Provider, fetch_keys
from mcp_app.auth.own_addresses import further_resources
from mcp_app.conf import Settings
from mcp_app.protocol.rate_window import RateWindow

MAX_TOKEN: Final = 8 * 1024
MAX_HEADER: Final = 2 * 1024
MAX_KID: Final = 500
# Allowed difference in seconds between the provider's clock and this server's clock.
SKEW_SECONDS: Final = 60
KNOWN_LIMIT: Final = 10_000
# Limit of logged refusals per minute, so that a sender of many invalid tokens cannot fill the log.
MAX_LINES: Final = 20
# The largest integer up to which a float is exact. Later times cannot be stored.
LATEST: Final = 2**53
TYPES: Final = frozenset({"at+jwt", "jwt"})
_ALGORITHMS: Final = frozenset(name for names in ALGORITHMS.values() for name in names)
_OPTIONS: Final[Any] = {"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True}

# Maps exception classes of the library to messages for the log.
Words = Mapping[type[Exception], str]

log = logging.getLogger("mcp.auth")


class TokenRefused(Exception):
    """A refusal of a token. Its text is for the operator and is never sent to the client."""


@dataclass(frozen=True, slots=True)
class _Verified:
    claims: Claims
    key: Key


class Verification:
    """The verifier of one provider's tokens.

    Valid tokens are cached until they expire.
    """

    def __init__(self, provider: Provider, settings: Settings) -> None:
        self.keys = Keys(partial(fetch_keys, provider))
        self.settings = settings
        self.provider = provider
        self._known: dict[bytes, _Verified] = {}
        self._lines = RateWindow(1)

    def arriving(self, token: str) -> Future[None] | None:
        """Return the future to await before ``token`` can be checked, or None if no fetch is needed."""
        try:
            kid, _ = named_key(token)
        except TokenRefused:
            return None
        return self.keys.arriving(kid)

    def claims_of(self, token: str) -> Claims | None:
        """Return the claims of a valid token, or None for an invalid token.

        Raises Unavailable if the provider's keys cannot be fetched.
        """
        try:
            kid, algorithm = named_key(token)
            keys = self.keys.find(kid, algorithm)
            digest = sha256(token.encode()).digest()
            known = self._known.get(digest)
            # If the provider withdrew the key, the tokens signed with it are no longer valid.
            if known is not None and known.claims.ends > time.time() and known.key in keys:
                return known.claims
            verified = self._verified(token, keys, algorithm)
        except TokenRefused as refused:
            if self._lines.hit("", time.monotonic())[0] <= MAX_LINES:
                log.info("Token refused: %s", refused)
            return None
        if len(self._known) >= KNOWN_LIMIT:
            self._known.clear()
        self._known[digest] = verified
        return verified.claims

    def examine(self, token: str) -> Claims:
        """Return the claims of a token, for an operator who tests a token.

        Neither caches nor logs the result. Raises TokenRefused with the reason.
        """
        kid, algorithm = named_key(token)
        return self._verified(token, self.keys.find(kid, algorithm), algorithm).claims

    def _verified(self, token: str, keys: tuple[Key, ...], algorithm: str) -> _Verified:
        header, payload, key = proven(
            token,
            keys,
            algorithm,
            fault="the provider has no such key",
            words=_WORDS,
            options=_OPTIONS,
            issuer=self.provider.issuer,
            audience=self.provider.audiences | further_resources(),
            leeway=SKEW_SECONDS,
        )
        check_header(header, TYPES, "access token")
        # The token is bound to a key of its client (RFC 9449). This server does not check that binding, so a
        # stolen token would be accepted.
        if "cnf" in payload:
            raise TokenRefused("it must be used with a proof of possession (cnf), which is not accepted")
        check_storable(payload)
        return _Verified(read(payload, self.settings, SKEW_SECONDS), key)


def proven(
    token: str, keys: tuple[Key, ...], algorithm: str, *, fault: str, words: Words, **demands: Any
) -> tuple[dict[str, Any], dict[str, Any], Key]:
    """Return header, payload and key of a token that is signed by one of ``keys`` and meets ``demands``.

    Raises TokenRefused with the message for the last fault, or with ``fault`` if ``keys`` is empty.
    """
    for key in keys:
        try:
            decoded = jwt.decode_complete(token, key.of(algorithm), algorithms=[algorithm], **demands)
        except jwt.PyJWTError as error:
            fault = words.get(type(error), type(error).__name__)
        else:
            return decoded["header"], decoded["payload"], key
    raise TokenRefused(fault)


# Replacements for the library's messages, which may quote data from the token.
_WORDS: Final[Words] = {
    jwt.ExpiredSignatureError: "it has expired",
    jwt.ImmatureSignatureError: "it is not valid yet (do the clocks differ?)",
    jwt.InvalidAudienceError: "it was issued for another audience (OAUTH_AUDIENCE)",
    jwt.InvalidIssuerError: "it has another issuer (OAUTH_ISSUER)",
    jwt.InvalidSignatureError: "its signature is wrong",
    jwt.MissingRequiredClaimError: "it lacks one of exp, iss, aud and sub",
}


def named_key(token: str) -> tuple[str | None, str]:
    """Return the key id and the algorithm in a token's header. The token is not verified yet.

    Other header members (``jwk``, ``jku``, ``x5u``, ``x5c``) are ignored, because the sender of a token must
    not choose the key. Raises TokenRefused.
    """
    first, _, rest = token.partition(".")
    if len(token) > MAX_TOKEN or len(first) > MAX_HEADER or rest.count(".") != 1 or not token.isascii():
        raise TokenRefused("it is not a signed JWT of at most 8 KB")
    try:
        header = orjson.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except (ValueError, binascii.Error):
        header = None
    if not isinstance(header, dict):
        raise TokenRefused("its header cannot be read")
    kid, algorithm = header.get("kid"), header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
        raise TokenRefused("its algorithm is not accepted")
    if kid is not None and (not isinstance(kid, str) or len(kid) > MAX_KID):
        raise TokenRefused("it names no key")
    return kid, algorithm


def check_header(header: Mapping[str, Any], types: Collection[str], what: str) -> None:
    """Check the type in a verified token's header, and refuse critical extensions.

    Raises TokenRefused. ``what`` names the expected type in its message.
    """
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in types:
        raise TokenRefused(f"it is no {what} (typ)")
    if "crit" in header:
        raise TokenRefused("it needs an extension that is not known here (crit)")


def check_storable(payload: Mapping[str, Any]) -> None:
    """Check that times and subject can be stored in the database. Raises TokenRefused."""
    for name in ("exp", "nbf", "iat"):
        if name in payload and not _is_time(payload[name]):
            raise TokenRefused(f"its {name} is no time")
    subject = payload["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not subject.isprintable():
        raise TokenRefused("its subject cannot be stored")


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LATEST
