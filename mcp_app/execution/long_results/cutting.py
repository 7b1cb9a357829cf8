"""Cuts of a text at a place that keeps its structure: rows of JSON, lines, words."""

from __future__ import annotations

import json
import unicodedata
from typing import Any, Final, NamedTuple

import orjson

# Each level of nested JSON is encoded again, so deep values would cost too much.
_MAX_DEPTH: Final = 5
# A line or word boundary is used only if less than half of the room remains empty.
_LEAST_FILLED: Final = 2
# An emoji of several code points has up to this many of them.
_MAX_CLUSTER: Final = 16
_JOINER: Final = "\u200d"


class Cut(NamedTuple):
    """The beginning of a text. ``shown`` describes it in words, such as "rows 1 to 120 of 4,312".

    If the text is JSON, ``value`` is its decoded form, else None.
    """

    text: str
    shown: str
    value: Any = None


class _Part(NamedTuple):
    value: Any
    shown: str


def cut(text: str, room: int) -> Cut:
    """Cut a text to at most ``room`` bytes. JSON remains valid JSON if possible."""
    if text.lstrip()[:1] in ("[", "{") and (part := _of_json(text, room)) is not None:
        found = _json(part.value)
        # The sum of the parts' sizes may differ by a few bytes if numbers exceed 64 bits.
        if len(found.encode()) <= room:
            return Cut(found, part.shown, part.value)
    return _of_text(text, room)


def head(text: str, room: int) -> str:
    """Return at most ``room`` bytes from the beginning of a text, cut after a line, a row or a word."""
    whole = text[: room + 1].encode(errors="replace")
    if len(whole) <= room:
        return text[: room + 1]
    start = whole[:room].decode(errors="ignore")
    least = len(start) // _LEAST_FILLED
    for mark in ("\n", "},", ",", " "):
        place = start.rfind(mark, least)
        if place >= 0:
            return start[: place + len(mark)]
    return start[: _boundary(text, len(start))]


def _boundary(text: str, place: int) -> int:
    """Move a place back so that it does not divide the code points of one visible character."""
    for back in range(min(_MAX_CLUSTER, place - 1)):
        if not _continues(text, place - back):
            return place - back
    return place


def _continues(text: str, place: int) -> bool:
    following, before = text[place], text[place - 1]
    return (
        _JOINER in (following, before)
        or unicodedata.category(following) in ("Mn", "Me")
        or "\U0001f3fb" <= following <= "\U0001f3ff"
        or (_is_regional(following) and _regionals_before(text, place) % 2 == 1)
    )


def _regionals_before(text: str, place: int) -> int:
    """Count the regional indicators before a place. Each pair of them is one flag."""
    start = place
    while start and _is_regional(text[start - 1]):
        start -= 1
    return place - start


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _of_text(text: str, room: int) -> Cut:
    start = head(text, room)
    lines = start.count("\n")
    if start.endswith("\n") and lines:
        total = text.count("\n") + (not text.endswith("\n"))
        return Cut(start, _range("line", lines, total))
    return Cut(start, _range("character", len(start), len(text)))


def _range(noun: str, last: int, total: int) -> str:
    return f"{noun} 1 of {total:,}" if last == 1 else f"{noun}s 1 to {last:,} of {total:,}"


def _of_json(text: str, room: int) -> _Part | None:
    try:
        value = json.loads(text, parse_constant=_refuse)
        return _part(value, room, _MAX_DEPTH)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _json(value: Any) -> str:
    return _encoded(value).decode()


def _size(value: Any) -> int:
    return len(_encoded(value))


def _encoded(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # Numbers above 64 bits, or unpaired surrogates.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _part(value: Any, room: int, depth: int) -> _Part | None:
    """Return as much of a JSON value as fits, or None if no part of it does."""
    if depth and value and isinstance(value, list):
        return _rows(value, room, depth)
    if depth and value and isinstance(value, dict):
        return _members(value, room, depth)
    return _string(value, room) if isinstance(value, str) else None


def _rows(rows: list[Any], room: int, depth: int) -> _Part | None:
    count = _fitting((_size(row) for row in rows), room)
    if count:
        return _Part(rows[:count], _range("row", count, len(rows)))
    first = _part(rows[0], room - 2, depth - 1)
    return first and _Part([first.value], f"part of row 1 of {len(rows):,} ({first.shown})")


def _members(members: dict[str, Any], room: int, depth: int) -> _Part | None:
    """Shorten the largest member, or leave out the last members if no member is large."""
    sizes = {name: _size(name) + 1 + _size(member) for name, member in members.items()}
    largest = max(sizes, key=sizes.__getitem__)
    others = sum(sizes.values()) - sizes[largest] + len(sizes) + 1
    if others <= room // 2:
        part = _part(members[largest], room - others - _size(largest) - 1, depth - 1)
        if part is not None:
            shown = f"{part.shown}" if " in " in part.shown else f"{part.shown} in {largest[:60]!r}"
            return _Part({**members, largest: part.value}, shown)
    count = _fitting(iter(sizes.values()), room)
    if not count:
        return None
    return _Part(dict(list(members.items())[:count]), _range("member", count, len(members)))


def _fitting(sizes: Any, room: int) -> int:
    """Return how many items with these sizes fit between two brackets, with commas."""
    used, count = 1, 0
    for size in sizes:
        used += size + 1
        if used > room:
            break
        count += 1
    return count


def _string(text: str, room: int) -> _Part | None:
    """Return the beginning of a string whose JSON form fits."""
    left = room - 2
    while left > 0:
        part = _of_text(text, left)
        over = _size(part.text) - room
        if over <= 0:
            return _Part(part.text, part.shown)
        left = min(left - 1, left * room // (room + over))
    return None
