"""Redaction of secrets in messages before they are stored (S14, SEC-09)."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Container, Iterable
from typing import Any

import orjson

MARK = "[redacted]"
# Protocol members whose names end like the name of a secret. They only contain a position, a request or a
# limit.
HARMLESS = frozenset({"progresstoken", "nextcursor", "maxtokens"})
# The prefixes of all secrets that this server issues. Tokens of identity providers are found by "bearer".
PREFIXES = ("mcp_", "mcpat_", "mcprt_", "mcpac_", "mcpcs_")
CREDENTIALS = (b"bearer", b"basic", *(prefix.encode() for prefix in PREFIXES))
_BEARER = re.compile(
    rf"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{{8,}}|\b(?:{'|'.join(PREFIXES)})[A-Za-z0-9_-]{{16,}}"
)
# Matches up to the last @ before the path, because a password may contain an @. The user may be missing, as
# in Redis URLs.
_URL_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/\s]+(?=@)")
# The same for encoded text. A search for @ alone would mostly find e-mail addresses.
_ENCODED_PASSWORD = re.compile(rb"://[^/@\s:]*:[^/\s]+@")
# Escaped letters would hide a word from the search, and so would the Kelvin sign, whose lower case is k.
_ESCAPED = re.compile(rb"\\u(?:00[2-7]|212[aA])")
_KELVIN = "\u212a".encode()
# A string is first cut _BEHIND characters after its limit, so that a secret which begins before the limit
# is recognized. A secret at the cut may have lost so much that it is not recognized. What is left of it is
# shorter than _UNFINISHED, so that number of characters is removed from the end.
_BEHIND, _UNFINISHED = 4_096, 32
_UPPER = bytes(range(ord("A"), ord("Z") + 1))
_LOWERING = bytes.maketrans(_UPPER, _UPPER.lower())
# The name in a pair as in URLs, or as the representation of an object, a shell or a connection string writes
# it. Because of the look-behind, each word is tried only once, however long it is.
_NAME = re.compile(r"(?<![\w-])(?P<name>[\w-]{1,64})\s?={1,2}(?P<quote>)")
_VALUE = re.compile(
    r"""\s?[bru]{0,2}(?:"(?:[^"\\\n]|\\.)+"|'(?:[^'\\\n]|\\.)+'|"[^"\n]+\Z|'[^'\n]+\Z)|[^\s&;#"']+""",
    re.IGNORECASE,
)
# The same as JSON and Python write it. Such text is often part of a string: a result, an exception's message.
# In a string within a string, the quotes have backslashes.
_QUOTED_NAME = re.compile(r"""(?P<quote>\\{0,3}["'])(?P<name>[\w-]{1,64})(?P=quote)\s{0,8}:\s{0,8}""")
_QUOTED_VALUE = re.compile(
    r"""[bru]{0,2}(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|["'][^\n]*)"""
    r"""|\\{1,3}"[^"\n]*"?|\\{1,3}'[^'\n]*'?|\[[^\]\n]*\]?|\([^)\n]*\)?|\{[^}\n]*\}?|[^\s,}\])]+""",
    re.IGNORECASE,
)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _by_root(letters: dict[bytes, bytes]) -> dict[bytes, dict[bytes, bytes]]:
    """Group words by a common search key. One search, which mostly finds nothing, then covers many words.

    The key consists of three letters if more than two words contain them, else of all letters of the word.
    """
    threes = {word: {piece[at : at + 3] for at in range(len(piece) - 2)} for word, piece in letters.items()}
    shared = Counter(three for each in threes.values() for three in each)
    found: dict[bytes, dict[bytes, bytes]] = {}
    for word, piece in letters.items():
        best = max(sorted(threes[word]), key=shared.__getitem__, default=piece)
        found.setdefault(best if shared[best] > 2 else piece, {})[word] = piece
    return found


def without_query_values(url: str, names: Container[str] | None = None) -> str:
    """Return a URL with ``MARK`` in place of the values of its query, any of which may be a key.

    ``names`` are the parameters whose values are replaced, or None for all.
    """
    base, question, query = url.partition("?")
    shown = "&".join(_without_value(pair, names) for pair in query.split("&"))
    return f"{base}{question}{shown}" if query else url


def _without_value(pair: str, names: Container[str] | None) -> str:
    name, equals, _ = pair.partition("=")
    if names is not None and name not in names:
        return pair
    # A parameter without a name is a value.
    return f"{name}={MARK}" if equals else MARK


def truncate_message(message: bytes, limit: int) -> bytes:
    """Return the part of a message that will be stored. The rest may be large and need not be searched."""
    if len(message) <= limit:
        return message
    # In a URL, an @ marks the text before it as a password. The @ may be after the cut, so add one.
    return message[:limit] + (b"@" if b"@" in message else b"")


class _Room:
    """The number of characters still allowed.

    ``cut`` is set once content was dropped because of the limit.
    """

    __slots__ = ("cut", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self.cut = False

    def is_full(self) -> bool:
        """Return True, and set ``cut``, if no characters are left."""
        self.cut = self.cut or self.left <= 0
        return self.left <= 0


class Redactor:
    """Replaces the values of members with secret names, and credentials inside text.

    ``names`` are compared without regard to case, dashes and underscores. They also match the end of a
    longer name: ``token`` covers ``access_token`` and ``refreshToken``.
    """

    __slots__ = ("_dropped", "_names", "_roots")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(sorted({_plain(name) for name in names}))
        # A few fast searches for letters find the few messages that have to be decoded and checked member
        # by member.
        words = (*(name.encode() for name in self._names), *CREDENTIALS)
        letters = {word: word.translate(None, b" _-") for word in words}
        self._roots = _by_root(letters)
        # Characters that are in none of these words are removed before the search, which leaves fewer bytes
        # to search.
        kept = frozenset(b"".join(letters.values()))
        self._dropped = bytes(byte for byte in range(256) if _LOWERING[byte] not in kept)

    def is_secret(self, name: str) -> bool:
        """Return True if the value of a member called ``name`` must not be stored."""
        plain = _plain(name)
        return plain not in HARMLESS and plain.endswith(self._names)

    def text(self, value: str) -> str:
        """Return ``value`` without bearer credentials, API keys, passwords in URLs and secret parameters."""
        value = _URL_PASSWORD.sub(rf"\1:{MARK}", _BEARER.sub(MARK, value))
        if "=" in value:
            value = self._pairs(value, _NAME, _VALUE)
        return self._pairs(value, _QUOTED_NAME, _QUOTED_VALUE) if ":" in value else value

    def _pairs(self, text: str, names: re.Pattern[str], values: re.Pattern[str]) -> str:
        """Replace the values that follow secret names. Other values may contain further names."""
        pieces, end = [], 0
        for found in names.finditer(text):
            if found.start() < end or not self.is_secret(found["name"]):
                continue
            if value := values.match(text, found.end()):
                quote = found["quote"]
                pieces += [text[end : found.end()], quote, MARK, quote]
                end = value.end()
        return "".join([*pieces, text[end:]]) if pieces else text

    def value(self, value: Any) -> Any:
        """Return a copy of a JSON value without its secrets."""
        return self._copy(value, _Room(sys.maxsize))

    def _copy(self, value: Any, room: _Room) -> Any:
        """Copy as much as ``room`` allows.

        The number of counted characters never exceeds the length as JSON.
        """
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
        """Return True if a text may contain secrets. The text can also be many joined messages."""
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
        """Return one encoded JSON message as text without secrets, cut to about ``limit`` bytes.

        A message that was cut ends with a mark and its original length. A message that is not JSON is
        treated as plain text. Pass ``clean`` if ``is_suspect`` has returned False for the part that is
        stored.
        """
        size, room = len(encoded), _Room(limit)
        if not clean and self.is_suspect(truncate_message(encoded, limit)):
            try:
                encoded = orjson.dumps(self._copy(orjson.loads(encoded), room))
            except orjson.JSONDecodeError:
                encoded = self._text(encoded.decode("utf-8", "replace"), room).encode()
        if len(encoded) <= limit and not room.cut:
            return encoded.decode("utf-8", "replace")
        return encoded[:limit].decode("utf-8", "ignore") + f"… [{max(size, len(encoded))} bytes, cut]"


def _hides_letters(encoded: bytes) -> bool:
    # A fast check before each search. Usually it already fails.
    if b"\\" in encoded and rb"\u" in encoded and _ESCAPED.search(encoded):
        return True
    return not encoded.isascii() and _KELVIN in encoded


def _has_password(encoded: bytes) -> bool:
    plain = encoded.replace(rb"\/", b"/") if rb"\/" in encoded else encoded
    return _ENCODED_PASSWORD.search(plain) is not None
