"""The identity of a tool: its code and fixed arguments."""

from __future__ import annotations

import hashlib
import json

from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.models import Tool


def identity_of(row: Tool) -> str:
    """Return a digest of the code and arguments that run under this row's name.

    Texts, permissions and limits are not part of the digest. The digest uses the stored definition, so that
    processes with different code versions agree. A recreated entry has a different digest.
    """
    # orjson is not used because it cannot encode integers above 64 bits.
    return hashlib.sha256(json.dumps(source_of(row).identity(row), sort_keys=True).encode()).hexdigest()
