"""An MCP server as a Django app. This module is the public API. Each name is imported on its first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_app.catalogue.definitions.content import (
        Annotations,
        Audio,
        CannotAsk,
        File,
        Image,
        Link,
        Message,
        Text,
        ToolError,
        ToolResult,
    )
    from mcp_app.catalogue.definitions.decorators import prompt, resource, tool
    from mcp_app.catalogue.definitions.extensions import extension
    from mcp_app.catalogue.exposure.expose import expose
    from mcp_app.execution.calls.context import Context
    from mcp_app.execution.questions.message_result import CreateMessageResult
    from mcp_app.sessions.resource_updates import anotify_resource_updated, notify_resource_updated

_HOMES = {
    "Annotations": "mcp_app.catalogue.definitions.content",
    "Audio": "mcp_app.catalogue.definitions.content",
    "CannotAsk": "mcp_app.catalogue.definitions.content",
    "Context": "mcp_app.execution.calls.context",
    "CreateMessageResult": "mcp_app.execution.questions.message_result",
    "File": "mcp_app.catalogue.definitions.content",
    "Image": "mcp_app.catalogue.definitions.content",
    "Link": "mcp_app.catalogue.definitions.content",
    "Message": "mcp_app.catalogue.definitions.content",
    "Text": "mcp_app.catalogue.definitions.content",
    "ToolError": "mcp_app.catalogue.definitions.content",
    "ToolResult": "mcp_app.catalogue.definitions.content",
    "anotify_resource_updated": "mcp_app.sessions.resource_updates",
    "expose": "mcp_app.catalogue.exposure.expose",
    "extension": "mcp_app.catalogue.definitions.extensions",
    "notify_resource_updated": "mcp_app.sessions.resource_updates",
    "prompt": "mcp_app.catalogue.definitions.decorators",
    "resource": "mcp_app.catalogue.definitions.decorators",
    "tool": "mcp_app.catalogue.definitions.decorators",
}

__all__ = [
    "Annotations",
    "Audio",
    "CannotAsk",
    "Context",
    "CreateMessageResult",
    "File",
    "Image",
    "Link",
    "Message",
    "Text",
    "ToolError",
    "ToolResult",
    "anotify_resource_updated",
    "expose",
    "extension",
    "notify_resource_updated",
    "prompt",
    "resource",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Import a public name on its first use: Django imports this package before models may be loaded."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
