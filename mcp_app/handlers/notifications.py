"""Handlers of client notifications. Unknown notifications are ignored (RPC-06)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from mcp_app.handlers.context import Params, Services
from mcp_app.protocol import dialects
from mcp_app.sessions.session import LiveSession


async def initialized(services: Services, session: LiveSession, params: Params) -> None:
    """Mark the session as initialized. From now on the server may send messages (LIFE-03)."""
    if not session.initialized:
        await services.change_session(session, initialized="1")


async def cancelled(services: Services, session: LiveSession, params: Params) -> None:
    """Stop a running request of this session in any process (CAN-01). Ignore other requests (CAN-03)."""
    await _cancel(services, session, params.get("requestId"), params.get("reason"))


async def cancel_request(services: Services, session: LiveSession, params: Params) -> None:
    """Stop a running request. ``$/cancelRequest`` is an older form of ``cancelled`` (DLG-004-01)."""
    await _cancel(services, session, params.get("id"), None)


async def _cancel(services: Services, session: LiveSession, request_id: object, reason: object) -> None:
    if type(request_id) not in (str, int):
        return
    words = reason[:200] if isinstance(reason, str) else ""
    if not services.calls.cancel(session.id, request_id, words):  # type: ignore[arg-type]
        # The row is changed first, because it takes effect even if the broadcast is lost (R25).
        if await services.background.cancel(session.id, request_id, words):  # type: ignore[arg-type]
            return
        payload = {"session": session.id, "request_id": request_id, "reason": words}
        await services.streams.hub.publish("cancel", payload)


Taken = Callable[[Services, LiveSession, Params], Awaitable[None]]
TABLE: dict[str, Taken] = {
    "notifications/initialized": initialized,
    "notifications/cancelled": cancelled,
}
# Older names, which are accepted if the settings list them. The dispatcher handles ``exit``, which ends
# the session.
DIALECTS: dict[str, Taken] = {
    dialects.INITIALIZED: initialized,
    dialects.CANCEL_REQUEST: cancel_request,
}


def table(accepted: Collection[str]) -> dict[str, Taken]:
    """Return the handlers of notifications, including handlers of the accepted dialects."""
    return TABLE | {name: taken for name, taken in DIALECTS.items() if name in accepted}
