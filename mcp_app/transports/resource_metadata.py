"""The protected resource metadata (RFC 9728): the authorization server to use (AUTH-01, AUTH-02).

Clients fail without the metadata. It is therefore static, uses no database and has no rate limits (AUTH-24).
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import orjson

from mcp_app.auth.own_addresses import described_at, issuer, requested, resource, server_at
from mcp_app.protocol.scopes import BASIC
from mcp_app.transports.streamable_http.answers import Send

# The same body as for other paths below /.well-known/.
NOT_THERE = b'{"error": "not_found"}'
CORS = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, HEAD"),
    (b"access-control-allow-headers", b"authorization, content-type, mcp-protocol-version"),
    (b"access-control-max-age", b"600"),
)


async def resource_metadata(scope: MutableMapping[str, Any], _: Any, send: Send) -> None:
    """Answer one request for the metadata of the resource named by its path."""
    method, status, body = scope["method"], 200, b""
    headers = [*CORS, (b"cache-control", b"public, max-age=300"), (b"vary", b"host")]
    path = described_at(scope["path"])
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    if not path or not issuer(host):
        status, body = 404, NOT_THERE
    elif method == "OPTIONS":
        status = 204
    elif method not in ("GET", "HEAD"):
        status, headers = 405, [*headers, (b"allow", b"GET, HEAD, OPTIONS")]
    else:
        body = orjson.dumps(described(host, path))
    if body:
        headers.append((b"content-type", b"application/json"))
    if status != 204:
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})


def described(host: str, path: str) -> dict[str, Any]:
    """Return the metadata document. Its ``resource`` has the host that the client used."""
    return {
        "resource": resource(host, path),
        "authorization_servers": [issuer(host)],
        "scopes_supported": requested(BASIC).split(),
        "bearer_methods_supported": ["header"],
        "resource_name": server_at(path).label,
    }
