"""Takes secrets out of messages before anything is kept (S14, SEC-09); knows nothing of where they go."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import orjson

MARK = "[redacted]"
# Protocol members whose names end like a secret's but which only name a position or a running request.
HARMLESS = frozenset({"progresstoken", "nextcursor", "maxtokens"})
CREDENTIALS = (b"bearer", b"basic", b"mcp_", b"mcpat_", b"mcprt_", b"mcpac_", b"mcpcs_")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}|\bmcp(?:at|rt|ac|cs)?_[A-Za-z0-9_-]{16,}")
# Up to the last @ before the path: a password may hold one itself. The user may be missing, as for Redis.
_URL_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/\s]+(?=@)")
# The same in encoded text; an @ alone is mostly that of an e-mail address.
_ENCODED_PASSWORD = re.compile(rb"://[^/@\s:]*:[^/\s]+@")
# Escaped letters hide words from a search. So does the Kelvin sign, which is a k in lower case.
_ESCAPED = re.compile(rb"\\u(?:00[2-7]|212[aA])")
_KELVIN = "\u212a".encode()
# A string is cut so far behind what is kept of it that each secret that begins before is recognized, and then
# shortened by more than the begin of a secret has that is not.
_BEHIND, _UNFINISHED = 4_096, 32
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


def as_far_as_kept(message: bytes, limit: int) -> bytes:
    """What is written of a message: a secret behind it needs no search, which takes long in a large one."""
    if len(message) <= limit:
        return message
    # Only the @ behind it makes a password of what stands in a URL, and it may come after the cut.
    return message[:limit] + (b"@" if b"@" in message else b"")


class _Room:
    """How many characters are still wanted; ``cut`` when something was left out because there were none."""

    __slots__ = ("cut", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self.cut = False

    def is_full(self) -> bool:
        """Whether what comes next is left out."""
        self.cut = self.cut or self.left <= 0
        return self.left <= 0


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
        return self._copy(value, _Room(sys.maxsize))

    def _copy(self, value: Any, room: _Room) -> Any:
        """As much of the copy as there is room for; counted is never more than it takes as JSON."""
        if isinstance(value, dict):
            members = {}
            room.left -= 2
            for key, item in value.items():
                if room.is_full():
                    break
                room.left -= len(key) + 3
                is_secret = self.is_secret(key) and item not in (None, "")
                members[key] = MARK if is_secret else self._copy(item, room)
            return members
        if isinstance(value, list):
            items = []
            room.left -= 2
            for item in value:
                if room.is_full():
                    break
                items.append(self._copy(item, room))
            return items
        if isinstance(value, str):
            return self._text(value, room)
        room.left -= 1
        return value

    def _text(self, value: str, room: _Room) -> str:
        most = room.left + _BEHIND
        if len(value) <= most:
            found = self.text(value)
        else:
            room.cut = True
            found = self.text(value[:most] + ("@" if "@" in value[most:] else ""))[:-_UNFINISHED]
        room.left -= len(found) + 2
        return found

    def is_suspect(self, encoded: bytes) -> bool:
        """Whether secrets are possible at all in some text, such as many messages joined."""
        if (b"@" in encoded and _has_password(encoded)) or _hides_letters(encoded):
            return True
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

        A message that is cut says so, and how long it was; a message that is not JSON is treated as plain
        text. ``clean``: as far as it is kept, it was found not suspect before.
        """
        size, room = len(encoded), _Room(limit)
        if not clean and self.is_suspect(as_far_as_kept(encoded, limit)):
            try:
                encoded = orjson.dumps(self._copy(orjson.loads(encoded), room))
            except orjson.JSONDecodeError:
                encoded = self._text(encoded.decode("utf-8", "replace"), room).encode()
        if len(encoded) <= limit and not room.cut:
            return encoded.decode("utf-8", "replace")
        return encoded[:limit].decode("utf-8", "ignore") + f"… [{max(size, len(encoded))} bytes, cut]"


def _hides_letters(encoded: bytes) -> bool:
    # Before each search a quicker one, in vain mostly.
    if b"\\" in encoded and rb"\u" in encoded and _ESCAPED.search(encoded):
        return True
    return not encoded.isascii() and _KELVIN in encoded


def _has_password(encoded: bytes) -> bool:
    plain = encoded.replace(rb"\/", b"/") if rb"\/" in encoded else encoded
    return _ENCODED_PASSWORD.search(plain) is not None
