"""The rules for names of tools and prompts."""

from __future__ import annotations

import re
from typing import Final

MAX_NAME: Final = 128

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def is_valid_name(name: str) -> bool:
    """Return True if all clients can display and call this name (TOOL-06)."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """Return the name. Raise ValueError with the problem and the rule."""
    if is_valid_name(name):
        return name
    if not name:
        raise ValueError("The name is empty.")
    if len(name) > MAX_NAME:
        raise ValueError(f"The name has {len(name)} characters: use at most {MAX_NAME}.")
    raise ValueError(f"The name {name!r} is not allowed. Use only A-Z, a-z, digits, _, - and dots.")
