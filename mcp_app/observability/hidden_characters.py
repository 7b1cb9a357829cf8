"""Characters that can hide, reorder or forge text, for pages and logs."""

from __future__ import annotations

import re
from typing import Final

# Control and escape characters, line separators, lone surrogates, bidirectional controls (which reorder
# text), and invisible and tag characters (which hide text from people but not from models). Tab and line
# feed are not included. The string is meant to be placed inside the brackets of a regular expression.
HIDDEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e01ef\ud800-\udfff"
)
_IN_LINE: Final = re.compile(f"[\t\n{HIDDEN}]")


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    if number > 0xFFFF:
        number -= 0x10000
        return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
    return f"\\u{number:04x}"


def escaped(text: str) -> str:
    """Return ``text`` on one line. Each character that hides or reorders text is written as a JSON escape."""
    return _IN_LINE.sub(_escape, text)
