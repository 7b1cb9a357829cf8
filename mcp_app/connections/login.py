"""The login of a user at the authorization server of an upstream server (RFC 6749, 7636, 8707, 9207).

The state of a login is sealed in the session of the browser that began it. It is valid once, for ten minutes,
for one user and one server.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import orjson
from asgiref.sync import async_to_sync
from django.db import transaction

from mcp_app import conf
from mcp_app.connections import services
from mcp_app.connections.discovery import Authority, LoginRefused, Resource, find
from mcp_app.connections.registration import addresses_of, client_for, stored_client
from mcp_app.database import clock
from mcp_app.models import Credential, Upstream, UpstreamClient, UserConnection
from mcp_app.sealing import Unsealed, key_ring
from mcp_app.streams.blocking import shared_values
from mcp_app.upstreams.accounts import tokens, use
from mcp_app.upstreams.accounts.reach import covers
from mcp_app.upstreams.accounts.tokens import Tokens, TokensFailed

PENDING: Final = "mcp_connecting"
PENDING_SECONDS: Final = 600.0
MAX_PENDING: Final = 5
LEASE_SECONDS: Final = 45.0
MAX_PARAMETER: Final = 4_096
OFFLINE: Final = "offline_access"
UNKNOWN: Final = "This login has expired, is already complete, or began in another browser. Connect again."
MIXED_UP: Final = (
    "The response is not from the authorization server of this login. No code was sent. Connect again."
)
_SEALED_FOR: Final = "user-connection-login"

log = logging.getLogger("mcp.upstream")


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """The request of a new login: its address for the browser, the issuer, and the scopes."""

    url: str
    issuer: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class _Pending:
    user: str
    upstream: int
    client: int
    resource: str
    verifier: str
    names_issuer: bool
    scopes: tuple[str, ...]
    until: float


def begin(*, upstream: Upstream, user: Any, session: Any, host: str = "") -> AuthorizationRequest:
    """Prepare a login, store its state in the session, and return its request. Raise LoginRefused.

    A user begins one login at a time, because each waits for other servers.
    """
    lock, holder = f"user-connecting/{user.pk}", secrets.token_hex(8)
    if not shared_values.acquire(lock, holder, LEASE_SECONDS):
        raise LoginRefused("Another login of yours is being prepared. Try again in a moment.")
    try:
        return _prepared(upstream, user, session, host)
    finally:
        shared_values.release(lock, holder)


def _prepared(upstream: Upstream, user: Any, session: Any, host: str) -> AuthorizationRequest:
    addresses = addresses_of(upstream.pk, host)
    entered = _entered(upstream)
    trusted = entered.origins if entered is not None else []

    async def prepare() -> tuple[Resource, Authority, UpstreamClient]:
        resource, authority = await find(upstream.url, trusted)
        return resource, authority, await client_for(upstream, authority, addresses)

    resource, authority, client = async_to_sync(prepare)()
    client = stored_client(client) if client._state.adding else client
    usual = tuple(entered.scopes.split()) if entered is not None and entered.scopes else resource.scopes
    scopes = _all_scopes(usual, authority, upstream, user)
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(32)
    pending = _Pending(
        str(user.pk), upstream.pk, client.pk, resource.resource, verifier, authority.names_issuer, scopes,
        clock.timestamp() + PENDING_SECONDS,
    )  # fmt: skip
    _store(session, state, pending)
    asked = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uri,
        "state": state,
        "code_challenge": _challenge(verifier),
        "code_challenge_method": "S256",
        "resource": resource.resource,
        **({"scope": " ".join(scopes)} if scopes else {}),
    }
    return AuthorizationRequest(
        _with_query(authority.authorization_endpoint, asked), authority.issuer, scopes
    )


def _all_scopes(
    usual: tuple[str, ...], authority: Authority, upstream: Upstream, user: Any
) -> tuple[str, ...]:
    """Return the scopes of a login: the usual ones, and those that the connection had or lacked."""
    row = UserConnection.objects.filter(user=user, upstream=upstream, client__issuer=authority.issuer).first()
    before = [] if row is None else [*row.asked.split(), *row.needed.split()]
    scopes = tuple(dict.fromkeys((*usual, *before)))
    if OFFLINE in authority.scopes and OFFLINE not in scopes and scopes:
        scopes = (*scopes, OFFLINE)
    return scopes


def finish(*, upstream: int, user: Any, session: Any, response: Mapping[str, str]) -> UserConnection:
    """Complete a login with the response of the authorization server. Raise LoginRefused."""
    pending = _taken(session, response.get("state", ""))
    if pending is None or (pending.user, pending.upstream) != (str(user.pk), upstream):
        raise LoginRefused(UNKNOWN)
    client = UpstreamClient.objects.select_related("upstream").filter(pk=pending.client).first()
    if client is None or not _is_current(client, pending):
        raise LoginRefused("The settings of the server have changed. Connect again.")
    # A response without an issuer is accepted only from servers that never send one (RFC 9207 section 2.4).
    issuer = response.get("iss", "")
    if issuer != client.issuer and (issuer or pending.names_issuer):
        log.warning("A login at %s ended with the issuer %r.", client.upstream.name, issuer[:200])
        raise LoginRefused(MIXED_UP)
    if response.get("error"):
        raise LoginRefused(_refusal(response["error"]))
    code = response.get("code", "")
    if not 0 < len(code) <= MAX_PARAMETER:
        raise LoginRefused("The authorization server sent no code.")
    return _stored(user, client, pending, _granted(client, code, pending))


def _granted(client: UpstreamClient, code: str, pending: _Pending) -> Tokens:
    form = (
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", client.redirect_uri),
        ("code_verifier", pending.verifier),
        ("resource", pending.resource),
    )
    try:
        return async_to_sync(tokens.requested)(client, form)
    except TokensFailed as failed:
        if failed.is_unknown_client:
            use.retire(client)
        raise LoginRefused(f"The login failed. {failed}") from None


def _stored(user: Any, client: UpstreamClient, pending: _Pending, granted: Tokens) -> UserConnection:
    with transaction.atomic():
        upstream = Upstream.objects.select_for_update().defer("listed").get(pk=client.upstream_id)
        before = UserConnection.objects.select_for_update().filter(user=user, upstream=upstream).first()
        row = UserConnection(user=user, upstream=upstream, client=client, resource=pending.resource)
        if before is not None:
            # Its tokens are not revoked: many servers would end the new login, which has the same client.
            row.pk = before.pk
        row.key, row.connected_at = secrets.token_hex(16), clock.utcnow()
        use.store(row, granted)
        row.asked = " ".join(pending.scopes)
        # Without a scope in its answer, the server has granted what was asked for (RFC 6749 section 5.1).
        row.scope = row.scope or row.asked
        row.save(force_insert=before is None, force_update=before is not None)
        UpstreamClient.objects.filter(pk=client.pk).update(used_at=clock.now())
        services.record(user, "upstream.connection_made", upstream, user)
    use.drop(upstream.pk, user.pk)
    return row


def _is_current(client: UpstreamClient, pending: _Pending) -> bool:
    row = client.upstream
    return row.enabled and row.user_connections and covers(pending.resource, row.url)


def _entered(upstream: Upstream) -> Credential | None:
    if not upstream.oauth_client:
        return None
    return Credential.objects.filter(name=upstream.oauth_client).first()


def _store(session: Any, state: str, pending: _Pending) -> None:
    """Seal a login into the session. The oldest of too many are dropped."""
    sealed = key_ring(conf.get(), _SEALED_FOR).seal(orjson.dumps(asdict(pending)))
    kept = [*session.get(PENDING, {}).items(), (_digest(state), sealed)]
    session[PENDING] = dict(kept[-MAX_PENDING:])


def _taken(session: Any, state: str) -> _Pending | None:
    """Return the login of a state and remove it from the session, so that it is used once."""
    kept = dict(session.get(PENDING, {}))
    sealed = kept.pop(_digest(state), None)
    if sealed is None:
        return None
    session[PENDING] = kept
    try:
        pending = _Pending(**orjson.loads(key_ring(conf.get(), _SEALED_FOR).open(sealed)))
    except Unsealed:
        return None
    return pending if pending.until > clock.timestamp() else None


def _refusal(error: str) -> str:
    if error == "access_denied":
        return "The login was cancelled."
    return "The authorization server refused the login. Connect again, or ask its operator."


def _with_query(url: str, asked: Mapping[str, str]) -> str:
    """Return an address with further parameters. Parameters of the same name are replaced."""
    parts = urlsplit(url)
    given = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in asked]
    return urlunsplit(parts._replace(query=urlencode([*given, *asked.items()])))


def _challenge(verifier: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _digest(state: str) -> str:
    return hashlib.sha256(state.encode("utf-8", "surrogatepass")).hexdigest()
