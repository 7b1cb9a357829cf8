"""Tokens of a user's account: sealing, and the requests to the token endpoint (RFC 6749, 7009, 8707)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus

import orjson

from mcp_app import conf
from mcp_app.credentials import services as credentials
from mcp_app.credentials import tokens as token_requests
from mcp_app.credentials.checks import target_of
from mcp_app.credentials.kinds import basic
from mcp_app.credentials.tokens import ERROR, TOKEN, TokenRefused
from mcp_app.database import clock
from mcp_app.egress import Secrets
from mcp_app.models import UpstreamClient, UserConnection
from mcp_app.protocol.client.challenges import scopes_in
from mcp_app.sealing import Unsealed, key_ring
from mcp_app.upstreams.accounts.reach import SECONDS, policy_for

Form = tuple[tuple[str, str], ...]
# Errors of the token endpoint after which another attempt with the same token or code fails too.
_FINAL: Final = frozenset(
    ("invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope", "invalid_target")
)
_SEALED_FOR: Final = "user-connection"
_CLIENT_SEALED_FOR: Final = "upstream-client"
MAX_SCOPE: Final = 2_000


class TokensFailed(Exception):
    """A failed request for tokens. The text contains no secret.

    If ``is_final`` is True, the user has to connect again. ``error`` is the code of the token endpoint.
    """

    def __init__(self, text: str, *, is_final: bool = False, error: str = "") -> None:
        super().__init__(text)
        self.is_final, self.error = is_final, error

    @property
    def is_unknown_client(self) -> bool:
        """True if the authorization server does not know the client, or refuses its secret."""
        return self.error == "invalid_client"


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """The tokens of an account. ``expires_at`` is None if the lifetime of the access token is not known."""

    access: str
    refresh: str = ""
    expires_at: float | None = None
    scope: str = ""


def sealed(tokens: Tokens, row: UserConnection) -> str:
    """Encrypt tokens for one connection: its user, server, resource and issuer."""
    payload = {
        "for": _binding(row),
        "access": tokens.access,
        "refresh": tokens.refresh,
        "expires": tokens.expires_at,
    }
    return key_ring(conf.get(), _SEALED_FOR).seal(orjson.dumps(payload))


def opened(row: UserConnection) -> Tokens | None:
    """Decrypt the tokens of a connection. Return None if they were sealed for another one.

    Raise Unsealed if this process does not have their key.
    """
    payload = orjson.loads(key_ring(conf.get(), _SEALED_FOR).open(row.sealed))
    if payload["for"] != _binding(row):
        return None
    return Tokens(payload["access"], payload["refresh"], payload["expires"], row.scope)


def sealed_secret(secret: str) -> str:
    """Encrypt the secret of a registered client."""
    return key_ring(conf.get(), _CLIENT_SEALED_FOR).seal(secret.encode()) if secret else ""


def registered_secret(client: UpstreamClient) -> str | None:
    """Decrypt the secret of a registered client, which may be "". Return None without its key."""
    try:
        return key_ring(conf.get(), _CLIENT_SEALED_FOR).open(client.sealed).decode() if client.sealed else ""
    except Unsealed:
        return None


async def requested(client: UpstreamClient, form: Form, *, before: Tokens | None = None) -> Tokens:
    """Send a grant to the token endpoint and return the tokens. Raise TokensFailed.

    ``before`` are the tokens that are renewed: servers may send no new refresh token.
    """
    status, answer = await _sent(client, client.token_endpoint, form)
    if status == 200:
        return _granted(answer, before)
    error = answer.get("error")
    code = error if isinstance(error, str) and ERROR.fullmatch(error) else ""
    text = f"The authorization server answered {status}" + (f" ({code})." if code else ".")
    raise TokensFailed(text, is_final=status < 500 and code in _FINAL, error=code)


async def revoke(client: UpstreamClient, tokens: Tokens) -> None:
    """Revoke the tokens at the authorization server, if it has an endpoint for that. Raise TokensFailed."""
    if not client.revocation_endpoint:
        return
    hint, token = ("refresh_token", tokens.refresh) if tokens.refresh else ("access_token", tokens.access)
    form = (("token", token), ("token_type_hint", hint))
    status, _ = await _sent(client, client.revocation_endpoint, form)
    if status != 200:
        raise TokensFailed(f"The authorization server answered {status}.")


async def _sent(client: UpstreamClient, url: str, form: Form) -> tuple[int, dict[str, Any]]:
    try:
        async with asyncio.timeout(SECONDS):
            secret = await _secret(client, url)
            full, own = _authenticated(client, secret, form)
            trusted = [target_of(url).origin] if client.credential else []
            policy = policy_for(url, client.upstream.url, trusted)
            return await token_requests.posted(url, full, own, policy)
    except (TokenRefused, ValueError, credentials.CredentialRefused) as refused:
        raise TokensFailed(str(refused)) from None
    except TimeoutError:
        raise TokensFailed(f"The authorization server did not answer within {SECONDS:g} seconds.") from None


async def _secret(client: UpstreamClient, url: str) -> str:
    if client.credential:
        # The id of the login is used, so a replaced client makes users connect again.
        return (await credentials.oauth_client(client.credential, url))[1]
    secret = registered_secret(client)
    if secret is None:
        # Other processes may have the key, so the tokens stay.
        raise TokensFailed("The secret of the registration cannot be read.")
    return secret


def _authenticated(client: UpstreamClient, secret: str, form: Form) -> tuple[Form, Secrets]:
    if secret and client.auth_method == "client_secret_basic":
        header = basic(quote_plus(client.client_id), quote_plus(secret))
        return form, Secrets(headers=(("Authorization", header),))
    own: Form = (("client_id", client.client_id), *((("client_secret", secret),) if secret else ()))
    return (*form, *own), Secrets()


def _granted(answer: Mapping[str, Any], before: Tokens | None) -> Tokens:
    access, refresh, scope = (answer.get(name) for name in ("access_token", "refresh_token", "scope"))
    if not isinstance(access, str) or not TOKEN.fullmatch(access):
        raise TokensFailed("The authorization server sent no access token.")
    if str(answer.get("token_type", "")).lower() != "bearer":
        raise TokensFailed("The authorization server sent a token that is not a bearer token.")
    if not isinstance(refresh, str) or not TOKEN.fullmatch(refresh):
        refresh = before.refresh if before is not None else ""
    if not isinstance(scope, str):
        scope = before.scope if before is not None else ""
    stated = answer.get("expires_in")
    until = None if stated is None else clock.timestamp() + token_requests.lifetime(stated)
    return Tokens(access, refresh, until, " ".join(scopes_in(scope))[:MAX_SCOPE])


def _binding(row: UserConnection) -> list[str]:
    return [str(row.user_id), str(row.upstream_id), row.resource, row.client.issuer]
