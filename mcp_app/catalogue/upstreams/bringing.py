"""Adding the servers of a configuration, with sealed credentials for their headers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app import conf
from mcp_app.catalogue.upstreams.configurations import ConfiguredServer
from mcp_app.catalogue.upstreams.storing import save_upstream
from mcp_app.credentials.checks import target_of
from mcp_app.credentials.services import USE, save_credential
from mcp_app.models import Credential, Upstream

# The permissions to store and to use the headers of a configuration.
CREDENTIALS = ("mcp_app.add_credential", USE)


def add_servers(
    *, servers: Collection[ConfiguredServer], actor: Any
) -> tuple[list[Upstream], dict[str, str]]:
    """Store the servers, each with a credential if it has headers. Their entries are not offered yet.

    Return the stored rows, and the reasons for the servers that were not stored, by name.
    """
    added, refused = [], {}
    for server in servers:
        is_known = server.is_command and server.name in conf.get().upstream_commands
        if server.problem and not is_known:
            refused[server.name] = server.problem
            continue
        try:
            with transaction.atomic():
                added.append(_added(server, actor))
        except ValidationError as error:
            refused[server.name] = " ".join(error.messages)
    return added, refused


def _added(server: ConfiguredServer, actor: Any) -> Upstream:
    if server.is_command:
        return save_upstream(actor=actor, name=server.name, command=server.name)
    credential = ""
    if server.headers:
        if actor is not None and not actor.has_perms(CREDENTIALS):
            raise ValidationError("It has headers, and you may not add credentials.")
        credential = _credential(server, actor).name
    return save_upstream(actor=actor, name=server.name, url=server.url, credential=credential)


def _credential(server: ConfiguredServer, actor: Any) -> Credential:
    try:
        origin = target_of(server.url).origin
    except ValueError as error:
        raise ValidationError(str(error)) from None
    kind, secret = Credential.Kind.HEADERS, {"headers": dict(server.headers)}
    if [name.lower() for name in server.headers] == ["authorization"]:
        [value] = server.headers.values()
        scheme, _, token = value.partition(" ")
        if scheme.lower() == "bearer" and token:
            return save_credential(
                actor=actor,
                name=server.name,
                kind=Credential.Kind.BEARER,
                secret={"token": token.strip()},
                origins=[origin],
            )
    return save_credential(actor=actor, name=server.name, kind=kind, secret=secret, origins=[origin])
