"""The identity of a tool: its code and fixed arguments."""

from __future__ import annotations

import hashlib
import json

from mcp_app.catalogue.sources.registry import source_of
from mcp_app.models import Tool


def identity_of(row: Tool) -> str:
    """Return a digest that changes with the tool or definition that runs under this row's name.

    Texts, permissions and limits do not count. It uses the stored definition, so that processes with
    different code versions agree. A deleted and recreated entry differs.
    """
    # Not orjson, which is limited to 64-bit integers.
    return hashlib.sha256(json.dumps(source_of(row).identity(row), sort_keys=True).encode()).hexdigest()
