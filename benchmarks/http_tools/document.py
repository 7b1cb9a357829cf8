"""The OpenAPI document that both servers offer, and the web API behind it. Imports nothing of the project."""

from __future__ import annotations

from typing import Any

BODY = b'{"id":"7","text":"hello"}'
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())],
}
END = {"type": "http.response.body", "body": BODY}


def document(origin: str, number: int = 1) -> dict[str, Any]:
    """Return a document of ``number`` operations. The first one is ``look_up``."""
    text = {"type": "string"}
    parameters = [
        {"name": "id", "in": "path", "required": True, "schema": text},
        {"name": "text", "in": "query", "schema": text},
    ]
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": {"type": "object"}}}}}
    paths = {
        f"/{'orders' if not each else f'things/{each}'}/{{id}}": {
            "get": {
                "operationId": "look_up" if not each else f"look_up_thing_{each}",
                "summary": "Look up an order of the shop by its number.",
                "parameters": parameters,
                "responses": answer,
            }
        }
        for each in range(number)
    }
    info = {"title": "Shop", "version": "1"}
    return {"openapi": "3.0.3", "info": info, "servers": [{"url": origin}], "paths": paths}


async def api(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer every request with the same JSON."""
    if scope["type"] != "http":
        return
    await receive()
    await send(START)
    await send(END)
