"""The functions that write upstream servers.

Changes raise ValidationError by field. ``actor`` is the acting user, or None for the installation itself.
Callers check the actor's permission.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Final

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction

from mcp_app import conf
from mcp_app.auth import own_addresses
from mcp_app.catalogue.changes import drafts, services
from mcp_app.catalogue.sources.upstream import known
from mcp_app.catalogue.upstreams.entries import drafts_of, entries_of, may
from mcp_app.credentials.checks import origin_of, target_of
from mcp_app.credentials.services import NOT_ALLOWED, USE, bound_to
from mcp_app.models import Credential, Upstream, audit
from mcp_app.models.audit import stored_user
from mcp_app.observability.redaction import MARK

FIELDS: Final = (
    "url", "command", "prefix", "credential", "user_connections", "oauth_client", "token_exchange", "era",
    "isolation", "timeout_seconds", "sampling", "roots", "enabled",
)  # fmt: skip
_ADDRESS_STAYS: Final = (
    "The address cannot be changed while the server has entries, because they were approved for it. "
    "Add another server."
)


def save_upstream(
    *, actor: Any, upstream: Upstream | None = None, name: str | None = None, **values: Any
) -> Upstream:
    """Create a server, or change ``upstream``. Return the stored row.

    The name of a stored server cannot change, and its URL or command only as long as it has no tools.
    """
    with transaction.atomic():
        row = Upstream(name=name or "")
        if upstream is not None:
            row = Upstream.objects.select_for_update().get(pk=upstream.pk)
        if name not in (None, row.name):
            raise ValidationError({"name": ["The name cannot be changed, because tools refer to it."]})
        before = {field: getattr(row, field) for field in FIELDS}
        for field, value in values.items():
            if field not in FIELDS:
                raise ValidationError({field: ["There is no such field."]})
            setattr(row, field, value)
        row.prefix = row.prefix or row.name[:31].rstrip("_-")
        changed = sorted(field for field in FIELDS if getattr(row, field) != before[field])
        _check(row, changed, actor, is_new=upstream is None)
        row.updated_by = stored_user(actor)
        try:
            with transaction.atomic():
                row.save()
        except IntegrityError:
            raise ValidationError({"name": ["A server with this name exists."]}) from None
        action = "created" if upstream is None else "changed"
        address = {"command": row.command} if row.command else {"url": row.address}
        detail = address if upstream is None else {"changed": changed}
        audit(actor=actor, action=f"upstream.{action}", **about(row), detail=detail)
    known.drop(row.name)
    return row


def delete_upstream(*, upstream: Upstream, actor: Any) -> int:
    """Delete a server with its entries and drafts. Return the number of deleted entries."""
    with transaction.atomic():
        for draft in drafts_of(upstream).values():
            drafts.discard_draft(draft=draft, actor=actor)
        entries = list(entries_of(upstream).values())
        if not all(may(actor, "delete", type(entry)) for entry in entries):
            raise PermissionDenied("You may not delete all entries of this server.")
        if entries:
            why = f"The server {upstream.name} is removed"
            services.delete_entries(entries=entries, actor=actor, why=why)
        audit(actor=actor, action="upstream.deleted", **about(upstream), detail={"entries": len(entries)})
        upstream.delete()
    known.drop(upstream.name)
    return len(entries)


def about(row: Upstream) -> dict[str, str]:
    """Return the object of an audit event."""
    return {"object_kind": "upstream", "object_key": row.name}


def packed(value: Any) -> bytes:
    """Return a JSON value as compressed bytes."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 6)


def unpacked(data: bytes | memoryview | None) -> dict[str, Any]:
    """Return the JSON object in compressed bytes, or {}."""
    found: dict[str, Any] = json.loads(zlib.decompress(data)) if data is not None else {}
    return found


def _check(row: Upstream, changed: list[str], actor: Any, *, is_new: bool) -> None:
    errors: dict[str, list[str]] = {}
    row.command = str(row.command or "").strip()
    field = "command" if row.command else "url"
    if problem := _objection_to_command(row) if row.command else _objection_to_url(row):
        errors[field] = [problem]
    elif not is_new and {"url", "command"} & {*changed} and (entries_of(row) or drafts_of(row)):
        errors[field] = [_ADDRESS_STAYS]
    if row.credential and row.command:
        errors["credential"] = [
            "A command has no credential. Set its secrets as variables in UPSTREAM_COMMANDS."
        ]
    elif row.credential and "url" not in errors:
        if "credential" in changed and actor is not None and not actor.has_perm(USE):
            errors["credential"] = [NOT_ALLOWED]
        elif problem := bound_to(row.credential, row.url):
            errors["credential"] = [problem]
    if row.user_connections and row.command:
        errors["user_connections"] = ["User connections are for servers with a URL."]
    if problem := _objection_to_exchange(row, changed, actor):
        errors["token_exchange"] = [problem]
    if problem := _objection_to_client(row, changed, actor):
        errors["oauth_client"] = [problem]
    try:
        row.full_clean(exclude=("updated_by", "listed", *errors))
    except ValidationError as error:
        errors |= error.message_dict
    if errors:
        raise ValidationError(errors)


def _objection_to_command(row: Upstream) -> str:
    if str(row.url or "").strip():
        return "A server has a URL or a command, not both."
    commands = conf.get().upstream_commands
    if row.command not in commands:
        there = ", ".join(commands) or "none"
        return f"UPSTREAM_COMMANDS in the settings has no command {row.command!r}. It has: {there}."
    return ""


def _objection_to_client(row: Upstream, changed: list[str], actor: Any) -> str:
    if not row.oauth_client:
        return ""
    if not row.user_connections:
        return "Only servers with user connections have an OAuth client."
    # Tokens that its logins get are sent to the address.
    if {"oauth_client", "url"} & {*changed} and actor is not None and not actor.has_perm(USE):
        return NOT_ALLOWED
    kind = Credential.Kind.OAUTH_CLIENT
    is_there = Credential.objects.filter(name=row.oauth_client, kind=kind).exists()
    return "" if is_there else f"There is no credential {row.oauth_client!r} of the kind {kind.label!r}."


def _objection_to_exchange(row: Upstream, changed: list[str], actor: Any) -> str:
    if not row.token_exchange:
        return ""
    if row.command or row.user_connections:
        return "Token exchange is for servers with a URL and without user connections."
    if {"token_exchange", "url"} & {*changed} and actor is not None and not actor.has_perm(USE):
        return NOT_ALLOWED
    return bound_to(row.token_exchange, row.url, Credential.Kind.TOKEN_EXCHANGE)


def _objection_to_url(row: Upstream) -> str:
    row.url = str(row.url or "").strip()
    if not row.url:
        return "Enter the address of the server, such as https://mcp.example.com/mcp, or choose a command."
    if MARK in row.url:
        return f"Replace {MARK} by the value of the parameter, which is not shown."
    try:
        target = target_of(row.url)
        origin_of(target.origin)
    except ValueError as error:
        return str(error)
    if target.url.fragment or target.url.userinfo:
        return "An address has no user name, password or fragment."
    own = own_addresses.origin()
    if own and target.origin == own:
        return "This is the address of this installation itself."
    return ""
