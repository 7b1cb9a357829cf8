"""Names of tools and arguments. A name depends on its document only, never on order or selection (INT-24)."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any, Final

from mcp_app.catalogue.schemas.client_rules import PROPERTY_NAME

MAX_NAME: Final = 64
PREFIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}|")
_DIGITS: Final = 6
_MAX_ARGUMENT: Final = 48
# Of arguments with the same name, the first of these places keeps the name.
PLACES: Final = ("path", "query", "header", "cookie", "body")


def digits(text: str, number: int = _DIGITS) -> str:
    """Return the first base32 digits of the SHA-256 of a text."""
    return base64.b32encode(hashlib.sha256(text.encode()).digest()).decode()[:number].lower()


def slug(text: str) -> str:
    """Return a text with every run of other characters replaced by an underscore."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")


def tool_names(operations: Mapping[str, Mapping[str, Any]], prefix: str = "") -> dict[str, str]:
    """Return the name of each operation's tool by operation key.

    A name that is too long, or that several operations share, ends with digits made from the operation key.
    """
    led = f"{prefix}_" if prefix else ""
    bases = {key: led + (_base(key, operation) or "operation") for key, operation in operations.items()}
    uses = Counter(name.lower() for name in bases.values())
    return {
        key: name
        if len(name) <= MAX_NAME and uses[name.lower()] == 1
        else f"{name[: MAX_NAME - _DIGITS - 1].rstrip('_')}_{digits(key)}"
        for key, name in bases.items()
    }


def argument_names(wires: Sequence[tuple[str, str]]) -> list[str]:
    """Return the argument for each pair of a name and a place, such as ``("id", "path")``.

    A name stays with the first place that has it. The others are called ``name__place``.
    """
    order = sorted(set(wires), key=lambda wire: (wire[0] != safe(wire[0]), PLACES.index(wire[1]), wire[0]))
    found: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for name, place in order:
        base = safe(name)
        choices = (base, f"{base}__{place}", f"{base}__{place}_{digits(name)}")
        further = (f"{choices[-1]}_{number}" for number in count(2))
        chosen = next(choice for choice in chain(choices, further) if choice not in taken)
        found[name, place] = chosen
        taken.add(chosen)
    return [found[wire] for wire in wires]


def safe(name: str) -> str:
    """Return a name that all clients accept for an argument: ``filter_state`` for ``filter[state]``."""
    if PROPERTY_NAME.fullmatch(name) and len(name) <= _MAX_ARGUMENT:
        return name
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    base = re.sub(r"[^A-Za-z0-9.-]+", "_", plain).strip("_.-") or "argument"
    return base if len(base) <= _MAX_ARGUMENT else f"{base[:40]}_{digits(name)}"


def member_alias(name: str) -> str:
    """Return an alias for the name of a nested member.

    Digits make it unlike any name that a caller may choose, because aliases are replaced at every depth.
    """
    return f"{safe(name)[:40]}_{digits(name)}"


def repeated(values: Iterable[Any]) -> frozenset[str]:
    """Return the texts that occur more than once."""
    counts = Counter(value for value in values if isinstance(value, str) and value)
    return frozenset(value for value, number in counts.items() if number > 1)


def _base(key: str, operation: Mapping[str, Any]) -> str:
    hint = operation.get("x-speakeasy-mcp")
    named = hint.get("name") if isinstance(hint, dict) else None
    for given in (named, operation.get("operationId")):
        if isinstance(given, str) and (found := slug(given)):
            return found
    method, _, path = key.partition(" ")
    return f"{method.lower()}_{slug(path)}".rstrip("_")
