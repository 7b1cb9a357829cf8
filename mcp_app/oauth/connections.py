"""The only module that writes connections and tokens (AUTH-31, AUTH-36)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from mcp_app import conf
from mcp_app.auth.api_keys import LAST_USE_INTERVAL_SECONDS, OF_CLIENT
from mcp_app.auth.ended import EndedWork, end_work
from mcp_app.auth.makers import Maker, maker
from mcp_app.auth.own_addresses import offers_oauth, path_of
from mcp_app.auth.permissions import permissions_of
from mcp_app.auth.principal import Principal, below
from mcp_app.database import clock
from mcp_app.execution.services import cancel_calls_of
from mcp_app.execution.stored import cancelling
from mcp_app.models import audit
from mcp_app.models.audit import audit_each
from mcp_app.oauth import secrets
from mcp_app.oauth.models import AccessToken, AuthorizationCode, Client, Connection, RefreshToken
from mcp_app.oauth.redirects import is_loopback
from mcp_app.oauth.secrets import Pair
from mcp_app.protocol import scopes
from mcp_app.protocol.errors import TooManyRequests
from mcp_app.streams.blocking.announce import announce

CODE_SECONDS: Final = 60
# Seconds for which a used refresh token still returns the pair that replaced it. A client that lost the
# response retries with the used token.
GRACE_SECONDS: Final = 120
# Live connections per person from programs on loopback addresses, over all clients. Above this limit, the
# oldest connection ends.
MAX_LIVE: Final = 50
TOO_MANY: Final = "the user has newer connections"
# Refreshes per connection. Used refresh tokens stay stored to detect theft, so a client that refreshes in a
# loop would fill the table.
REFRESHES_PER_HOUR: Final = 60
# Connections ended per statement. On SQLite, a statement blocks all other writers until it has finished.
END_SLICE: Final = 200
# Audit actions for the creation of clients and machines by users, and the permission to create machines.
CLIENT_ENTERED: Final = "oauth.client_enter"
MACHINE_ENTERED: Final = "oauth.machine_enter"
MACHINE_PERMISSION: Final = "mcp_oauth.add_machine_client"
# End reason of a connection that a newer one replaced. Its calls go on, because they belong to the
# replacement.
REPLACED: Final = "connected again"


@dataclass(frozen=True, slots=True)
class Consent:
    """A person's consent for one client."""

    client: Client
    user: Any
    resource: str
    scope: str
    redirect_uri: str
    code_challenge: str


def allow(consent: Consent, code: str) -> Connection:
    """Create the connection to which a person agreed.

    The client exchanges ``code`` for the connection's tokens.
    """
    now = clock.utcnow()
    with transaction.atomic():
        connection = Connection.objects.create(
            user=consent.user,
            client=consent.client,
            resource=consent.resource,
            scope=consent.scope,
            redirect_uri=consent.redirect_uri,
            ends_at=now + timedelta(seconds=conf.get().oauth_connection_seconds),
        )
        AuthorizationCode.objects.create(
            connection=connection,
            digest=secrets.digest(code),
            redirect_uri=consent.redirect_uri,
            code_challenge=consent.code_challenge,
            expires_at=now + timedelta(seconds=CODE_SECONDS),
        )
        audit_connection(consent.user, "oauth.allow", connection)
    return connection


def find_code(code: str, client: Client) -> AuthorizationCode | None:
    """Return and lock the unused, unexpired code issued to ``client``, or None.

    A second use of a code ends the connection of the code.
    """
    rows = AuthorizationCode.objects.select_for_update(of=("self",)).select_related("connection__user")
    row = rows.filter(digest=secrets.digest(code), connection__client=client).first()
    if row is None:
        return None
    if row.used_at is not None:
        end(row.connection, "code used twice", action="oauth.code_reused")
        return None
    alive = row.expires_at > clock.utcnow() and row.connection.live and row.connection.user.is_active
    return row if alive else None


def exchange(row: AuthorizationCode, pair: Pair) -> None:
    """Store the first tokens of a connection, and end the connections that it replaces."""
    now = clock.utcnow()
    row.used_at = now
    row.save(update_fields=["used_at"])
    _store(row.connection, pair, now)
    _end_replaced(row.connection)


def find_refresh(token: str, client: Client) -> tuple[RefreshToken, Pair | None] | None:
    """Return and lock a refresh token of ``client``, or None if the token is not valid.

    The second item is None for an unused token. For a token used within the grace period, it is the pair that
    replaced the token. Later reuse means that the token or the pair was stolen, and therefore the connection
    ends. Raises TooManyRequests if the connection refreshes too often.
    """
    rows = RefreshToken.objects.select_for_update(of=("self",)).select_related("connection__user")
    row = rows.filter(digest=secrets.digest(token), connection__client=client).first()
    now = clock.utcnow()
    if row is None or not row.connection.live or not row.connection.user.is_active or row.expires_at <= now:
        return None
    if row.used_at is None:
        _check_pace(row.connection, now)
        return row, None
    if now - row.used_at > timedelta(seconds=GRACE_SECONDS):
        end(row.connection, "refresh token reused", action="oauth.refresh_reused")
        return None
    pair = secrets.unseal(row.successor, token)
    return None if pair is None else (row, pair)


def _check_pace(connection: Connection, now: datetime) -> None:
    # The shorter an access token lives, the more often its client must refresh.
    most = max(REFRESHES_PER_HOUR, 4 * 3_600 // conf.get().oauth_token_seconds)
    if connection.refresh_tokens.filter(used_at__gt=now - timedelta(hours=1)).count() >= most:
        raise TooManyRequests("This connection renews its tokens all the time.", retry_after=60)


def refresh(row: RefreshToken, token: str, pair: Pair) -> None:
    """Store the pair that replaces the refresh token ``row``.

    ``token`` is the used refresh token. It returns the same pair until the grace period ends.
    """
    now = clock.utcnow()
    row.used_at, row.successor = now, secrets.seal(pair, token)
    row.save(update_fields=["used_at", "successor"])
    _store(row.connection, pair, now)


def _store(connection: Connection, pair: Pair, now: datetime) -> None:
    AccessToken.objects.create(
        connection=connection,
        digest=secrets.digest(pair.access),
        scope=pair.scope,
        expires_at=datetime.fromtimestamp(pair.ends, tz=now.tzinfo),
    )
    lives = now + timedelta(seconds=conf.get().oauth_refresh_seconds)
    RefreshToken.objects.create(
        connection=connection,
        digest=secrets.digest(pair.refresh),
        expires_at=min(lives, connection.ends_at),
    )


def _end_replaced(connection: Connection) -> None:
    """End the connections that a new connection replaces.

    A web client has one connection per redirect address and resource. Programs on people's machines share a
    loopback address, so each program has its own connection. Above MAX_LIVE connections per person, the
    oldest ones end.
    """
    live = Connection.objects.filter(user_id=connection.user_id, revoked_at=None).exclude(pk=connection.pk)
    if is_loopback(connection.redirect_uri):
        programs = [each for each in live.select_related("user", "client") if is_loopback(each.redirect_uri)]
        replaced = programs[MAX_LIVE - 1 :]
    else:
        place = {"redirect_uri": connection.redirect_uri, "resource": connection.resource}
        replaced = list(live.filter(client_id=connection.client_id, **place))
    for old in replaced:
        if old.client_id == connection.client_id:
            end(old, REPLACED, stops_calls=False)
        else:
            end(old, TOO_MANY)


def end(
    connection: Connection,
    reason: str,
    *,
    actor: Any = None,
    action: str = "oauth.end",
    stops_calls: bool = True,
) -> EndedWork:
    """End a connection and its tokens, and notify every process (S5).

    With ``stops_calls``, its calls are stopped as well.
    """
    return end_each([connection], reason, actor=actor, action=action, stops_calls=stops_calls)


def end_each(
    connections: Sequence[Connection],
    reason: str,
    *,
    actor: Any = None,
    action: str = "oauth.end",
    stops_calls: bool = True,
) -> EndedWork:
    """End many connections as ``end`` does, in few statements. The rows' users and clients must be loaded."""
    work = EndedWork()
    with transaction.atomic():
        for first in range(0, len(connections), END_SLICE):
            work += _end_live(connections[first : first + END_SLICE], reason, actor, action, stops_calls)
    return work


def _end_live(
    connections: Sequence[Connection], reason: str, actor: Any, action: str, stops_calls: bool
) -> EndedWork:
    rows = Connection.objects.filter(pk__in=[each.pk for each in connections], revoked_at=None)
    # Lock in primary key order to avoid deadlocks with concurrent calls.
    live = set(rows.select_for_update().order_by("pk").values_list("pk", flat=True))
    ended = [each for each in connections if each.pk in live]
    if not ended:
        return EndedWork()
    rows.update(revoked_at=clock.utcnow(), end_reason=reason)
    details = {str(each.pk): {**_detail(each), "reason": reason} for each in ended}
    audit_each(actor=actor, action=action, object_kind="connection", details=details)
    replaced = _replaced_by(ended) if stops_calls else []
    numbers = [each.pk for each in ended]
    ids = {
        "connections": numbers,
        "principals": [principal_key(each) for each in ended],
        "stops": stops_calls,
        "replaced": replaced,
    }
    transaction.on_commit(lambda: announce("credentials", ids))
    if not stops_calls:
        return EndedWork()
    transaction.on_commit(lambda: _cancel_background(ended, replaced, actor))
    # A call that waits for approval must record why it was never decided. end_work records that, a
    # cancellation does not.
    return end_work(Q(connection_id__in=[*numbers, *replaced]), actor=actor)


def stopped(numbers: frozenset[int]) -> frozenset[int]:
    """Return the connections whose calls must stop, given their primary keys.

    Calls stop if the connection ended, or if its client or user was deactivated. Calls of a replaced
    connection continue as long as the replacement is active.
    """
    place = ("user_id", "client_id", "resource", "redirect_uri")
    successor = Connection.objects.filter(revoked_at=None, **{name: OuterRef(name) for name in place})
    goes_on = Q(revoked_at=None) | (Q(end_reason=REPLACED) & Exists(successor))
    rows = Connection.objects.filter(goes_on, pk__in=numbers, client__disabled_at=None).select_related("user")
    return numbers - {row.pk for row in rows if row.user.is_active}


def makers(which: Q) -> dict[int, Maker]:
    """Map connections to the users who entered the connections' clients.

    Clients that registered themselves or have a metadata document are left out, because no user entered them.
    """
    rows = Connection.objects.filter(which).select_related("client")
    entered = {row.pk: row.client for row in rows}
    by_hand = Client.RegistrationSource.MANUAL
    return {pk: _maker(client) for pk, client in entered.items() if client.registration_source == by_hand}


def _maker(client: Client) -> Maker:
    could = MACHINE_PERMISSION if client.is_machine else "mcp_oauth.add_client"
    what = f"entered the {'machine' if client.is_machine else 'OAuth client'} that it came by"
    actions = (MACHINE_ENTERED, CLIENT_ENTERED)
    return maker(client.entered_by_id, actions, client.client_id, could=could, what=what)


def _replaced_by(ended: Sequence[Connection]) -> list[int]:
    """Return the newest connections that the ended ones replaced.

    Calls of a replaced connection belong to its replacement and therefore end with it.
    """
    place = ("user_id", "client_id", "resource", "redirect_uri")
    successor = Connection.objects.filter(
        pk__in=[each.pk for each in ended], pk__gt=OuterRef("pk"), **{name: OuterRef(name) for name in place}
    )
    of_these = Connection.objects.filter(
        user_id__in={each.user_id for each in ended}, client_id__in={each.client_id for each in ended}
    )
    replaced = of_these.filter(Exists(successor), end_reason=REPLACED).order_by("-pk")
    return list(replaced.values_list("pk", flat=True)[: MAX_LIVE * len(ended)])


def _cancel_background(ended: Sequence[Connection], replaced: list[int], actor: Any) -> None:
    """Cancel calls made through the ended connections.

    If a person has no other live connection to the client, cancel all calls of this person and client.
    """
    numbers = [*(each.pk for each in ended), *replaced]
    of_whom = {principal_key(each): each for each in ended}
    for principal in cancelling.with_open_calls(of_whom):
        one = of_whom[principal]
        of_both = Connection.objects.filter(user_id=one.user_id, client_id=one.client_id, revoked_at=None)
        is_last = not of_both.filter(ends_at__gt=clock.utcnow()).exists()
        which = None if is_last else numbers
        cancel_calls_of(principal, actor=actor, reason="the connection ended", connections=which)


def end_by_token(token: str, client: Client) -> None:
    """End the connection to which an access or refresh token belongs (RFC 7009). Ignore unknown tokens."""
    digest = secrets.digest(token)
    named = Q(access_tokens__digest=digest) | Q(refresh_tokens__digest=digest)
    for connection in Connection.objects.filter(named, client=client).distinct():
        end(connection, "revoked by the client")


def disable(client: Client, *, actor: Any) -> EndedWork:
    """Disable a client and end its connections. The client cannot connect again until it is enabled."""
    with transaction.atomic():
        Client.objects.filter(pk=client.pk).update(disabled_at=clock.utcnow())
        audit_client(actor, "oauth.client_disable", client)
        rows = Connection.objects.filter(client=client, revoked_at=None).order_by("pk")
        return end_each(list(rows.select_related("user", "client")), "client switched off", actor=actor)


def enable(client: Client, *, actor: Any) -> None:
    """Enable a client. The ended connections stay ended, so people must connect the client again."""
    with transaction.atomic():
        Client.objects.filter(pk=client.pk).update(disabled_at=None)
        audit_client(actor, "oauth.client_enable", client)


def find_principal(token: str) -> Principal | None:
    """Return the principal of an access token, or None if it is valid for no server of ours (AUTH-07)."""
    if not offers_oauth():
        return None
    rows = AccessToken.objects.select_related("connection__user", "connection__client")
    row = rows.filter(digest=secrets.digest(token), expires_at__gt=clock.utcnow()).first()
    if row is None:
        return None
    connection = row.connection
    usable = connection.live and connection.user.is_active and connection.client.disabled_at is None
    path = path_of(connection.resource)
    if not usable or not path:
        return None
    _record_use(connection)
    held = scopes.widened(row.scope.split())
    return Principal(
        key=principal_key(connection),
        name=connection.user.get_username(),
        permissions=below(held, permissions_of(connection.user)),
        user_id=connection.user_id,
        expires_at=clock.own(row.expires_at.timestamp()),
        scopes=held,
        audience=connection.resource,
        path=path,
        connection_id=connection.pk,
    )


def principal_key(connection: Connection) -> str:
    """Return the key of the principal for one person and client (AUTH-22)."""
    return f"user:{connection.user_id}{OF_CLIENT}{connection.client_id}"


def _record_use(connection: Connection) -> None:
    """Record the time of use, at most once a minute.

    The token is looked up every few seconds, so recording each look-up would cost too many writes.
    """
    now = clock.utcnow()
    before = now - timedelta(seconds=LAST_USE_INTERVAL_SECONDS)
    if connection.last_used_at is None or connection.last_used_at < before:
        unnoted = Q(last_used_at=None) | Q(last_used_at__lt=before)
        Connection.objects.filter(unnoted, pk=connection.pk).update(last_used_at=now)
        Client.objects.filter(unnoted, pk=connection.client_id).update(last_used_at=now)


def audit_connection(actor: Any, action: str, connection: Connection, **more: Any) -> None:
    audit(
        actor=actor,
        action=action,
        object_kind="connection",
        object_key=str(connection.pk),
        detail={**_detail(connection), **more},
    )


def _detail(connection: Connection) -> dict[str, str]:
    return {
        "user": str(connection.user),
        "client": str(connection.client),
        "scope": connection.scope,
    }


def audit_client(actor: Any, action: str, client: Client, **more: Any) -> None:
    audit(
        actor=actor,
        action=action,
        object_kind="oauth_client",
        object_key=client.client_id,
        detail={"name": client.name, "kind": client.registration_source, **more},
    )
