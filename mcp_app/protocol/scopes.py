"""The scopes of OAuth tokens: what each lets a client do, and which one a request needs (AUTH-10, AUTH-50).

A scope is a ceiling, never a right: a token does what its scopes allow and its user may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

MCP: Final = "mcp"
TOOLS: Final = "mcp:tools"
RESOURCES: Final = "mcp:resources"
PROMPTS: Final = "mcp:prompts"
ADMIN: Final = "mcp:admin"

# In the order in which people and clients see them; the texts are shown on the consent page.
WORDS: Final = {
    MCP: "Connect, and see which tools, resources and prompts there are",
    TOOLS: "Call tools as you: what they read, change or send is done in your name",
    RESOURCES: "Read resources",
    PROMPTS: "Use prompts",
    ADMIN: "Administer this server as far as you may: its catalogue, keys, calls and figures",
}
ALL: Final = tuple(WORDS)
EVERY: Final = " ".join(ALL)
# The scopes a client should request first: clients that cannot extend them later work with these.
BASIC: Final = (MCP, TOOLS, RESOURCES, PROMPTS)

_NOTHING: Final[Mapping[str, Any]] = {}
_IMPLIED: Final = {ADMIN: ALL, **{scope: (MCP, scope) for scope in (TOOLS, RESOURCES, PROMPTS)}}
_BY_METHOD: Final = {
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
            # And what they name: see below.
            "subscriptions/listen",
            "completion/complete",
        ),
        MCP,
    ),
}


def widened(scopes: Iterable[str]) -> frozenset[str]:
    """What a token with ``scopes`` may be used for: broader scopes satisfy narrower ones (AUTH-11)."""
    return frozenset(implied for scope in scopes for implied in _IMPLIED.get(scope, (scope,)))


def needed(method: str, params: Mapping[str, Any] = _NOTHING) -> str:
    """The scope that a request needs; methods of extensions run code of apps, as tools do."""
    if method == "completion/complete":
        return _of_completion(params)
    if method == "subscriptions/listen":
        return _of_subscription(params)
    return _BY_METHOD.get(method, TOOLS)


def _of_completion(params: Mapping[str, Any]) -> str:
    """Suggested values are data: they need what using the prompt or reading the resource does."""
    ref = params.get("ref")
    kind = ref.get("type") if isinstance(ref, dict) else None
    return {"ref/prompt": PROMPTS, "ref/resource": RESOURCES}.get(kind if isinstance(kind, str) else "", MCP)


def _of_subscription(params: Mapping[str, Any]) -> str:
    """To hear of changes of resources is to subscribe to them, as ``resources/subscribe`` does."""
    asked = params.get("notifications")
    return RESOURCES if isinstance(asked, dict) and asked.get("resourceSubscriptions") else MCP


def in_order(scopes: Iterable[str]) -> str:
    """The known ones of ``scopes`` as one ``scope`` value, always in the same order."""
    held = frozenset(scopes)
    return " ".join(scope for scope in ALL if scope in held)


def words_of(user: str) -> dict[str, str]:
    """The same where a credential is made that does not act as the reader; ``user`` is whom it acts as."""
    return {
        **WORDS,
        TOOLS: f"Call tools as {user}: what they read, change or send is done in that user's name",
        ADMIN: f"Administer this server as far as {user} may: its catalogue, keys, calls and figures",
    }
