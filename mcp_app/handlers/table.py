"""The requests that clients may send, with and without sessions, and their handlers.

A new method is added here, to ``protocol.messages.methods.REQUESTS`` and to ``protocol.scopes.BY_METHOD``.
The transports themselves serve ``initialize`` and ``subscriptions/listen``.
"""

from collections.abc import Mapping

from mcp_app.conf import Settings
from mcp_app.handlers import completion, core_tasks, extensions, lifecycle, logging, prompts, resources, tools
from mcp_app.handlers.context import Handler, QuickHandler
from mcp_app.protocol.errors import InvalidRequest, McpError, MethodNotFound
from mcp_app.protocol.versions import SERVED, is_modern

BOTH: dict[str, Handler] = {
    "tools/list": tools.list_tools,
    "tools/call": tools.call_tool,
    "prompts/list": prompts.list_prompts,
    "prompts/get": prompts.get_prompt,
    "resources/list": resources.list_resources,
    "resources/templates/list": resources.list_templates,
    "resources/read": resources.read,
    "completion/complete": completion.complete,
}

# ``initialize`` is missing, because it has no session yet. The dispatcher serves it.
TABLE: dict[str, Handler] = {
    **BOTH,
    "ping": lifecycle.ping,
    "resources/subscribe": resources.subscribe,
    "resources/unsubscribe": resources.unsubscribe,
    "logging/setLevel": logging.set_level,
}

# Requests of 2026-07-28 are independent, so methods that open, change or keep a session do not exist.
MODERN: dict[str, Handler] = {**BOTH, "server/discover": lifecycle.discover}

# Handlers that can answer synchronously. They return None for requests that they cannot answer.
QUICK: dict[str, QuickHandler] = {
    "ping": lifecycle.ping,
    "tools/list": tools.list_built_tools,
    "tools/call": tools.call_inline,
    "prompts/list": prompts.list_prompts,
    "resources/list": resources.list_resources,
    "resources/templates/list": resources.list_templates,
}

MODERN_QUICK: dict[str, QuickHandler] = {
    "server/discover": lifecycle.discover,
    **{method: handler for method, handler in QUICK.items() if method in MODERN},
}


def by_version(settings: Settings) -> Mapping[str, Mapping[str, Handler]]:
    """Return the methods served at each revision, including core tasks and methods of extensions."""
    return {
        version: {
            **(MODERN if is_modern(version) else TABLE),
            **(core_tasks.METHODS if core_tasks.served(settings, version) else {}),
            **extensions.methods(settings, version),
        }
        for version in SERVED
    }


def quick_by_version() -> dict[str, dict[str, QuickHandler]]:
    """Return the methods answered synchronously at each revision. The caller may change the dicts."""
    return {version: dict(MODERN_QUICK if is_modern(version) else QUICK) for version in SERVED}


def unknown(method: str) -> McpError:
    """Return the error for an unknown method."""
    if method == "initialize":
        return InvalidRequest("'initialize' must be sent alone and starts a new session.", http_status=400)
    return MethodNotFound(f"Method not found: {method[:128]}")
