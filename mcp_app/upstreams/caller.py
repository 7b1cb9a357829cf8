"""The caller of a server, as sessions and capabilities need it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller: the key of its session, and the capabilities that are declared to the server for it.

    Callers with different capabilities have different sessions, because a session declares them once.
    """

    key: str
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def key_of(session_id: str) -> str:
        """Return the key of a client's session."""
        return f"session:{session_id}"

    @property
    def session(self) -> str:
        """The key of the session, which includes the capabilities."""
        if not self.capabilities:
            return self.key
        return f"{self.key}\0{json.dumps(self.capabilities, sort_keys=True, separators=(',', ':'))}"
