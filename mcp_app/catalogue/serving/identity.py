"""The identity of a tool: what decides which code runs under its name, and with which fixed arguments."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from mcp_app.models import Tool


def identity_of(row: Tool) -> str:
    """Return a digest that changes when another tool, or another definition, runs under this row's name.

    Words for people, permissions and limits do not count. The definition is the stored one, so that processes
    with different versions of the code agree about a row. An entry that was deleted and made again differs.
    """
    base = row.preset_of
    parts = [_code(row), None if base is None else _code(base), row.fixed_arguments]
    # Not by orjson, which has no integers beyond 64 bits.
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _code(row: Tool) -> list[Any]:
    return [row.pk, row.name, row.source, row.code_path, row.definition_hash]
