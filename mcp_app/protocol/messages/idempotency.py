"""The idempotency key of ``tools/call``: a member of ``_meta`` or an HTTP header.

The specification has no such key since 2026-07-28 removed resumable streams. The header is that of
draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages import jsonrpc

MEMBER: Final = "django-mcp/idempotencyKey"
HEADER: Final = b"idempotency-key"
LONGEST_KEY: Final = 200
_METHOD: Final = "tools/call"


def is_keyed(message: jsonrpc.Request) -> bool:
    """Return True for a ``tools/call`` request with a key."""
    meta = message.params.get("_meta")
    return message.method == _METHOD and type(meta) is dict and MEMBER in meta


def key_of(meta: Mapping[str, Any]) -> str:
    """Return the key in a request's ``_meta``, or "". Raise InvalidParams for a key that cannot be used."""
    if MEMBER not in meta:
        return ""
    key = meta[MEMBER]
    if type(key) is not str or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise InvalidParams(f"{MEMBER} must be a string of 1 to {LONGEST_KEY} printable characters.")
    return key


def from_header(message: jsonrpc.Request, fields: Mapping[bytes, bytes]) -> None:
    """Copy the key in the HTTP header to the ``_meta`` of a ``tools/call`` request.

    Raise InvalidParams if ``_meta`` already has another key.
    """
    value = fields.get(HEADER)
    if value is None or message.method != _METHOD:
        return
    # The draft writes the key as a structured string, with quotes. Most clients send it without them.
    key = value.decode("latin-1").strip()
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    meta = message.params.get("_meta")
    meta = meta if type(meta) is dict else {}
    if meta.get(MEMBER, key) != key:
        raise InvalidParams(f"The header Idempotency-Key and {MEMBER} have different values: send one.")
    message.params["_meta"] = {**meta, MEMBER: key}
