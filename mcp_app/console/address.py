"""The address of the console's WebSocket, and the rejection of other WebSockets. Does not import Channels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings
from django.urls import NoReverseMatch, get_script_prefix, reverse

Scope = MutableMapping[str, Any]


def is_socket(scope: Scope) -> bool:
    """Return True if a WebSocket was opened to the console's address in the project's URL configuration."""
    try:
        pages = reverse("mcp_console:sessions").removeprefix(get_script_prefix().rstrip("/"))
    except NoReverseMatch:
        return False
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path.removeprefix((settings.FORCE_SCRIPT_NAME or "").rstrip("/")) == f"{pages}ws"


async def refuse(receive: Callable[[], Awaitable[Scope]], send: Callable[[Scope], Awaitable[None]]) -> None:
    """Reject a WebSocket before it is accepted. The client receives 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008})
