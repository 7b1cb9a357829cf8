"""Takes secrets out of messages before anything is kept (S14, SEC-09); knows nothing of where they go."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import orjson

MARK = "[redacted]"
# Protocol members whose names end like a secret's but which only name a position or a running request.
HARMLESS = frozenset({"progresstoken", "nextcursor", "maxtokens"})
CREDENTIALS = (b"bearer ", b"basic ", b"mcp_", b"mcpat_", b"mcprt_", b"mcpac_", b"mcpcs_", b"@")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}|\bmcp(?:at|rt|ac|cs)?_[A-Za-z0-9_-]{16,}")
# Up to the last @ before the path: a password may hold one itself. The user may be missing, as for Redis.
_URL_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/\s]+(?=@)")
_UPPER = bytes(range(ord("A"), ord("Z") + 1))
_LOWERING = bytes.maketrans(_UPPER, _UPPER.lower())
# The look-behind lets each word be tried once only, however long it is.
_PAIR = re.compile(r"(?<![\w-])([\w-]{1,64})=([^\s&;#\"']+)")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _by_root(letters: dict[bytes, bytes]) -> dict[bytes, dict[bytes, bytes]]:
    """Words with their letters, by what is searched for first: one search for several, mostly in vain.

    That is three letters which more than two words share, or else all letters of a word.
    """
    threes = {word: {piece[at : at + 3] for at in range(len(piece) - 2)} for word, piece in letters.items()}
    shared = Counter(three for each in threes.values() for three in each)
    found: dict[bytes, dict[bytes, bytes]] = {}
    for word, piece in letters.items():
        best = max(sorted(threes[word]), key=shared.__getitem__, default=piece)
        found.setdefault(best if shared[best] > 2 else piece, {})[word] = piece
    return found


class Redactor:
    """Replaces values whose member name is secret, and credentials inside text.

    ``names`` are compared without case, dashes and underscores, and also as the end of a longer name, so
    ``token`` covers ``access_token`` and ``refreshToken``.
    """

    __slots__ = ("_dropped", "_names", "_roots")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(sorted({_plain(name) for name in names}))
        # A few plain searches for letters decide whether a message needs the slow walk: nearly none does.
        words = (*(name.encode() for name in self._names), *CREDENTIALS)
        letters = {word: word.translate(None, b" _-") for word in words}
        self._roots = _by_root(letters)
        # Fewer bytes are left to search when what is in no such word is dropped from the text first.
        kept = frozenset(b"".join(letters.values()))
        self._dropped = bytes(byte for byte in range(256) if _LOWERING[byte] not in kept)

    def is_secret(self, name: str) -> bool:
        """Whether the value of a member called ``name`` must not be kept."""
        plain = _plain(name)
        return plain not in HARMLESS and plain.endswith(self._names)

    def text(self, value: str) -> str:
        """``value`` without bearer credentials, API keys, and passwords and secret parameters in URLs."""
        value = _URL_PASSWORD.sub(rf"\1:{MARK}", _BEARER.sub(MARK, value))
        return _PAIR.sub(self._pair, value) if "=" in value else value

    def _pair(self, found: re.Match[str]) -> str:
        return f"{found[1]}={MARK}" if self.is_secret(found[1]) else found[0]

    def value(self, value: Any) -> Any:
        """A copy of a JSON value without its secrets."""
        if isinstance(value, dict):
            return {
                key: MARK if self.is_secret(key) and item not in (None, "") else self.value(item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def is_suspect(self, encoded: bytes) -> bool:
        """Whether secrets are possible at all in some text, such as many messages joined."""
        letters = encoded.translate(_LOWERING, self._dropped)
        found = [
            word
            for root, words in self._roots.items()
            if root in letters
            for word, piece in words.items()
            if piece in letters
        ]
        if not found:
            return False
        lower = encoded.lower()
        plain = lower.translate(None, b"-_")
        return any(word in (lower if word in CREDENTIALS else plain) for word in found)

    def message(self, encoded: bytes, limit: int, *, clean: bool = False) -> str:
        """One encoded JSON message as text without secrets, cut to about ``limit`` bytes.

        A message that is cut says so; a message that is not JSON is treated as plain text. ``clean``: it was
        found not suspect before.
        """
        if not clean and self.is_suspect(encoded):
            try:
                encoded = orjson.dumps(self.value(orjson.loads(encoded)))
            except orjson.JSONDecodeError:
                encoded = self.text(encoded.decode("utf-8", "replace")).encode()
        if len(encoded) <= limit:
            return encoded.decode("utf-8", "replace")
        return encoded[:limit].decode("utf-8", "ignore") + f"… [{len(encoded)} bytes, cut]"
