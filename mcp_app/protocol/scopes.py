"""The scopes of OAuth tokens: texts, implications, and the scope of each method (AUTH-10, AUTH-50).

A scope is an upper limit, never a permission: a token needs both its scopes and its user's permissions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

MCP: Final = "mcp"
TOOLS: Final = "mcp:tools"
RESOURCES: Final = "mcp:resources"
PROMPTS: Final = "mcp:prompts"
ADMIN: Final = "mcp:admin"

# In display order. The consent page shows the texts.
WORDS: Final = {
    MCP: "Connect, and see which tools, resources and prompts there are",
    TOOLS: "Call tools as you: what they read, change or send is done in your name",
    RESOURCES: "Read resources",
    PROMPTS: "Use prompts",
    ADMIN: "Administer this server as far as you may: its catalogue, keys, calls and figures",
}
ALL: Final = tuple(WORDS)
EVERY: Final = " ".join(ALL)
# The scopes a client should request first. Clients that cannot extend them later work with these.
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
            # Also depends on the params: see ``needed``.
            "subscriptions/listen",
            "completion/complete",
        ),
        MCP,
    ),
}


def widened(scopes: Iterable[str]) -> frozenset[str]:
    """Return ``scopes`` and the narrower scopes that they imply (AUTH-11)."""
    return frozenset(implied for scope in scopes for implied in _IMPLIED.get(scope, (scope,)))


def needed(method: str, params: Mapping[str, Any] = _NOTHING) -> str:
    """Return the scope that a request needs; methods of extensions run code of apps: ``mcp:tools``."""
    if method == "completion/complete":
        return _of_completion(params)
    if method == "subscriptions/listen":
        return _of_subscription(params)
    return BY_METHOD.get(method, TOOLS)


def _of_completion(params: Mapping[str, Any]) -> str:
    """Return the scope of the completed prompt or resource: suggested values are data."""
    ref = params.get("ref")
    kind = ref.get("type") if isinstance(ref, dict) else None
    return {"ref/prompt": PROMPTS, "ref/resource": RESOURCES}.get(kind if isinstance(kind, str) else "", MCP)


def _of_subscription(params: Mapping[str, Any]) -> str:
    """Return the scope of ``resources/subscribe`` if the filter names resources, else ``mcp``."""
    asked = params.get("notifications")
    return RESOURCES if isinstance(asked, dict) and asked.get("resourceSubscriptions") else MCP


def in_order(scopes: Iterable[str]) -> str:
    """Return the known ``scopes`` as one ``scope`` value in a fixed order."""
    held = frozenset(scopes)
    return " ".join(scope for scope in ALL if scope in held)


def words_of(user: str) -> dict[str, str]:
    """Return the texts for a credential that acts as another person; ``user`` is that user's name."""
    return {
        **WORDS,
        TOOLS: f"Call tools as {user}: what they read, change or send is done in that user's name",
        ADMIN: f"Administer this server as far as {user} may: its catalogue, keys, calls and figures",
    }
