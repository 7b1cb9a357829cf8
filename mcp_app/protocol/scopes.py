"""The scopes of OAuth tokens: texts, implied scopes, and the scope of each method (AUTH-10, AUTH-50).

A scope only limits a token and never grants a permission. A request needs both the scope and the user's
permission.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

MCP: Final = "mcp"
TOOLS: Final = "mcp:tools"
RESOURCES: Final = "mcp:resources"
PROMPTS: Final = "mcp:prompts"
ADMIN: Final = "mcp:admin"

# In the order of display. The consent page shows these texts.
DESCRIPTIONS: Final = {
    MCP: "Connect, and see which tools, resources and prompts are available",
    TOOLS: "Call tools as you, including tools that change or send data",
    RESOURCES: "Read resources",
    PROMPTS: "Use prompts",
    ADMIN: "Administer this server with your permissions: catalogue, keys, calls and figures",
}
ALL: Final = tuple(DESCRIPTIONS)
EVERY: Final = " ".join(ALL)
# The scopes that a client should request first. They are sufficient for clients that cannot add scopes
# later.
BASIC: Final = (MCP, TOOLS, RESOURCES, PROMPTS)

_NOTHING: Final[Mapping[str, Any]] = {}
_IMPLIED: Final = {ADMIN: ALL, **{scope: (MCP, scope) for scope in (TOOLS, RESOURCES, PROMPTS)}}
BY_METHOD: Final = {
    "tools/call": TOOLS,
    **dict.fromkeys(("tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"), TOOLS),
    **dict.fromkeys(("resources/read", "resources/subscribe", "resources/unsubscribe"), RESOURCES),
    "prompts/get": PROMPTS,
    **dict.fromkeys(
        (
            "initialize",
            "ping",
            "server/discover",
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "logging/setLevel",
            # The scope also depends on the params: see ``needed``.
            "subscriptions/listen",
            "completion/complete",
        ),
        MCP,
    ),
}


def widened(scopes: Iterable[str]) -> frozenset[str]:
    """Return ``scopes`` together with the narrower scopes that they imply (AUTH-11)."""
    return frozenset(implied for scope in scopes for implied in _IMPLIED.get(scope, (scope,)))


def needed(method: str, params: Mapping[str, Any] = _NOTHING) -> str:
    """Return the scope that a request needs. A method of an extension runs code of an app: ``mcp:tools``."""
    if method == "completion/complete":
        return _of_completion(params)
    if method == "subscriptions/listen":
        return _of_subscription(params)
    return BY_METHOD.get(method, TOOLS)


def _of_completion(params: Mapping[str, Any]) -> str:
    """Return the scope for completing a prompt or resource, because suggested values are data of it."""
    ref = params.get("ref")
    kind = ref.get("type") if isinstance(ref, dict) else None
    return {"ref/prompt": PROMPTS, "ref/resource": RESOURCES}.get(kind if isinstance(kind, str) else "", MCP)


def _of_subscription(params: Mapping[str, Any]) -> str:
    """Return the scope of ``resources/subscribe`` if the filter contains resources, else ``mcp``."""
    asked = params.get("notifications")
    return RESOURCES if isinstance(asked, dict) and asked.get("resourceSubscriptions") else MCP


def in_order(scopes: Iterable[str]) -> str:
    """Return the known ``scopes`` as one ``scope`` value in a fixed order."""
    held = frozenset(scopes)
    return " ".join(scope for scope in ALL if scope in held)


def descriptions_for(user: str) -> dict[str, str]:
    """Return the texts for a credential that acts as another person. ``user`` is the name of that person."""
    return {
        **DESCRIPTIONS,
        TOOLS: f"Call tools as {user}, including tools that change or send data",
        ADMIN: f"Administer this server with the permissions of {user}: catalogue, keys, calls and figures",
    }
