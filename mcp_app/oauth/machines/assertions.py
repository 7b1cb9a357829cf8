"""Verification of the signed assertions that machines log in with (RFC 7523, ``private_key_jwt``)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

import jwt
import orjson

from mcp_app.auth.identity_provider.keys import ALGORITHMS
from mcp_app.auth.identity_provider.verification import (
    SKEW_SECONDS,
    TokenRefused,
    Words,
    check_header,
    check_storable,
    named_key,
    proven,
)
from mcp_app.database import clock as database_clock
from mcp_app.oauth import single_use
from mcp_app.oauth.machines import public_keys
from mcp_app.oauth.models import Client

TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
METHOD: Final = "private_key_jwt"
SIGNED_BY: Final = tuple(sorted(name for names in ALGORITHMS.values() for name in names))
# Longest life of an assertion, in seconds. An assertion serves one request, and its id stays stored until it
# expires.
LONGEST_LIFE: Final = 3_600
MAX_ID: Final = 255
_TYPES: Final = frozenset({"jwt", "client-authentication+jwt"})
# Times are checked in ``_checked`` against the database clock, which all processes share.
_OPTIONS: Final[Any] = {
    "require": ["exp", "iss", "sub", "aud", "jti"],
    "verify_aud": False,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "enforce_minimum_key_length": True,
}


def claimed_client(assertion: str) -> str:
    """Return the subject claim of an assertion whose signature is not checked yet. Raises TokenRefused."""
    named_key(assertion)
    try:
        part = assertion.split(".")[1]
        claims = orjson.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error):
        claims = None
    subject = claims.get("sub") if isinstance(claims, dict) else None
    if not isinstance(subject, str):
        raise TokenRefused("its claims cannot be read")
    return subject


def accept(client: Client, assertion: str, audiences: Collection[str]) -> None:
    """Verify that ``client`` signed an assertion, and mark the assertion as used.

    Raises TokenRefused for an invalid assertion, and Unavailable if the client's keys cannot be fetched.
    """
    kid, algorithm = named_key(assertion)
    keys = public_keys.find(client, kid, algorithm)
    name = client.client_id
    fault = "no key of the machine fits it"
    header, payload, _ = proven(
        assertion, keys, algorithm, fault=fault, words=_WORDS, options=_OPTIONS, issuer=name, subject=name
    )
    check_header(header, _TYPES, "assertion of a client")
    _use(client, *_checked(payload, audiences))


# Replacements for the library's messages, which may quote data from the assertion.
_WORDS: Final[Words] = {
    jwt.InvalidIssuerError: "its issuer is not the machine",
    jwt.exceptions.InvalidSubjectError: "its subject is not the machine",
    jwt.InvalidSignatureError: "its signature is wrong",
    jwt.MissingRequiredClaimError: "it lacks one of exp, iss, sub, aud and jti",
}


def _checked(payload: Mapping[str, Any], audiences: Collection[str]) -> tuple[str, float]:
    """Check the claims. Return the assertion's id and its expiry in epoch seconds. Raises TokenRefused."""
    check_storable(payload)
    audience, now = payload["aud"], database_clock.timestamp()
    # Only one audience is allowed, because another recipient could replay the assertion here.
    named = audience if isinstance(audience, list) else [audience]
    if len(named) != 1 or not isinstance(named[0], str) or named[0] not in audiences:
        raise TokenRefused("it is for another audience (aud)")
    ends = float(payload["exp"])
    if ends <= now - SKEW_SECONDS:
        raise TokenRefused("it has expired (do the clocks differ?)")
    if ends > now + LONGEST_LIFE + SKEW_SECONDS:
        raise TokenRefused(f"it ends in more than {LONGEST_LIFE} seconds")
    for name in ("iat", "nbf"):
        if payload.get(name, now) > now + SKEW_SECONDS:
            raise TokenRefused(f"it is not valid yet ({name}; do the clocks differ?)")
    if payload.get("iat", now) < now - LONGEST_LIFE - SKEW_SECONDS:
        raise TokenRefused("it was made too long ago (iat)")
    number = payload["jti"]
    if not isinstance(number, str) or not 1 <= len(number) <= MAX_ID:
        raise TokenRefused(f"its id (jti) must have 1 to {MAX_ID} characters")
    return number, ends


def _use(client: Client, number: str, ends: float) -> None:
    """Record the id of an assertion until every process considers the assertion expired.

    Raises TokenRefused on the second use.
    """
    until = datetime.fromtimestamp(ends + 2 * SKEW_SECONDS, tz=database_clock.utcnow().tzinfo)
    if not single_use.use(f"{client.pk}\0{number}", until):
        raise TokenRefused("it was used before (jti)")
