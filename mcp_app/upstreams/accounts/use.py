"""The use of users' accounts by requests: secrets, renewal of tokens, and refused tokens.

Each process keeps an opened account for a few seconds. Tokens are renewed by one request at a time, over all
processes: authorization servers end a login whose refresh token is used twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from django.db.models import Q

from mcp_app.database import clock
from mcp_app.database.queries import aquery, later
from mcp_app.egress import Secrets
from mcp_app.models import UpstreamClient, UserConnection, audit
from mcp_app.protocol.client.challenges import MAX_SCOPES
from mcp_app.sealing import Unsealed
from mcp_app.upstreams.accounts import tokens as requests
from mcp_app.upstreams.accounts.reach import SECONDS, covers
from mcp_app.upstreams.accounts.tokens import Tokens, TokensFailed
from mcp_app.upstreams.server import Account

# An ended connection is used no longer than this by other processes.
KEPT_SECONDS: Final = 5.0
USE_RECORDED_SECONDS: Final = 60.0
# A token that is refused so soon after it was issued is not renewed: the server refuses the next one too.
YOUNG_SECONDS: Final = 30.0
LEASE_SECONDS: Final = SECONDS + 2.0
_POLL_SECONDS: Final = 0.1
_MAX_KEPT: Final = 10_000
_UNREADABLE: Final = "The stored tokens cannot be read. Connect again."
_ELSEWHERE: Final = "The connection belongs to another address of the server. Connect again."
_KEY_LOST: Final = (
    "This installation cannot decrypt the stored tokens, because its key has changed. The user can "
    "connect again, or an administrator can restore the previous key (STATE_KEYS or SECRET_KEY)."
)
_EXPIRED: Final = "The connection has expired. Connect again."
_REFUSED: Final = "The server refused the connection (401)."

log = logging.getLogger("mcp.upstream")


class Standing(StrEnum):
    """The states of a user's account at a server."""

    CONNECTED = "connected"
    MISSING = "missing"
    ATTENTION = "attention"


class AccountRefused(Exception):
    """An account that cannot be used for a request. The text may be shown to the caller of a tool."""


@dataclass(frozen=True, slots=True, repr=False)
class _Opened:
    row: UserConnection
    tokens: Tokens
    read_at: float


_opened: dict[tuple[int, str], _Opened] = {}
_used_at: dict[int, float] = {}
_renewing: dict[tuple[Any, int], asyncio.Task[None]] = {}


async def find(server: int, user: Any) -> tuple[Standing, Account | None]:
    """Return the state of a user's account at a server, and the account if requests can use it."""
    opened = await _kept(server, str(user))
    if opened is None:
        return await aquery(_standing, server, user), None
    return Standing.CONNECTED, Account(str(user), opened.row.key)


async def secrets_for(server: int, account: Account, url: str) -> Secrets:
    """Return the secret parts of a request to ``url`` in the name of an account. Raises AccountRefused."""
    opened = await _of(server, account)
    if not covers(opened.row.resource, url):
        raise AccountRefused(_ELSEWHERE)
    until = opened.tokens.expires_at
    if until is not None and until <= clock.timestamp():
        if not opened.tokens.refresh:
            raise AccountRefused(_EXPIRED)
        await _renewed(opened)
        opened = await _of(server, account)
    _record_use(opened.row.pk)
    return Secrets(
        headers=(("Authorization", f"Bearer {opened.tokens.access}"),),
        key=f"account:{opened.row.pk}:{opened.row.key}",
    )


async def refused(server: int, account: Account, used: Secrets, status: int) -> bool:
    """Return True if another attempt gets another token, after a server refused ``used``.

    An account whose token cannot be renewed needs attention.
    """
    if status != 401:
        return False
    drop(server, account.user)
    try:
        opened = await _of(server, account)
        if used.headers != (("Authorization", f"Bearer {opened.tokens.access}"),):
            return True
        if not opened.tokens.refresh:
            await aquery(_fail, opened.row, _REFUSED)
            return False
        if clock.timestamp() - opened.row.renewed_at.timestamp() < YOUNG_SECONDS:
            return False
        await _renewed(opened)
    except AccountRefused:
        return False
    finally:
        drop(server, account.user)
    return True


async def record_need(server: int, account: Account, scopes: tuple[str, ...]) -> bool:
    """Record the scopes that a server requires beyond those of an account.

    Return True if another login can get them, and False if the last login asked for all of them already.
    """
    drop(server, account.user)
    return await aquery(_record_need, server, account, scopes)


def drop(server: int, user: Any) -> None:
    """Remove an account from the cache of this process."""
    _opened.pop((server, str(user)), None)


def standing_of(row: UserConnection) -> Standing:
    """Return the state of a stored connection, as this process can use it."""
    return Standing.ATTENTION if problem_of(row) else Standing.CONNECTED


def problem_of(row: UserConnection) -> str:
    """Return the reason why a stored connection needs attention, with the remedy, or ""."""
    if problem := _stored_problem(row):
        return problem
    return "" if is_readable(row) else _KEY_LOST


def is_readable(row: UserConnection) -> bool:
    """Return True if this process can decrypt the tokens of a connection, and the secret that renews them."""
    try:
        tokens = requests.opened(row)
    except Unsealed:
        return False
    return tokens is not None and (not tokens.refresh or requests.registered_secret(row.client) is not None)


def store(row: UserConnection, tokens: Tokens) -> None:
    """Put new tokens into a row, which the caller saves."""
    row.sealed, row.scope = requests.sealed(tokens, row), tokens.scope
    row.can_renew, row.problem, row.renewing_until = bool(tokens.refresh), "", None
    row.renewed_at = clock.utcnow()
    row.expires_at = None if tokens.expires_at is None else datetime.fromtimestamp(tokens.expires_at, UTC)


def retire(client: UpstreamClient) -> None:
    """Record that the authorization server does not know a client. The next login gets another one."""
    UpstreamClient.objects.filter(pk=client.pk).update(retired_at=clock.now())


def _stored_problem(row: UserConnection) -> str:
    """Return the reason in the row, without decrypting its tokens."""
    if row.problem or not row.sealed:
        return row.problem or _UNREADABLE
    is_over = row.expires_at is not None and row.expires_at <= clock.utcnow() and not row.can_renew
    return _EXPIRED if is_over else ""


def _record_need(server: int, account: Account, scopes: tuple[str, ...]) -> bool:
    row = _rows().filter(upstream_id=server, user_id=account.user, key=account.key).first()
    if row is None:
        return bool(scopes)  # The user has connected the account again meanwhile.
    missing = set(scopes) - set((row.asked or row.scope).split())
    needed = {*row.needed.split(), *missing}
    if missing and len(needed) <= MAX_SCOPES:
        rows = UserConnection.objects.filter(pk=row.pk, key=row.key)
        rows.update(needed=" ".join(sorted(needed)))
    return bool(missing)


def _standing(server: int, user: Any) -> Standing:
    row = _rows().filter(upstream_id=server, user_id=user).first()
    return Standing.MISSING if row is None else standing_of(row)


async def _of(server: int, account: Account) -> _Opened:
    """Return the account of a call. Raise AccountRefused if it has ended, or was connected again since."""
    opened = await _kept(server, account.user)
    if opened is None or opened.row.key != account.key:
        raise AccountRefused("The connection has ended.")
    return opened


async def _kept(server: int, user: str) -> _Opened | None:
    found = _opened.get((server, user))
    if found is None or time.monotonic() - found.read_at > KEPT_SECONDS:
        found = await aquery(_read, server, user)
        if found is None:
            _opened.pop((server, user), None)
            return None
        while len(_opened) >= _MAX_KEPT:
            del _opened[next(iter(_opened))]
        _opened[server, user] = found
    return found


def _rows() -> Any:
    return UserConnection.objects.select_related("client", "client__upstream").filter(user__is_active=True)


def _read(server: int, user: str) -> _Opened | None:
    row = _rows().filter(upstream_id=server, user_id=user).first()
    if row is None or _stored_problem(row):
        return None
    tokens = _tokens(row)
    if tokens is None:
        return None
    # The address of a server can change while it has no entries. Tokens for the old address stay unused.
    if not covers(row.resource, row.client.upstream.url):
        _fail(row, _ELSEWHERE)
        return None
    return _Opened(row, tokens, time.monotonic())


def _tokens(row: UserConnection) -> Tokens | None:
    """Return the tokens of a connection, or None if they are not usable. Delete those of another one."""
    try:
        tokens = requests.opened(row)
    except Unsealed as error:
        # Other processes may have the key, for example while keys are replaced.
        log.error("The tokens of the user connection %s cannot be read: %s.", row.pk, error)  # noqa: TRY400
        return None
    if tokens is None:
        _fail(row, _UNREADABLE)
    return tokens


async def _renewed(opened: _Opened) -> None:
    """Renew the tokens of an account once, for all requests that wait for them. Raise AccountRefused."""
    key = (asyncio.get_running_loop(), opened.row.pk)
    task = _renewing.get(key)
    if task is None:
        task = _renewing[key] = asyncio.create_task(_renew(opened.row.pk, opened.row.sealed))
        task.add_done_callback(lambda _: _renewing.pop(key, None))
    # A cancelled request does not cancel the renewal for the others.
    try:
        await asyncio.shield(task)
    finally:
        drop(opened.row.upstream_id, opened.row.user_id)


async def _renew(pk: int, sealed: str) -> None:
    until = time.monotonic() + LEASE_SECONDS + 1.0
    while True:
        row = await aquery(lambda: _rows().filter(pk=pk).first())
        if row is None:
            raise AccountRefused("The connection has ended.")
        if row.problem:
            raise AccountRefused(row.problem)
        if row.sealed != sealed:
            return  # Another process has renewed them.
        if await aquery(_lease, row):
            break
        if time.monotonic() > until:
            raise AccountRefused("Another process waits for the authorization server.")
        await asyncio.sleep(_POLL_SECONDS)
    tokens = await aquery(_tokens, row)
    if tokens is None:
        await aquery(_release, row, _UNREADABLE)
        raise AccountRefused(_UNREADABLE)
    form = (("grant_type", "refresh_token"), ("refresh_token", tokens.refresh), ("resource", row.resource))
    try:
        granted = await requests.requested(row.client, form, before=tokens)
    except TokensFailed as failed:
        text = f"The connection could not be renewed. {failed}"
        await aquery(_fail if failed.is_final else _release, row, text)
        if failed.is_unknown_client:
            await aquery(retire, row.client)
        raise AccountRefused(text) from None
    await aquery(_write, row, granted)


def _lease(row: UserConnection) -> bool:
    """Take the right to renew the tokens in a row. Return False if another has it, or the row changed."""
    free = Q(renewing_until=None) | Q(renewing_until__lt=clock.now())
    rows = UserConnection.objects.filter(free, pk=row.pk, sealed=row.sealed, problem="")
    return bool(rows.update(renewing_until=clock.now(LEASE_SECONDS)))


def _release(row: UserConnection, text: str) -> None:
    UserConnection.objects.filter(pk=row.pk, sealed=row.sealed).update(renewing_until=None)


def _write(row: UserConnection, tokens: Tokens) -> None:
    before = row.sealed
    store(row, tokens)
    names = ("sealed", "scope", "can_renew", "problem", "renewing_until", "renewed_at", "expires_at")
    values = {name: getattr(row, name) for name in names}
    # A connection that was ended or made again meanwhile is not changed.
    UserConnection.objects.filter(pk=row.pk, sealed=before).update(**values)
    UpstreamClient.objects.filter(pk=row.client_id).update(used_at=clock.now())


def _fail(row: UserConnection, text: str) -> None:
    """Record that the user has to connect again. The tokens are of no use and are deleted."""
    rows = UserConnection.objects.filter(pk=row.pk, sealed=row.sealed, problem="")
    if rows.update(problem=text[:300], sealed="", can_renew=False, renewing_until=None):
        detail = {"user": str(row.user_id), "reason": text[:300]}
        server = row.client.upstream.name
        audit(
            actor=None, action="upstream.connection_failed", object_kind="upstream", object_key=server,
            detail=detail,
        )  # fmt: skip


def _record_use(pk: int) -> None:
    now = time.monotonic()
    if now - _used_at.get(pk, -USE_RECORDED_SECONDS) >= USE_RECORDED_SECONDS:
        while len(_used_at) >= _MAX_KEPT:
            del _used_at[next(iter(_used_at))]
        _used_at[pk] = now
        later(_write_use, pk)


def _write_use(pk: int) -> None:
    UserConnection.objects.filter(pk=pk).update(last_used_at=clock.now())
