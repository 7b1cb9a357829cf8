"""The ``_meta`` member: access to it in params, and the grammar of its keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from mcp_app.protocol.errors import InvalidParams

_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"(?:(?P<prefix>{_LABEL}(?:\.{_LABEL})*)/)?(?P<name>{_NAME})")

_RESERVED_LABELS: Final = frozenset(("mcp", "modelcontextprotocol"))
# Names that the specification reserves although they have no prefix.
_RESERVED_NAMES: Final = frozenset(("progressToken", "traceparent", "tracestate", "baggage"))


def of(params: dict[str, Any]) -> dict[str, Any]:
    """Return the ``_meta`` of params, or {} if absent.

    Raise InvalidParams if it is not an object (META-08).
    """
    value = params.get("_meta")
    if value is None and "_meta" not in params:
        return {}
    if not isinstance(value, dict):
        raise InvalidParams("'_meta' must be an object.")
    return value


def is_valid_key(key: str) -> bool:
    """Return True if a key follows the grammar of META-07."""
    return len(key) <= 512 and _KEY.fullmatch(key) is not None


def is_reserved_key(key: str) -> bool:
    """Return True if the protocol reserves a key in any revision (META-07).

    2025-06-18 reserves a prefix if any label before its last label is a protocol label. Later revisions
    reserve a prefix if its second label is a protocol label.
    """
    prefix, slash, _ = key.rpartition("/")
    if not slash:
        return key in _RESERVED_NAMES
    labels = prefix.lower().split(".")
    return any(label in _RESERVED_LABELS for label in (*labels[:-1], *labels[1:2]))


def check_own_keys(keys: Iterable[str]) -> None:
    """Check the keys that an application sends.

    Raise ValueError with the first invalid key and the remedy.
    """
    for key in keys:
        if not is_valid_key(key):
            raise ValueError(f"{key!r} is not a valid _meta key: use a form such as 'example.com/name'.")
        if is_reserved_key(key):
            raise ValueError(f"The _meta key {key!r} is reserved by the protocol: use a domain of your own.")
