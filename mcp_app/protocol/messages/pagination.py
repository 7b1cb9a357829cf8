"""List cursors. They are opaque to clients, signed by the server, and valid in every process."""

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
    """A codec for cursors with one secret. It refuses a cursor for another list, scope or server (S17)."""

    def __init__(self, secret: bytes) -> None:
        """Derive the key for cursors from ``secret``, the secret of the deployment."""
        if not secret:
            raise ValueError("The secret for cursors must not be empty.")
        self._key = hmac.digest(secret, b"mcp list cursor", "sha256")

    def encode(self, kind: str, after: str, scope: str, generation: int) -> str:
        """Return a cursor for the page that follows the entry ``after`` (PAGE-03).

        ``scope`` identifies the caller's view of the list, and ``generation`` the state of the catalogue.
        The result is never empty: an empty cursor is legal, but clients easily treat it as no cursor
        (PAGE-01).
        """
        payload = f"{generation}\n{after}".encode()
        return urlsafe_b64encode(self._tag(kind, scope, payload) + payload).rstrip(b"=").decode()

    def decode(self, kind: str, scope: str, cursor: object) -> tuple[str, int]:
        """Return ``(after, generation)`` from a cursor. Raise InvalidParams (PAGE-02)."""
        if not isinstance(cursor, str):
            raise InvalidParams("The cursor must be a string.")
        raw = _decode_strictly(cursor)
        tag, payload = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(kind, scope, payload)):
            raise InvalidParams(_REFUSAL)
        generation, _, after = payload.decode().partition("\n")
        return after, int(generation)

    def _tag(self, kind: str, scope: str, payload: bytes) -> bytes:
        # The lengths are included, so that two different triples never result in the same bytes.
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
    # The decoder ignores some bits of the last character. Accept only the spelling that ``encode`` writes.
    if urlsafe_b64encode(raw).rstrip(b"=").decode() != cursor:
        raise InvalidParams(_REFUSAL)
    return raw
