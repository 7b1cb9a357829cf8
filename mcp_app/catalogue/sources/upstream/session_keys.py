"""The sessions of callers at other servers, and the questions that each caller can answer."""

from __future__ import annotations

from typing import Any

from mcp_app.catalogue.sources.upstream.known import KnownUpstream
from mcp_app.models import Upstream
from mcp_app.observability import correlation
from mcp_app.protocol.capabilities import ClientCapabilities
from mcp_app.protocol.principal_key import person_of
from mcp_app.protocol.versions import is_modern
from mcp_app.upstreams.caller import Caller


def caller_of(found: KnownUpstream, context: Any) -> Caller:
    """Return the caller for the client of a call. Different clients never share a session by chance."""
    return Caller(_key(found.isolation, context), capabilities(found, context.client.capabilities))


def completing(found: KnownUpstream) -> Caller:
    """Return the caller for a completion, which belongs to no call, by the request of this task."""
    asked = correlation.CURRENT.get() or correlation.Correlation()
    if found.isolation == Upstream.Isolation.SHARED:
        return Caller("shared")
    if found.isolation == Upstream.Isolation.SESSION and asked.session:
        return Caller(Caller.key_of(asked.session))
    person = asked.principal if found.isolation == Upstream.Isolation.SESSION else person_of(asked.principal)
    return Caller(f"completion:{person}")


def capabilities(found: KnownUpstream, client: ClientCapabilities) -> dict[str, Any]:
    """Return the capabilities to declare to a server: those that are relayed and that the client has.

    A server over stdio cannot name the call that a question belongs to, so a session of several people has
    none.
    """
    if found.server.command and found.isolation == Upstream.Isolation.SHARED:
        return {}
    told: dict[str, Any] = {}
    modes = {"form": client.elicitation_form, "url": client.elicitation_url}
    if any(modes.values()):
        told["elicitation"] = {name: {} for name, is_there in modes.items() if is_there}
    if found.sampling and client.sampling:
        told["sampling"] = {"tools": {}} if client.sampling_tools else {}
    if found.roots and client.roots:
        told["roots"] = {}
    return told


def _key(isolation: str, context: Any) -> str:
    if isolation == Upstream.Isolation.SHARED:
        return "shared"
    principal = context.principal
    if isolation == Upstream.Isolation.USER and principal.user_id is not None:
        return f"user:{principal.user_id}"
    if isolation == Upstream.Isolation.USER or is_modern(context.protocol_version):
        return f"principal:{principal.key}"
    return Caller.key_of(context.session_id)
