"""The only functions that write and use credentials.

Changes need keyword arguments and raise ValidationError by field. ``actor`` is the acting user, or None for
the installation itself. Callers check the actor's permission.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from mcp_app import conf
from mcp_app.credentials import checks, kinds, tokens
from mcp_app.credentials.exchange import LOGIN_AGAIN, Subject, resource_of
from mcp_app.database import clock
from mcp_app.database.aware_times import aware
from mcp_app.database.queries import aquery, later
from mcp_app.egress import Secrets
from mcp_app.models import Credential, Tool, Upstream, audit
from mcp_app.models.audit import stored_user
from mcp_app.sealing import Unsealed, key_ring

# Users who may see the credentials may use them in tools that they may change.
USE: Final = "mcp_app.view_credential"
NOT_ALLOWED: Final = "Only users who may view credentials can use one."
FIELDS: Final = ("origins", "token_url", "scopes", "resource", "audience", "placement", "expires_at")
# A change of these fields could send the secret to another server, so it requires the secret again.
_BINDING: Final = ("origins", "token_url")
_SEALED_FOR: Final = "credential"
# Kinds that belong to users of a server. Requests of tools cannot use them.
_OF_USERS: Final = (Credential.Kind.OAUTH_CLIENT, Credential.Kind.TOKEN_EXCHANGE)
_NOT_FOR_REQUESTS: Final = "The credential {!r} is of the kind {!r}: only upstream servers can use it."
# Each process keeps a credential for this time. A change takes effect everywhere within it.
KEPT_SECONDS: Final = 5.0
USE_RECORDED_SECONDS: Final = 60.0
# The same error of a credential is recorded this often by each process.
ERROR_RECORDED_SECONDS: Final = 10.0

# A refusal to delete a credential names this many tools and upstream servers.
NAMED: Final = 10

log = logging.getLogger("mcp.credentials")


class CredentialRefused(Exception):
    """A credential that cannot be used for a request. The text may be shown to the caller of a tool."""


@dataclass(frozen=True, slots=True, repr=False)
class _Opened:
    """A credential with its secret in clear text. It has no repr, because it contains the secret."""

    pk: int
    kind: str
    origins: frozenset[str]
    secret: Mapping[str, Any]
    placement: Mapping[str, Any]
    grant: tokens.Grant | None
    key: str
    expires_at: Any
    read_at: float


_opened: dict[str, _Opened] = {}
_used_at: dict[int, float] = {}
_errors_at: dict[int, tuple[str, float]] = {}


def save_credential(
    *,
    actor: Any,
    credential: Credential | None = None,
    secret: Mapping[str, Any] | None = None,
    name: str | None = None,
    kind: str | None = None,
    **values: Any,
) -> Credential:
    """Create a credential, or change ``credential``. Return the stored row.

    ``secret`` None keeps the stored secret. A new credential, and a change of the origins or the token URL,
    require it. Kind and name of a stored credential cannot change, because tools refer to them.
    """
    with transaction.atomic():
        row = _row(credential, name, kind)
        before = {field: getattr(row, field) for field in FIELDS}
        for field, value in values.items():
            if field not in FIELDS:
                raise ValidationError({field: ["There is no such field."]})
            setattr(row, field, aware(value) if field == "expires_at" else value)
        row.placement = row.placement or {}
        checks.check(row)
        changed = sorted(field for field in FIELDS if getattr(row, field) != before[field])
        if secret is not None:
            _seal(row, secret)
        elif credential is None or set(changed) & set(_BINDING):
            raise ValidationError({"secret": [_missing(credential)]})
        row.updated_by = stored_user(actor)
        _store(row)
        detail = {} if credential is None else {"changed": changed, "secret": secret is not None}
        action = "created" if credential is None else "changed"
        audit(
            actor=actor,
            action=f"credential.{action}",
            object_kind="credential",
            object_key=row.name,
            detail=detail,
        )
    _opened.pop(row.name, None)
    return row


def _row(credential: Credential | None, name: str | None, kind: str | None) -> Credential:
    if credential is None:
        return Credential(name=name or "", kind=kind or "")
    row = Credential.objects.select_for_update().get(pk=credential.pk)
    if name not in (None, row.name):
        raise ValidationError({"name": ["The name cannot be changed, because tools refer to it."]})
    if kind not in (None, row.kind):
        raise ValidationError({"kind": ["The kind cannot be changed: create another credential."]})
    return row


def _missing(credential: Credential | None) -> str:
    if credential is None:
        return "Enter the secret."
    return "Enter the secret again, because it would be sent to another server."


def _seal(row: Credential, secret: Mapping[str, Any]) -> None:
    if problem := kinds.objection_to(row.kind, secret, row.placement):
        raise ValidationError({"secret": [problem]})
    row.sealed = key_ring(conf.get(), _SEALED_FOR).seal(orjson.dumps(secret))
    row.rotated_at = clock.utcnow()
    row.last_error, row.last_error_at = "", None


def _store(row: Credential) -> None:
    try:
        row.full_clean(exclude=["sealed"])
        row.save()
    except IntegrityError:
        raise ValidationError({"name": ["A credential with this name exists."]}) from None


def delete_credential(*, credential: Credential, actor: Any) -> None:
    """Delete a credential. Raises ValidationError while tools or upstream servers use it."""
    with transaction.atomic():
        used = {"tool": names_of_tools(credential.name), "upstream server": names_of_servers(credential.name)}
        if parts := [_named(noun, names) for noun, names in used.items() if names]:
            raise ValidationError(f"{credential.name} is used by {' and '.join(parts)}.")
        audit(
            actor=actor,
            action="credential.deleted",
            object_kind="credential",
            object_key=credential.name,
        )
        credential.delete()
    _opened.pop(credential.name, None)


def _named(noun: str, names: list[str]) -> str:
    """Return a number of objects with their names, at most NAMED of them."""
    shown = [*names[:NAMED], *(["…"] if len(names) > NAMED else [])]
    return f"{len(names):,} {noun}{'s' * (len(names) != 1)}: {', '.join(shown)}"


def is_readable(row: Credential) -> bool:
    """Return True if this process can decrypt the secret of a credential."""
    try:
        key_ring(conf.get(), _SEALED_FOR).open(row.sealed)
    except Unsealed:
        return False
    return True


def tools_with(name: str) -> QuerySet[Tool]:
    """Return the tools that use a credential."""
    return Tool.objects.filter(request__credential=name)


def upstreams_with(name: str) -> QuerySet[Upstream]:
    """Return the upstream servers that use a credential."""
    return Upstream.objects.defer("listed").filter(
        Q(credential=name) | Q(oauth_client=name) | Q(token_exchange=name)
    )


def names_of_tools(credential: str) -> list[str]:
    """Return the names of the tools that use a credential, in order."""
    return list(tools_with(credential).order_by("name").values_list("name", flat=True))


def names_of_servers(credential: str) -> list[str]:
    """Return the names of the upstream servers that use a credential, in order."""
    return list(upstreams_with(credential).order_by("name").values_list("name", flat=True))


def bound_to(name: str, url: str, kind: str = "") -> str:
    """Return the reason why a credential cannot be used for a URL, or "". The secret is not opened.

    ``kind`` is the only accepted kind.
    """
    row = Credential.objects.filter(name=name).first()
    if row is None:
        return f"There is no credential {name!r}."
    if row.kind in _OF_USERS and row.kind != kind:
        return _NOT_FOR_REQUESTS.format(name, row.get_kind_display())
    if kind and row.kind != kind:
        return f"The credential {name!r} is not of the kind {Credential.Kind(kind).label!r}."
    try:
        origin = checks.target_of(url).origin
    except ValueError as error:
        return str(error)
    return "" if origin in row.origins else f"The credential {name!r} is not bound to {origin}."


async def secrets_for(name: str, url: str) -> Secrets:
    """Return the secret parts of a request to ``url``. Raises CredentialRefused before anything is sent."""
    kept = await _usable(name, url)
    if kept.kind in _OF_USERS:
        raise CredentialRefused(_NOT_FOR_REQUESTS.format(name, Credential.Kind(kept.kind).label))
    _record_use(kept)
    if kept.grant is None:
        return kinds.placed(kept.kind, kept.secret, kept.placement, kept.key)
    return await _with_token(name, kept, kept.grant, kept.key)


async def exchanged(name: str, url: str, subject: Subject) -> Secrets:
    """Return the secret parts of a request to ``url`` in the name of a caller (RFC 8693).

    The token of the caller is sent to the token URL of the credential only. Raises CredentialRefused.
    """
    kept = await _usable(name, url)
    grant = _exchange(name, kept, url, subject)
    _record_use(kept)
    return await _with_token(name, kept, grant, grant.key)


async def exchange_refused(name: str, url: str, subject: Subject, used: Secrets) -> bool:
    """Drop the token in ``used``, which a server refused. Return True if another attempt gets a new one."""
    try:
        grant = _exchange(name, await _usable(name, url), url, subject)
    except CredentialRefused:
        return False
    return await tokens.drop(grant, used.headers[0][1].removeprefix("Bearer "))


def _exchange(name: str, kept: _Opened, url: str, subject: Subject) -> tokens.Grant:
    """Return the grant of one caller for one server."""
    if kept.kind != Credential.Kind.TOKEN_EXCHANGE or kept.grant is None:
        raise CredentialRefused(f"The credential {name!r} is not an OAuth token exchange.")
    parameters = kept.grant.parameters
    if not {"resource", "audience"} & {each for each, _ in parameters}:
        parameters = (*parameters, ("resource", resource_of(url)))
    parts = orjson.dumps([kept.grant.key, parameters, subject.token])
    key = f"exchange:{hashlib.sha256(parts).hexdigest()}"
    return replace(kept.grant, key=key, parameters=parameters, subject=subject)


async def _with_token(name: str, kept: _Opened, grant: tokens.Grant, key: str) -> Secrets:
    try:
        token = await tokens.token(grant)
    except tokens.TokenRefused as refused:
        if not refused.is_of_caller:
            _record_error(kept, str(refused))
        then = f" {LOGIN_AGAIN}" if refused.is_of_caller else ""
        text = f"The credential {name!r} got no access token. {refused}{then}"
        raise CredentialRefused(text) from None
    return Secrets(headers=(("Authorization", f"Bearer {token}"),), key=key)


async def oauth_client(name: str, url: str) -> tuple[str, str]:
    """Return client id and secret for requests to the token endpoint ``url``. Raises CredentialRefused."""
    kept = await _usable(name, url)
    if kept.kind != Credential.Kind.OAUTH_CLIENT:
        raise CredentialRefused(f"The credential {name!r} is not an OAuth client of user connections.")
    _record_use(kept)
    return kept.secret["client_id"], kept.secret["client_secret"]


async def version_of(name: str, url: str) -> str:
    """Return a text that changes with the secret and the settings of a credential.

    Raises CredentialRefused like ``secrets_for``, but requests no token.
    """
    kept = await _usable(name, url)
    return kept.key if kept.grant is None else kept.grant.key


async def _usable(name: str, url: str) -> _Opened:
    kept = _opened.get(name)
    if kept is None or time.monotonic() - kept.read_at > KEPT_SECONDS:
        kept = await aquery(_read, name)
        _opened[name] = kept
    try:
        origin = checks.target_of(url).origin
    except ValueError as error:
        raise CredentialRefused(str(error)) from None
    if origin not in kept.origins:
        raise CredentialRefused(f"The credential {name!r} is not bound to the origin of this request.")
    if kept.expires_at is not None and kept.expires_at <= clock.utcnow():
        raise CredentialRefused(f"The credential {name!r} has expired.")
    return kept


async def refused(name: str, used: Secrets | None = None, status: int = 401) -> bool:
    """Record that a server refused a credential. Return True if another attempt gets a new token.

    The kept token is dropped if ``used`` contains it.
    """
    kept = _opened.get(name)
    if kept is None:
        return False
    log.warning("The credential %s was refused with status %d.", name, status)
    _record_error(kept, f"A server refused it with status {status}.")
    if kept.grant is None or status != 401:
        return False
    token = used.headers[0][1].removeprefix("Bearer ") if used is not None and used.headers else None
    return await tokens.drop(kept.grant, token)


def _read(name: str) -> _Opened:
    row = Credential.objects.filter(name=name).first()
    if row is None:
        raise CredentialRefused(f"There is no credential {name!r}.")
    try:
        secret = orjson.loads(key_ring(conf.get(), _SEALED_FOR).open(row.sealed))
    except Unsealed:
        raise CredentialRefused(
            f"The secret of the credential {name!r} cannot be read: an administrator must enter it again."
        ) from None
    key = f"{row.pk}:{row.rotated_at and row.rotated_at.timestamp()}"
    grant = None
    if row.kind in (Credential.Kind.CLIENT_CREDENTIALS, Credential.Kind.TOKEN_EXCHANGE):
        parameters = {"scope": row.scopes, "resource": row.resource, "audience": row.audience}
        grant = tokens.Grant(
            key=f"{key}:{row.updated_at.timestamp()}",
            url=row.token_url,
            client_id=secret["client_id"],
            client_secret=secret["client_secret"],
            parameters=tuple((name, value) for name, value in parameters.items() if value),
        )
    return _Opened(
        row.pk, row.kind, frozenset(row.origins), secret, row.placement, grant, key, row.expires_at,
        time.monotonic(),
    )  # fmt: skip


def _record_use(kept: _Opened) -> None:
    now = time.monotonic()
    if now - _used_at.get(kept.pk, -USE_RECORDED_SECONDS) >= USE_RECORDED_SECONDS:
        _used_at[kept.pk] = now
        later(_write_use, kept.pk)


def _write_use(pk: int) -> None:
    Credential.objects.filter(pk=pk).update(last_used_at=clock.now())


def _record_error(kept: _Opened, text: str) -> None:
    """Record an error, unless this process has just recorded the same error of the same secret."""
    now, what = time.monotonic(), f"{kept.key}:{text}"
    noted, at = _errors_at.get(kept.pk, ("", 0.0))
    if noted != what or now - at >= ERROR_RECORDED_SECONDS:
        _errors_at[kept.pk] = (what, now)
        later(_write_error, kept.pk, text)


def _write_error(pk: int, text: str) -> None:
    Credential.objects.filter(pk=pk).update(last_error=text[:300], last_error_at=clock.now())
