"""List cursors: opaque to clients, signed by us, valid in any process; it knows no catalogue."""

from __future__ import annotations

import binascii
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from mcp_app.protocol.errors import InvalidParams

MAX_CURSOR: Final = 16 * 1024

_TAG_BYTES: Final = 16
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]+")
_REFUSAL: Final = "The cursor is not valid for this list. Start again without a cursor."


class CursorCodec:
    """Writes and reads cursors with one secret; one of another list, scope or server is refused (S17)."""

    def __init__(self, secret: bytes) -> None:
        """``secret`` is the deployment's; a key of its own is derived from it for this use."""
        if not secret:
            raise ValueError("The secret for cursors must not be empty.")
        self._key = hmac.digest(secret, b"mcp list cursor", "sha256")

    def encode(self, kind: str, after: str, scope: str, generation: int) -> str:
        """A cursor for the page that follows the entry ``after`` (PAGE-03).

        ``scope`` says whose view of the list it is, ``generation`` of which state of the catalogue. Never
        empty, because an empty cursor is legal on the wire and easily taken for none (PAGE-01).
        """
        payload = f"{generation}\n{after}".encode()
        return urlsafe_b64encode(self._tag(kind, scope, payload) + payload).rstrip(b"=").decode()

    def decode(self, kind: str, scope: str, cursor: object) -> tuple[str, int]:
        """``(after, generation)`` of a cursor for this kind and scope. Raises InvalidParams (PAGE-02)."""
        if not isinstance(cursor, str):
            raise InvalidParams("The cursor must be a string.")
        raw = _decode_strictly(cursor)
        tag, payload = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(kind, scope, payload)):
            raise InvalidParams(_REFUSAL)
        generation, _, after = payload.decode().partition("\n")
        return after, int(generation)

    def _tag(self, kind: str, scope: str, payload: bytes) -> bytes:
        # Lengths in front, so that no two different triples are the same bytes.
        parts = (kind.encode(), scope.encode(), payload)
        message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self._key, message, "sha256")[:_TAG_BYTES]


def _decode_strictly(cursor: str) -> bytes:
    if len(cursor) > MAX_CURSOR or not _ALPHABET.fullmatch(cursor):
        raise InvalidParams(_REFUSAL)
    try:
        raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except binascii.Error:
        raise InvalidParams(_REFUSAL) from None
    # The last character has bits that decoding ignores: only our own spelling counts.
    if urlsafe_b64encode(raw).rstrip(b"=").decode() != cursor:
        raise InvalidParams(_REFUSAL)
    return raw
