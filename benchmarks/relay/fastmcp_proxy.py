"""FastMCP's proxy as a peer: sessions on, JSON responses."""

from __future__ import annotations

import os

from fastmcp.server import create_proxy

application = create_proxy(os.environ["BENCH_UPSTREAM"], name="bench").http_app(json_response=True)
