"""Event streams and all access to Redis. This package depends on neither HTTP, MCP nor the database."""

from mcp_app.streams.base import (
    Event,
    EventLog,
    Page,
    Position,
    SessionEnded,
    StreamFinished,
    StreamLimits,
    StreamsError,
    StreamsFull,
    StreamsUnavailable,
    StreamUnknown,
)
from mcp_app.streams.gateway import Streams
from mcp_app.streams.reader import Reader

__all__ = [
    "Event",
    "EventLog",
    "Page",
    "Position",
    "Reader",
    "SessionEnded",
    "StreamFinished",
    "StreamLimits",
    "StreamUnknown",
    "Streams",
    "StreamsError",
    "StreamsFull",
    "StreamsUnavailable",
]
