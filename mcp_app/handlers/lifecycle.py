"""initialize, initialized, ping (specification: basic/lifecycle)."""

from __future__ import annotations

from typing import Any

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.current import current
from mcp_app.handlers.context import Asked, Params, Result, Services
from mcp_app.protocol.capabilities import server_capabilities
from mcp_app.protocol.dialects import MISSING_VERSION
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.versions import V2025_06_18, V2025_11_25, negotiate
from mcp_app.sessions.session import Session, negotiated_fields

MAX_CLIENT_TEXT = 200
# What a client can declare that means something here.
CLIENT_CAPABILITIES = {"roots": (), "sampling": ("tools", "context"), "elicitation": ("form", "url")}


async def initialize(
    services: Services,
    principal: Principal,
    params: Params,
    address: str,
    session: Session | None,
    assumed: str,
) -> tuple[Session, dict[str, Any]]:
    """Open a session; returns it with the InitializeResult (LIFE-01, LIFE-02, VER-02).

    ``session`` is given where the transport had to have one before: it takes what was negotiated.
    ``assumed`` is the revision of a client that names none (DLG-000-03).
    """
    silent = MISSING_VERSION in services.settings.dialects
    requested = params.get("protocolVersion", assumed if silent else None)
    capabilities = params.get("capabilities")
    client_info = params.get("clientInfo")
    if type(requested) is not str:
        raise InvalidParams("initialize needs the member 'protocolVersion', a string.")
    if type(capabilities) is not dict:
        raise InvalidParams("initialize needs the member 'capabilities', an object.")
    if type(client_info) is not dict or not _is_implementation(client_info):
        raise InvalidParams(
            "initialize needs the member 'clientInfo', an object with 'name' and 'version' strings."
        )
    version = negotiate(requested, services.settings.versions)
    client, declared = _bounded(client_info), _known(capabilities)
    if session is None:
        session = await services.sessions.create(
            version=version,
            principal_key=principal.key,
            client_info=client,
            capabilities=declared,
            announced=current().revision,
        )
    else:
        fields = negotiated_fields(version=version, client_info=client, capabilities=declared)
        await services.sessions.change(session, **fields)
    services.log.fact(
        "session.opened",
        session=session.id,
        principal=principal.key,
        user=principal.user_id,
        version=version,
        client_name=session.client_name,
        client_version=str(session.client_info.get("version", "")),
        fields=services.sessions.stored(session),
        address=address,
    )
    return session, initialize_result(services, version)


def initialize_result(services: Services, version: str) -> dict[str, Any]:
    """What the server says of itself at one revision."""
    settings = services.settings
    info: dict[str, Any] = {"name": settings.server_name, "version": settings.server_version}
    if settings.server_title and version >= V2025_06_18:
        info["title"] = settings.server_title
    if settings.public_url and version >= V2025_11_25:
        info["websiteUrl"] = settings.public_url
    result: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": server_capabilities(
            version,
            tools=True,
            prompts=True,
            resources=True,
            subscribe=True,
            completions=True,
            logging=True,
            list_changed=True,
        ),
        "serverInfo": info,
    }
    if settings.instructions:
        result["instructions"] = settings.instructions
    return result


def ping(context: Asked, params: Params) -> Result:
    """PING-01."""
    return b"{}"


def _is_implementation(info: dict[str, Any]) -> bool:
    return type(info.get("name")) is str and type(info.get("version")) is str


def _known(capabilities: dict[str, Any]) -> dict[str, Any]:
    """The capabilities that mean something here; others are ignored (GEN-02).

    Nothing a client chose the size of is kept: it would fill the stores, once for each session.
    """
    return {
        name: {member: {} for member in members if type(declared.get(member)) is dict}
        for name, members in CLIENT_CAPABILITIES.items()
        if type(declared := capabilities.get(name)) is dict
    }


def _bounded(info: dict[str, Any]) -> dict[str, Any]:
    """The parts of ``clientInfo`` worth keeping; a hostile client must not make every session large."""
    names = ("name", "version", "title", "description", "websiteUrl")
    return {name: info[name][:MAX_CLIENT_TEXT] for name in names if type(info.get(name)) is str}
