"""Legacy sessions in one process, and the form in which they are stored."""

from __future__ import annotations

import hashlib
import time
from functools import lru_cache
from typing import Any

import orjson

from mcp_app.database import clock
from mcp_app.protocol.capabilities import MEMO_BYTES, ClientCapabilities
from mcp_app.protocol.features.tasks import related
from mcp_app.protocol.messages.logging import DEFAULT_LEVEL
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.sessions.negotiated import Negotiated, negotiated_fields

STANDALONE = "standalone"
# Field of a stored session. It is set if the session may have had background calls.
HAD_CALLS = "calls"
HTTP_SSE = "http+sse"
MAX_CLIENT_TEXT = 200
# Field of the stored session of a core task. It contains the id of the session that created the task.
MADE_IN = "session"


class LiveSession(Negotiated):
    """The copy of a session in this process.

    The copy in Redis is authoritative. ``announced`` is the catalogue revision last announced to the client.
    A session of HTTP+SSE exists before its client has sent ``initialize``, and ``client_info`` is empty until
    then.
    """

    __slots__ = ("_learned", "announced", "checked_at", "warned_version")

    def __init__(self, session_id: str, fields: dict[str, str]) -> None:
        self.id = self.record_id = session_id
        self.principal_key = fields["principal"]
        self.created_at = float(fields["created"])
        self.transport = fields.get("transport", "")
        self.path = fields.get("path", ENDPOINT)
        self.in_flight = {}
        self.announced = 0
        self._learned = ("", "", "")
        self.warned_version = False
        self.refresh(fields)

    def refresh(self, fields: dict[str, str]) -> None:
        """Update the attributes that can change during the life of a session."""
        if "version" in fields:
            version, client, capabilities = fields["version"], fields["client"], fields["capabilities"]
            if self._learned != (version, client, capabilities):
                self._learned = (version, client, capabilities)
                self.version = version
                # Parsed values are cached. Most sessions belong to a few kinds of clients, and a worker
                # parses the values for every call.
                read = _read if len(client) + len(capabilities) <= MEMO_BYTES else _read.__wrapped__
                self.client_info, self.raw_capabilities, self.capabilities = read(*self._learned)
        self.log_level = fields.get("log_level", DEFAULT_LEVEL)
        self.initialized = fields.get("initialized") == "1"
        # This process may have announced a newer revision than the stored one.
        self.announced = max(self.announced, int(fields.get("announced", "0")))
        self.checked_at = time.monotonic()

    def stored(self) -> dict[str, str]:
        version, client, capabilities = self._learned  # These values are exactly as they were stored.
        fields = {
            "version": version,
            "client": client,
            "capabilities": capabilities,
            "principal": self.principal_key,
            "transport": self.transport,
            "created": repr(self.created_at),
            "log_level": self.log_level,
            "initialized": "1" if self.initialized else "0",
            "announced": str(self.announced),
        }
        if self.path != ENDPOINT:
            fields["path"] = self.path
        return fields


class TaskSession(LiveSession):
    """The session of a core task. The task may outlive the session that created it (TASK4-14)."""

    __slots__ = ("_task_id",)

    def __init__(self, session_id: str, fields: dict[str, str], task_id: str) -> None:
        super().__init__(session_id, fields)
        self.record_id = fields[MADE_IN]
        self._task_id = task_id

    def message(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Return the params of a message with the id of the task added (TASK4-09)."""
        fitted = super().message(method, params)
        return None if fitted is None else related(fitted, self._task_id)


@lru_cache(maxsize=256)
def _read(
    version: str, client: str, capabilities: str
) -> tuple[dict[str, Any], dict[str, Any], ClientCapabilities]:
    """Return the parsed client info and capabilities of a session.

    The result is cached, so callers must not change it.
    """
    declared = orjson.loads(capabilities)
    return orjson.loads(client), declared, ClientCapabilities.parse(declared, version)


def task_home(session_id: str) -> str:
    """Return the session id under which the streams of a session's core tasks are stored.

    It differs from the session's id, because the tasks outlive the session.
    """
    return "task-" + hashlib.sha256(session_id.encode()).hexdigest()[:40]


def bounded(info: dict[str, Any]) -> dict[str, Any]:
    """Return the members of ``clientInfo`` that are stored.

    They are truncated, so that clients cannot make sessions large.
    """
    names = ("name", "version", "title", "description", "websiteUrl")
    return {name: info[name][:MAX_CLIENT_TEXT] for name in names if type(info.get(name)) is str}


def stored_fields(
    principal_key: str,
    version: str,
    client_info: dict[str, Any],
    capabilities: dict[str, Any],
    *,
    announced: int,
    transport: str = "",
    path: str = ENDPOINT,
) -> dict[str, str]:
    """Return the fields to store for a new session."""
    agreed = negotiated_fields(version, client_info, capabilities)
    return opening_fields(agreed, principal_key, announced=announced, transport=transport, path=path)


def opening_fields(
    agreed: dict[str, str],
    principal_key: str,
    *,
    announced: int,
    transport: str = "",
    path: str = ENDPOINT,
) -> dict[str, str]:
    """Return the fields to store for a new session, given the result of ``negotiated_fields``.

    The path is stored only if it is not the path of the default server.
    """
    fields = {
        **agreed,
        "principal": principal_key,
        "transport": transport,
        "created": repr(clock.timestamp()),
        "initialized": "0",
        "log_level": DEFAULT_LEVEL,
        "announced": str(announced),
    }
    if path != ENDPOINT:
        fields["path"] = path
    return fields
