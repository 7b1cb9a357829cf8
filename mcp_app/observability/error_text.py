"""The texts of errors without their variable parts, by which equal errors are grouped."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import orjson

# How many characters are read of an answer and of its text. Tools choose the lengths of both.
LONGEST_READ: Final = 4_000
LONGEST_WORDS: Final = 600
LONGEST: Final = 200

# Finds the first text in an answer that was cut and is therefore not valid JSON.
_FIRST_TEXT: Final = re.compile(r'"(?:text|message)"\s*:\s*("(?:[^"\\]|\\.){0,600})')
_INTERNAL: Final = re.compile(r'"error"\s*:\s*\{\s*"code"\s*:\s*-32603\b')
# These patterns match quoted values, addresses, ids and words with digits. Each alternative starts at a
# word boundary and reads each character once, so matching takes linear time. The look-behind follows the
# quote, because the regular expression engine searches fast for alternatives that begin with a fixed
# character.
_QUOTED: Final = re.compile(r'"[^"\n]{0,300}"|\'(?<!\w\')[^\'\n]{0,300}\'(?!\w)|`[^`\n]{0,300}`')
_VARIES: Final = re.compile(
    r"\b[a-z]{2,10}://\S+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|(?<!\w)\w*\d\w*(?:[-.:]\w+)*"
)
QUOTES: Final = frozenset("\"'`")
# Punctuation that may surround a word without making it an address or a number.
MARKS: Final = ".,:;!?()[]…"
VARIED: Final = "…"


def message_in(answer: str) -> str:
    """Return at most LONGEST_WORDS characters of the text of a logged error answer, or ""."""
    # An answer may contain an escaped NUL, which PostgreSQL cannot store in text.
    return _message_in(answer)[:LONGEST_WORDS].replace("\x00", "\N{SYMBOL FOR NULL}")


def is_internal_error(answer: str) -> bool:
    """Return True if a logged answer is the JSON-RPC error of a fault of the server."""
    return _INTERNAL.search(answer, 0, LONGEST_READ) is not None


def _message_in(answer: str) -> str:
    if len(answer) <= LONGEST_READ:
        try:
            return _message(orjson.loads(answer))
        except orjson.JSONDecodeError:
            pass
    found = _FIRST_TEXT.search(answer, 0, LONGEST_READ)
    return _unescaped(found[1]) if found else ""


def _message(answer: Any) -> str:
    """Return the message of an error or the first text of a result, or "" for other JSON."""
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
    """Decode a JSON string that may have been cut, possibly inside an escape sequence."""
    for end in range(len(cut), max(len(cut) - 12, 0), -1):
        try:
            return str(orjson.loads(cut[:end] + '"'))
        except orjson.JSONDecodeError:
            continue
    return ""


@lru_cache(maxsize=2048)  # Most failures repeat an earlier text.
def without_what_varies(words: str) -> str:
    """Return the text on one line without numbers, ids, addresses and quoted values, cut to LONGEST."""
    words = words[: LONGEST * 2]
    if not QUOTES.isdisjoint(words):
        words = _QUOTED.sub(VARIED, words)
    # Most words consist of letters only. Searching each word with a regular expression would be most of the
    # work that the log writer does for an error.
    kept = [
        word if word.isalpha() or word.strip(MARKS).isalpha() else _VARIES.sub(VARIED, word)
        for word in words.split()
    ]
    return " ".join(kept)[:LONGEST]
