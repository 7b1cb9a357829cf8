"""The floor: the least an ASGI application can do, answering one fixed JSON body to every request."""

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
    """Reads nothing but the body, decides nothing, stores nothing."""
    if scope["type"] != "http":
        return
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send(START)
    await send(END)
