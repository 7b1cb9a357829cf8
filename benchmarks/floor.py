"""The floor: a minimal ASGI application that answers every request with one fixed JSON body."""

from __future__ import annotations

from typing import Any

BODY = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}],"isError":false}}'
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())],
}
END = {"type": "http.response.body", "body": BODY}


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Read only the body and send a fixed response."""
    if scope["type"] != "http":
        return
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send(START)
    await send(END)
