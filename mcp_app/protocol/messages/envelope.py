"""The era of a message, and the ``_meta`` envelope that every request of the modern era contains.

Each message belongs to an era. A connection does not (requirements section 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from mcp_app.protocol.capabilities import MEMO_BYTES
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.logging import LEVELS
from mcp_app.protocol.messages.progress import check_progress_token
from mcp_app.protocol.versions import is_modern

VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
VERSION_HEADER: Final = b"mcp-protocol-version"


def names_modern(fields: Mapping[bytes, bytes], params: Mapping[str, Any]) -> bool:
    """Return True if the ``_meta`` or the version header of a message names a modern version."""
    meta = params.get("_meta")
    named = meta.get(VERSION) if type(meta) is dict else None
    # A version of the wrong type counts as modern, so that the error of the modern era is returned.
    if named is not None and (type(named) is not str or is_modern(named)):
        return True
    return VERSION_HEADER in fields and is_modern(header_version(fields))


def header_version(fields: Mapping[bytes, bytes]) -> str:
    """Return the version in the header, or "" without the header."""
    return fields.get(VERSION_HEADER, b"").strip(b" \t").decode("latin-1")


@dataclass(slots=True, eq=False)
class Envelope:
    """The members of ``_meta`` that replace the handshake. ``log_level`` is empty if it is absent.

    Requests share instances, so the members must not be changed. ``said`` is the encoded source of the
    members.
    """

    said: bytes
    version: str
    capabilities: dict[str, Any]
    client_info: dict[str, Any]
    log_level: str


def read(params: Mapping[str, Any]) -> Envelope:
    """Return the envelope of a request. Raise InvalidParams for a missing or wrong member (META-01)."""
    meta = params.get("_meta")
    if type(meta) is not dict:
        raise InvalidParams(f"The request needs the member '_meta', an object with {VERSION!r}.")
    said = [meta.get(VERSION), meta.get(CLIENT_CAPABILITIES), meta.get(CLIENT_INFO)]
    if LOG_LEVEL in meta:
        said.append(meta[LOG_LEVEL])
    # Most requests come from a few kinds of clients, whose members never change.
    key = orjson.dumps(said)
    found = _read(key) if len(key) <= MEMO_BYTES else _read.__wrapped__(key)
    if "progressToken" in meta:
        check_progress_token(meta["progressToken"])
    return found


@lru_cache(maxsize=256)
def _read(said: bytes) -> Envelope:
    version, capabilities, info, *level = orjson.loads(said)
    if type(version) is not str:
        raise InvalidParams(f"'_meta' needs the member {VERSION!r}, a string.")
    if type(capabilities) is not dict:
        raise InvalidParams(f"'_meta' needs the member {CLIENT_CAPABILITIES!r}, an object.")
    if level and level[0] not in LEVELS:
        raise InvalidParams(f"The member {LOG_LEVEL!r} must be one of: {', '.join(LEVELS)}.")
    # META-02, META-03: the client info is only displayed, so it is dropped if it is invalid.
    return Envelope(
        said, version, capabilities, info if type(info) is dict else {}, level[0] if level else ""
    )
