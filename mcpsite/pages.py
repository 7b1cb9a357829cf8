"""Django's pages. While the database is unreachable, they respond 503 instead of 500."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

AWAY = b"The database does not answer now. Try again in a moment.\n"
RETRY_SECONDS = b"2"
_FAULT = "mcp.database_fault"


def pages(django: Application) -> Application:
    """Wrap Django's application. Replace those 500 responses that a database fault caused."""

    async def serve(scope: Message, receive: Receive, send: Send) -> None:
        refused = False

        async def answer(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] == 500 and _FAULT in scope:
                refused = True
                await _refuse(send)
            elif not refused:
                await send(message)

        await django(scope, receive, answer)

    return serve


async def _refuse(send: Send) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(AWAY)).encode()),
        (b"retry-after", RETRY_SECONDS),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": AWAY})


def _mark_fault(request: Any = None, **_: Any) -> None:
    # The type of the error is known only here. Django's response does not contain it.
    if isinstance(sys.exc_info()[1], (OperationalError, InterfaceError)):
        request.scope[_FAULT] = True


def is_database_fault(request: Any) -> bool:
    """Return True if the request failed because the database is unreachable."""
    return _FAULT in getattr(request, "scope", ())


got_request_exception.connect(_mark_fault)
