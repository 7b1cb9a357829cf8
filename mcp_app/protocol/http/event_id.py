"""The format of event ids in messages: stream, epoch and position."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mcp_app.protocol.errors import Refused

# Each position has only one spelling, so two ids are equal exactly if their texts are equal.
_PATTERN: Final = re.compile(
    r"(?P<stream>[a-z0-9-]{1,40})\.(?P<epoch>0|[1-9a-f][0-9a-f]{0,11})\.(?P<offset>0|[1-9][0-9]{0,14})"
)


class InvalidEventId(Refused):
    """The Last-Event-ID header is not an event id of this server. Open the stream again without it."""


@dataclass(frozen=True, slots=True)
class EventId:
    """A position in a stream. ``epoch`` distinguishes streams that had the same name (T-RES-02)."""

    stream: str
    epoch: int
    offset: int

    def encode(self) -> str:
        """Return ``<stream>.<epoch in hexadecimal>.<offset>``: visible ASCII, at most 69 characters."""
        return f"{self.stream}.{self.epoch:x}.{self.offset}"


def parse(text: str) -> EventId:
    """Parse an event id. Raise InvalidEventId (400) for any text that ``encode`` would not write."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise InvalidEventId
    return EventId(match["stream"], int(match["epoch"], 16), int(match["offset"]))
