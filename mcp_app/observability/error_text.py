"""Owns what an error says without what differs from one time to the next: the words that make a group."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import orjson

# What is read of an answer, and of its words: tools choose how long they are.
LONGEST_READ: Final = 4_000
LONGEST_WORDS: Final = 600
LONGEST: Final = 200

# The first text of an answer that was cut, and so is no JSON any more.
_FIRST_TEXT: Final = re.compile(r'"(?:text|message)"\s*:\s*("(?:[^"\\]|\\.){0,600})')
# Quoted values; then within a word addresses, ids and what has a digit in it. Each begins where a word does
# and is read once, so that no text takes longer than its length. Alternatives that all begin with a character
# are searched by it; a look behind comes after the quote for that.
_QUOTED: Final = re.compile(r'"[^"\n]{0,300}"|\'(?<!\w\')[^\'\n]{0,300}\'(?!\w)|`[^`\n]{0,300}`')
_VARIES: Final = re.compile(
    r"\b[a-z]{2,10}://\S+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|(?<!\w)\w*\d\w*(?:[-.:]\w+)*"
)
QUOTES: Final = frozenset("\"'`")
# What may stand before or after a word without being part of an address or a number.
MARKS: Final = ".,:;!?()[]…"
VARIED: Final = "…"


def said_in(answer: str) -> str:
    """The words of a logged answer that is an error, at most LONGEST_WORDS; "" where there are none."""
    # PostgreSQL has no NUL in text, and one may be written as an escape in an answer.
    return _said_in(answer)[:LONGEST_WORDS].replace("\x00", "\N{SYMBOL FOR NULL}")


def _said_in(answer: str) -> str:
    if len(answer) <= LONGEST_READ:
        try:
            return _words(orjson.loads(answer))
        except orjson.JSONDecodeError:
            pass
    found = _FIRST_TEXT.search(answer, 0, LONGEST_READ)
    return _unescaped(found[1]) if found else ""


def _words(answer: Any) -> str:
    """The message of an error, or the first text of a result; JSON of any other form says nothing."""
    if not isinstance(answer, dict):
        return ""
    error, result = answer.get("error"), answer.get("result")
    if isinstance(error, dict):
        return str(error.get("message") or "")
    content = result.get("content") if isinstance(result, dict) else None
    texts = (
        (part.get("text") for part in content if isinstance(part, dict)) if isinstance(content, list) else ()
    )
    return next((text for text in texts if isinstance(text, str)), "")


def _unescaped(cut: str) -> str:
    """A JSON string of which the end may be missing, perhaps within an escape."""
    for end in range(len(cut), max(len(cut) - 12, 0), -1):
        try:
            return str(orjson.loads(cut[:end] + '"'))
        except orjson.JSONDecodeError:
            continue
    return ""


@lru_cache(maxsize=2048)  # What fails, mostly fails in the same words.
def without_what_varies(words: str) -> str:
    """Words with numbers, ids, addresses and quoted values left out, on one line, cut."""
    words = words[: LONGEST * 2]
    if not QUOTES.isdisjoint(words):
        words = _QUOTED.sub(VARIED, words)
    # Most words are plain; a search in each of them would be most of what an error costs the log writer.
    kept = [
        word if word.isalpha() or word.strip(MARKS).isalpha() else _VARIES.sub(VARIED, word)
        for word in words.split()
    ]
    return " ".join(kept)[:LONGEST]
