"""The identity of a tool: what decides which code runs under its name, and with which fixed arguments."""

from __future__ import annotations

import hashlib
import json

from mcp_app.catalogue.sources.registry import source_of
from mcp_app.models import Tool


def identity_of(row: Tool) -> str:
    """Return a digest that changes when another tool, or another definition, runs under this row's name.

    Words for people, permissions and limits do not count. The definition is the stored one, so that processes
    with different versions of the code agree about a row. An entry that was deleted and made again differs.
    """
    # Not by orjson, which has no integers beyond 64 bits.
    return hashlib.sha256(json.dumps(source_of(row).identity(row), sort_keys=True).encode()).hexdigest()
