"""A legacy session as one process sees it, and its stored form."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import orjson

from mcp_app import database_clock
from mcp_app.protocol import downlevel
from mcp_app.protocol.capabilities import ClientCapabilities
from mcp_app.protocol.features.tasks import related
from mcp_app.protocol.messages.logging import DEFAULT_LEVEL

STANDALONE = "standalone"
# The member of a stored session that says it may have background calls.
HAD_CALLS = "calls"
HTTP_SSE = "http+sse"
MAX_CLIENT_TEXT = 200
# The member of what a core task keeps of its session that names it.
MADE_IN = "session"


class Session:
    """The live copy of one session in this process; the stored copy is the truth.

    ``announced`` is the catalogue revision last announced to its client. ``in_flight`` holds the running
    calls of this session in this process by JSON-RPC id. ``transport`` is empty for Streamable HTTP. Of
    HTTP+SSE a session is there before its client has sent ``initialize``: ``client_info`` is empty till then.
    ``record_id`` names the operator's record that its messages belong to.
    """

    __slots__ = (
        "_negotiated",
        "announced",
        "capabilities",
        "checked_at",
        "client_info",
        "created_at",
        "id",
        "in_flight",
        "initialized",
        "log_level",
        "principal_key",
        "raw_capabilities",
        "record_id",
        "transport",
        "version",
        "warned_version",
    )

    def __init__(self, session_id: str, fields: dict[str, str]) -> None:
        self.id = self.record_id = session_id
        self.principal_key = fields["principal"]
        self.created_at = float(fields["created"])
        self.transport = fields.get("transport", "")
        self._negotiated = ("", "", "")
        self._learn(fields["version"], fields["client"], fields["capabilities"])
        self.in_flight: dict[str | int, Any] = {}
        self.warned_version = False
        self.checked_at = time.monotonic()
        self.refresh(fields)

    def refresh(self, fields: dict[str, str]) -> None:
        """Take over the members that change during a session's life."""
        if "version" in fields:
            self._learn(fields["version"], fields["client"], fields["capabilities"])
        self.log_level = fields.get("log_level", DEFAULT_LEVEL)
        self.initialized = fields.get("initialized") == "1"
        self.announced = int(fields.get("announced", "0"))
        self.checked_at = time.monotonic()

    def _learn(self, version: str, client: str, capabilities: str) -> None:
        """What ``initialize`` negotiated."""
        if self._negotiated == (version, client, capabilities):
            return
        self._negotiated = (version, client, capabilities)
        self.version = version
        self.client_info: dict[str, Any] = orjson.loads(client)
        self.raw_capabilities: dict[str, Any] = orjson.loads(capabilities)
        self.capabilities = ClientCapabilities.parse(self.raw_capabilities, version)

    def stored(self) -> dict[str, str]:
        """The form in which a background call keeps what it has to know of its caller."""
        return {
            **negotiated_fields(
                version=self.version, client_info=self.client_info, capabilities=self.raw_capabilities
            ),
            "principal": self.principal_key,
            "transport": self.transport,
            "created": repr(self.created_at),
            "initialized": "1" if self.initialized else "0",
            "log_level": self.log_level,
            "announced": str(self.announced),
        }

    def fit(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """A result in the form its revision knows (GEN-01)."""
        return downlevel.result(method, result, self.version)

    def message(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The params of a message of ours as its revision knows them; None if it cannot carry it (GEN-01)."""
        return downlevel.message(method, params, self.version)

    def complete(self, method: str, result: dict[str, Any] | bytes) -> dict[str, Any] | bytes:
        """A fitting result with what its revision wants on every result."""
        return result

    @property
    def client_name(self) -> str:
        """What the client calls itself; untrusted text."""
        return str(self.client_info.get("name", ""))


class TaskSession(Session):
    """What a core task has instead of the session it was made in, which it may outlive (TASK4-14)."""

    __slots__ = ("_task_id",)

    def __init__(self, session_id: str, fields: dict[str, str], task_id: str) -> None:
        super().__init__(session_id, fields)
        self.record_id = fields[MADE_IN]
        self._task_id = task_id

    def message(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """See ``Session.message``; it names the task (TASK4-09)."""
        fitted = super().message(method, params)
        return None if fitted is None else related(fitted, self._task_id)


def task_home(session_id: str) -> str:
    """Where the streams of a session's core tasks are: the end of the session is not theirs."""
    return "task-" + hashlib.sha256(session_id.encode()).hexdigest()[:40]


def bounded(info: dict[str, Any]) -> dict[str, Any]:
    """The parts of ``clientInfo`` worth keeping; a hostile client must not make every session large."""
    names = ("name", "version", "title", "description", "websiteUrl")
    return {name: info[name][:MAX_CLIENT_TEXT] for name in names if type(info.get(name)) is str}


def negotiated_fields(
    *, version: str, client_info: dict[str, Any], capabilities: dict[str, Any]
) -> dict[str, str]:
    """The stored form of what ``initialize`` negotiated."""
    return {
        "version": version,
        "client": orjson.dumps(client_info).decode(),
        "capabilities": orjson.dumps(capabilities).decode(),
    }


def stored_fields(
    *,
    version: str,
    principal: str,
    client_info: dict[str, Any],
    capabilities: dict[str, Any],
    announced: int,
    transport: str = "",
) -> dict[str, str]:
    """The stored form of a new session."""
    return {
        **negotiated_fields(version=version, client_info=client_info, capabilities=capabilities),
        "principal": principal,
        "transport": transport,
        "created": repr(database_clock.timestamp()),
        "initialized": "0",
        "log_level": DEFAULT_LEVEL,
        "announced": str(announced),
    }
