"""The identity provider of this installation: look-up of the users of its tokens.

Each process has one ``Verification``, for the configured provider. To support a second provider,
``verification()`` below would choose by the issuer in the token, and ``metadata.configured()`` would return
several.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from mcp_app import conf
from mcp_app.auth.api_keys import OF_CLIENT
from mcp_app.auth.identity_provider import caller_tokens
from mcp_app.auth.identity_provider.people import person_of
from mcp_app.auth.own_addresses import names_provider, origin, path_of, resource
from mcp_app.auth.permissions import permissions_of
from mcp_app.auth.principal import Principal, below
from mcp_app.protocol.messages.server import ENDPOINT, further_path

if TYPE_CHECKING:
    from mcp_app.auth.identity_provider.verification import Verification

# Every JWT begins with these characters: the base64url encoding of the opening of a JSON object.
PREFIX: Final = "ey"


def find_principal(token: str) -> Principal | None:
    """Return the principal of a JWT, or None if this installation does not accept the token (AUTH-07).

    Queries the database. Blocks until the provider's keys have been fetched, unless the caller has awaited
    ``arriving``. Raises Unavailable if there are no keys.
    """
    verifier = verification()
    if verifier is None:
        return None
    if (awaited := verifier.arriving(token)) is not None:
        awaited.result()
    claims = verifier.claims_of(token)
    if claims is None:
        return None
    path = _path_for(claims.audiences, verifier.provider.audiences)
    user = person_of(claims) if path else None
    if user is None:
        return None
    client = sha256(claims.client.encode(errors="backslashreplace")).hexdigest()[:16]
    key = f"user:{user.pk}{OF_CLIENT}external-{client}"
    return Principal(
        key=key,
        name=user.get_username(),
        permissions=below(claims.scopes, permissions_of(user)),
        user_id=user.pk,
        expires_at=claims.ends,
        scopes=claims.scopes,
        audience=resource(path=path),
        path=path,
        caller_token=caller_tokens.sealed(token, key, claims.ends),
    )


def _path_for(audiences: frozenset[str], own: frozenset[str]) -> str:
    """Return the path of the MCP server for which a verified token was issued.

    Returns "" if that server has been deleted. The address of a further server opens that server only, also
    if the settings list it among the ``own`` audiences.
    """
    base = origin()
    if any(not (base and further_path(each.removeprefix(base))) for each in audiences & own):
        return ENDPOINT
    return next(filter(None, map(path_of, sorted(audiences))), "")


def arriving(token: str) -> Future[None] | None:
    """Return the future that async code must await before it calls ``find_principal``, or None."""
    verifier = verification() if token.startswith(PREFIX) else None
    return None if verifier is None else verifier.arriving(token)


def prepare() -> None:
    """Start to fetch the provider's keys, so that the first token need not wait for them."""
    if (verifier := verification()) is not None:
        verifier.keys.arriving(None)


def keys_age() -> int | None:
    """Return the age of the cached keys in seconds.

    Returns None if this process has no keys or no provider is configured.
    """
    age = verifier.keys.state()[1] if (verifier := _verifier) is not None else None
    return None if age is None else int(age)


def verification() -> Verification | None:
    """Return this process's verifier for the current settings, or None if no provider is configured."""
    global _verifier  # noqa: PLW0603 - one per process, replaced when the settings change
    if not names_provider():
        return None
    with _holding:
        if _verifier is None or _verifier.settings is not conf.get():
            # Imported here, because the libraries are needed only if a provider is configured.
            from mcp_app.auth.identity_provider.metadata import configured
            from mcp_app.auth.identity_provider.verification import Verification

            _verifier = Verification(configured(), conf.get())
        return _verifier


_verifier: Verification | None = None
_holding = threading.Lock()
