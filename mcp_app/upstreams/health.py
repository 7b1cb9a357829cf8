"""The last outcome of requests to each server, for people. Redis has it, the database does not (INT-70)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import orjson

from mcp_app.database import clock
from mcp_app.protocol.client.faults import OUTAGES, Kind, UpstreamFault
from mcp_app.streams.blocking import shared_values
from mcp_app.upstreams.server import UpstreamServer

KEPT_SECONDS: Final = 86_400.0
# An unchanged outcome is reported once in this time.
_REPEAT_SECONDS: Final = 30.0
_reported: dict[int, tuple[str, float]] = {}


@dataclass(frozen=True, slots=True)
class Health:
    """The last outcome. ``state`` is "available", "unavailable", "refused" or "unknown"."""

    state: str = "unknown"
    kind: str = ""
    text: str = ""
    at: float = 0.0

    @property
    def is_failed(self) -> bool:
        """True if the last request failed for a reason that an administrator may mend."""
        return self.state in ("unavailable", "refused")


def report(server: UpstreamServer, fault: UpstreamFault | None) -> None:
    """Share the outcome of a request, without waiting. Called on an event loop."""
    kind, now = "" if fault is None else fault.kind.value, time.monotonic()
    before, at = _reported.get(server.pk, ("-", 0.0))
    if kind == before and now - at < _REPEAT_SECONDS:
        return
    _reported[server.pk] = kind, now
    told = {"state": _state(fault), "kind": kind, "text": "" if fault is None else str(fault)[:500]}
    value = orjson.dumps({**told, "at": clock.timestamp()})
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, shared_values.put, _name(server.pk), value, KEPT_SECONDS)


def of(pk: int) -> Health:
    """Return the last outcome of a server."""
    found = shared_values.get(_name(pk))
    return Health() if found is None else Health(**orjson.loads(found))


def forget(pk: int) -> None:
    """Delete the last outcome of a server whose address changed."""
    shared_values.drop(_name(pk))


def _name(pk: int) -> str:
    return f"upstream-health/{pk}"


def _state(fault: UpstreamFault | None) -> str:
    if fault is None or fault.kind in (Kind.REFUSED, Kind.QUESTION):
        return "available"
    return "unavailable" if fault.kind in OUTAGES else "refused"
