"""FastMCP with its OpenAPI provider as a peer: the same document, sessions on, JSON responses."""

from __future__ import annotations

import os

import httpx2
from fastmcp import FastMCP

from benchmarks.http_tools.document import document

_ORIGIN = os.environ["BENCH_API"]
server = FastMCP.from_openapi(
    document(_ORIGIN), client=httpx2.AsyncClient(base_url=_ORIGIN, trust_env=False), name="bench"
)
application = server.http_app(json_response=True)
