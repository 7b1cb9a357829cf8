"""The ``_meta`` member: reading it from params and the grammar of its keys; never what a key means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from mcp_app.protocol.errors import InvalidParams

_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"(?:(?P<prefix>{_LABEL}(?:\.{_LABEL})*)/)?(?P<name>{_NAME})")

_RESERVED_LABELS: Final = frozenset(("mcp", "modelcontextprotocol"))
# Without a prefix, but given a meaning by the specification all the same.
_RESERVED_NAMES: Final = frozenset(("progressToken", "traceparent", "tracestate", "baggage"))


def of(params: dict[str, Any]) -> dict[str, Any]:
    """The ``_meta`` of params, empty if absent. Raises InvalidParams when it is no object (META-08)."""
    value = params.get("_meta")
    if value is None and "_meta" not in params:
        return {}
    if not isinstance(value, dict):
        raise InvalidParams("'_meta' must be an object.")
    return value


def is_valid_key(key: str) -> bool:
    """Whether a key obeys the grammar of META-07."""
    return len(key) <= 512 and _KEY.fullmatch(key) is not None


def is_reserved_key(key: str) -> bool:
    """Whether the protocol keeps a key for itself, by the rule of any revision (META-07).

    2025-06-18 reserves prefixes with a protocol label in front of the last label, later revisions those with
    one in the second place.
    """
    prefix, slash, _ = key.rpartition("/")
    if not slash:
        return key in _RESERVED_NAMES
    labels = prefix.lower().split(".")
    return any(label in _RESERVED_LABELS for label in (*labels[:-1], *labels[1:2]))


def check_own_keys(keys: Iterable[str]) -> None:
    """Check the keys an application wants to send. Raises ValueError naming a bad one and the remedy."""
    for key in keys:
        if not is_valid_key(key):
            raise ValueError(f"{key!r} is not a valid _meta key: use a form such as 'example.com/name'.")
        if is_reserved_key(key):
            raise ValueError(f"The _meta key {key!r} is reserved by the protocol: use a domain of your own.")
