"""initialize, initialized, ping (specification: basic/lifecycle)."""

from __future__ import annotations

from typing import Any

import orjson

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.conf import Settings
from mcp_app.handlers import core_tasks, extensions
from mcp_app.handlers.context import CallerContext, Params, Result, Services
from mcp_app.protocol import downlevel
from mcp_app.protocol.capabilities import MEMO_BYTES, known, server_capabilities
from mcp_app.protocol.dialects import MISSING_VERSION
from mcp_app.protocol.errors import InvalidParams, UnsupportedVersion
from mcp_app.protocol.messages.server import Server
from mcp_app.protocol.versions import LEGACY_NAMES, negotiate
from mcp_app.sessions.negotiated import Agreed, negotiated_fields
from mcp_app.sessions.session import LiveSession, bounded, opening_fields

# The maximum number of entries in each cache of ``initialize``.
KINDS = 256


async def initialize(
    services: Services,
    principal: Principal,
    catalogue: CatalogueView,
    params: Params,
    address: str,
    session: LiveSession | None,
    assumed: str,
) -> tuple[LiveSession, bytes]:
    """Open a session and return it with the encoded InitializeResult (LIFE-01, LIFE-02, VER-02).

    If the transport has already created the session, it passes it as ``session``, and the session is updated.
    ``assumed`` is the revision of a client that sends no revision (DLG-000-03).
    """
    silent = MISSING_VERSION in services.settings.dialects
    said = (
        params.get("protocolVersion", assumed if silent else None),
        params.get("capabilities"),
        params.get("clientInfo"),
    )
    # The outcome is cached, because most sessions come from a few kinds of clients.
    key = orjson.dumps(said)
    agreed = services.agreed.get(key)
    if agreed is None:
        agreed = _agree(services.settings, *said)
        if len(services.agreed) >= KINDS:
            services.agreed.clear()
        if len(key) <= MEMO_BYTES:
            services.agreed[key] = agreed
    if session is None:
        fields = opening_fields(
            agreed.fields, principal.key, announced=catalogue.revision, path=catalogue.server.path
        )
        session = await services.sessions.create(fields)
    else:
        await services.sessions.change(session, **agreed.fields)
        fields = session.stored()
    services.log.opened(
        session.id,
        principal=principal.key,
        user=principal.user_id,
        version=agreed.version,
        client_name=agreed.client_name,
        client_version=agreed.client_version,
        fields=fields,
        address=address,
    )
    return session, _result(services, catalogue.server, agreed.version, principal)


def _agree(settings: Settings, requested: object, capabilities: object, client_info: object) -> Agreed:
    """Return the outcome of a client's proposal. Raise InvalidParams or UnsupportedVersion."""
    if type(requested) is not str:
        raise InvalidParams("initialize needs the member 'protocolVersion', a string.")
    if type(capabilities) is not dict:
        raise InvalidParams("initialize needs the member 'capabilities', an object.")
    if type(client_info) is not dict or not _is_implementation(client_info):
        raise InvalidParams(
            "initialize needs the member 'clientInfo', an object with 'name' and 'version' strings."
        )
    if LEGACY_NAMES.isdisjoint(settings.versions):
        # ERA-07: the client knows no newer revision, but may show the supported revisions to the user.
        raise UnsupportedVersion(requested=requested[:64], supported=settings.versions)
    version, client = negotiate(requested, settings.versions), bounded(client_info)
    fields = negotiated_fields(version, client, known(capabilities))
    return Agreed(version, client["name"], client["version"], fields)


def _result(services: Services, server: Server, version: str, principal: Principal) -> bytes:
    """Return the encoded InitializeResult of a server at one revision, from the cache if possible."""
    key = server.identity, version, core_tasks.is_known(principal)
    found = services.initialize_results.get(key)
    if found is None:
        found = orjson.dumps(_initialize_result(services.settings, server, version, principal))
        if len(services.initialize_results) >= KINDS:
            services.initialize_results.clear()
        services.initialize_results[key] = found
    return found


def _initialize_result(
    settings: Settings, server: Server, version: str, principal: Principal
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": capabilities(settings, version, principal),
        "serverInfo": server.info,
    }
    if server.instructions:
        result["instructions"] = server.instructions
    return downlevel.result("initialize", result, version)


def capabilities(settings: Settings, version: str, principal: Principal) -> dict[str, Any]:
    """Return the server's capabilities at one revision."""
    return server_capabilities(
        version,
        tools=True,
        prompts=True,
        resources=True,
        subscribe=True,
        completions=True,
        logging=True,
        list_changed=True,
        extensions=extensions.announced(settings, version),
        tasks=core_tasks.capability(settings, version, principal),
    )


def discover(context: CallerContext, params: Params) -> Result:
    """Return the supported revisions, capabilities and instructions (DISC-01, DISC-02)."""
    settings = context.services.settings
    result: dict[str, Any] = {
        "supportedVersions": list(settings.versions),
        "capabilities": capabilities(settings, context.session.version, context.principal),
    }
    if instructions := context.catalogue.server.instructions:
        result["instructions"] = instructions
    return result


def ping(context: CallerContext, params: Params) -> Result:
    """Return an empty result (PING-01)."""
    return b"{}"


def _is_implementation(info: dict[str, Any]) -> bool:
    return type(info.get("name")) is str and type(info.get("version")) is str
