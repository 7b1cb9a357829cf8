"""Pages of lists as encoded JSON, cached by revision, visibility and position (design §8).

A cursor holds the order key of the last entry, so entries that appear or disappear between two pages cause no
gaps or repetitions (PAGE-01).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Container, Sequence
from typing import Any, Final

import orjson

from mcp_app.catalogue.snapshots.entries import Entry, Order
from mcp_app.protocol import downlevel
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.pagination import CursorCodec

# A protocol revision, the permissions that the caller holds of those in the list, and a cursor.
Key = tuple[str, tuple[str, ...], str | None]

MAX_CACHED_PAGES: Final = 2_000
MAX_CACHED_BYTES: Final = 64 * 1024 * 1024

_MEMBERS: Final = {
    "tools": ("tool", "tools"),
    "prompts": ("prompt", "prompts"),
    "resources": ("resource", "resources"),
    "templates": ("template", "resourceTemplates"),
}


class Pages:
    """The pages of one kind of entry in one snapshot."""

    __slots__ = (
        "_cache",
        "_cached_bytes",
        "_codec",
        "_entries",
        "_is_built",
        "_keys",
        "_kind",
        "_mentioned",
        "_revision",
        "_size",
    )

    def __init__(
        self, kind: str, entries: Sequence[Entry], *, size: int, codec: CursorCodec, revision: int
    ) -> None:
        self._kind = kind
        self._entries = sorted(entries, key=_order)
        self._keys = [entry.order for entry in self._entries]
        self._mentioned = tuple(sorted({entry.permission for entry in entries if entry.permission}))
        self._is_built = False
        self._size = max(1, size)
        self._codec = codec
        self._revision = revision
        self._cache: dict[Key, bytes] = {}
        self._cached_bytes = 0

    def page(self, version: str, permissions: Container[str], cursor: str | None) -> bytes:
        """Return the encoded page for a protocol revision, permissions and a cursor.

        Raises InvalidParams for an invalid cursor.
        """
        key = self._key(version, permissions, cursor)
        cached = self._cache.get(key)
        return self._made(key) if cached is None else cached

    def built_page(self, version: str, permissions: Container[str], cursor: str | None) -> bytes | None:
        """Return the page, or None if entries may have to be built for it, which takes 0.3 ms for each.

        Raises InvalidParams for an invalid cursor.
        """
        key = self._key(version, permissions, cursor)
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        self._is_built = self._is_built or all(entry.is_built for entry in self._entries)
        return self._made(key) if self._is_built else None

    def _key(self, version: str, permissions: Container[str], cursor: str | None) -> Key:
        held = tuple(name for name in self._mentioned if name in permissions) if self._mentioned else ()
        return version, held, cursor

    def _made(self, key: Key) -> bytes:
        made = self._encode(*key)
        self._cached_bytes += len(made)
        if len(self._cache) >= MAX_CACHED_PAGES or self._cached_bytes > MAX_CACHED_BYTES:
            self._cache.clear()
            self._cached_bytes = len(made)
        self._cache[key] = made
        return made

    def _encode(self, version: str, held: tuple[str, ...], cursor: str | None) -> bytes:
        kind, member = _MEMBERS[self._kind]
        scope = hashlib.sha256("\n".join(held).encode()).hexdigest()[:16]
        start = 0 if cursor is None else bisect_right(self._keys, self._position(scope, cursor))
        shown: list[dict[str, Any]] = []
        last: Order | None = None
        for entry in self._entries[start:]:
            if (entry.permission and entry.permission not in held) or not entry.wire:
                continue
            if len(shown) == self._size and last is not None:
                after = ".".join(map(str, last))
                following = self._codec.encode(self._kind, after, scope, self._revision)
                return orjson.dumps({member: shown, "nextCursor": following})
            shown.append(downlevel.definition(kind, entry.wire, version))
            last = entry.order
        return orjson.dumps({member: shown})

    def _position(self, scope: str, cursor: str) -> Order:
        after, _ = self._codec.decode(self._kind, scope, cursor)
        try:
            group, position, number = map(int, after.split("."))
        except ValueError:
            raise InvalidParams(
                "The cursor is not valid for this list. Start again without a cursor."
            ) from None
        return group, position, number


def _order(entry: Entry) -> Order:
    return entry.order
