"""W3C trace context and baggage of requests: parsing, validation and encoding.

The grammar is that of W3C Trace Context level 2 and W3C Baggage. Malformed values are ignored (META-09).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MEMBERS: Final = ("traceparent", "tracestate", "baggage")
MAX_TRACESTATE: Final = 512
MAX_STATES: Final = 32
MAX_BAGGAGE: Final = 8192
MAX_ITEMS: Final = 64
# A later version may append fields after a further dash. The fields before it keep their meaning.
_PARENT: Final = re.compile(
    r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x21-\x7e]{0,200})?"
)
_SIMPLE_KEY: Final = r"[a-z][a-z0-9_*/-]{0,255}"
_TENANT_KEY: Final = r"[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}"
_STATE: Final = re.compile(
    rf"({_SIMPLE_KEY}|{_TENANT_KEY})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_NAME: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE: Final = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_BLANK: Final = r"[ \t]*"
_ITEM: Final = re.compile(
    rf"{_NAME}{_BLANK}={_BLANK}{_VALUE}(?:{_BLANK};{_BLANK}{_NAME}(?:{_BLANK}={_BLANK}{_VALUE})?)*"
)
_SAMPLED_AND_RANDOM: Final = 0b11


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The trace of a request and its parent span. No decision may depend on ``baggage``."""

    trace_id: str
    parent_id: str
    flags: int = 0
    tracestate: str = ""
    baggage: str = ""

    @property
    def traceparent(self) -> str:
        """The value of ``traceparent`` in version 00, which every reader supports."""
        return f"00-{self.trace_id}-{self.parent_id}-{self.flags:02x}"

    @property
    def headers(self) -> dict[str, str]:
        """The members with which another service continues the trace, named as in HTTP.

        Baggage is not included.
        """
        found = {"traceparent": self.traceparent}
        return found | {"tracestate": self.tracestate} if self.tracestate else found

    @property
    def meta(self) -> dict[str, str]:
        """All members to put into ``_meta``."""
        return self.headers | {"baggage": self.baggage} if self.baggage else self.headers


def read(carrier: Mapping[str, Any]) -> TraceContext | None:
    """Return the trace context in a ``_meta`` or in headers, or None without a valid ``traceparent``."""
    parent = carrier.get("traceparent")
    found = _PARENT.fullmatch(parent) if isinstance(parent, str) else None
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(parent_id, 16):
        return None
    return TraceContext(
        trace_id,
        parent_id,
        int(flags, 16) & _SAMPLED_AND_RANDOM,
        _tracestate(carrier.get("tracestate")),
        _baggage(carrier.get("baggage")),
    )


def from_headers(fields: Mapping[bytes, bytes]) -> dict[str, str] | None:
    """Return the trace header fields for ``read``.

    Return None without ``traceparent``, as in most requests.
    """
    if b"traceparent" not in fields:
        return None
    return {name: fields.get(name.encode(), b"").decode("latin-1") for name in MEMBERS}


def carried(meta: dict[str, Any], context: TraceContext | None) -> dict[str, Any]:
    """Return ``meta`` with the trace members of ``context`` in place of the trace members that it had."""
    rest = {name: value for name, value in meta.items() if name not in MEMBERS}
    return rest | context.meta if context is not None else rest


def joined(params: dict[str, Any], context: TraceContext | None) -> dict[str, Any]:
    """Add the trace of ``context`` to the params of a request that this server sends."""
    if context is None:
        return params
    return {**params, "_meta": {**params.get("_meta", {}), **context.headers}}


def _tracestate(value: object) -> str:
    """Return a ``tracestate`` list if all of it is well-formed, else "".

    Parts are neither dropped nor reordered, because the order and keys matter to the systems that wrote them.
    """
    if not isinstance(value, str) or len(value) > MAX_TRACESTATE:
        return ""
    states = [state for part in value.split(",") if (state := part.strip(" \t"))]
    keys = {state.partition("=")[0] for state in states}
    if len(states) > MAX_STATES or len(keys) < len(states):
        return ""
    return ",".join(states) if all(map(_STATE.fullmatch, states)) else ""


def _baggage(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_BAGGAGE:
        return ""
    items = [part.strip(" \t") for part in value.split(",")]
    if len(items) > MAX_ITEMS or not all(map(_ITEM.fullmatch, items)):
        return ""
    return ",".join(items)
