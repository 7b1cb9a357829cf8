"""The description of a server in messages, and the paths of servers' endpoints."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from mcp_app.protocol import downlevel
from mcp_app.protocol.errors import Forbidden, McpError, ServerNotFound, Unavailable
from mcp_app.protocol.messages.envelope import SERVER_INFO

# The path of a server's Streamable HTTP endpoint, which also identifies the server elsewhere.
ENDPOINT: Final = "/mcp"
# The paths of HTTP+SSE, for the event stream and for messages to the server.
SSE: Final = "/sse"
MESSAGES: Final = "/messages"
_FURTHER: Final = re.compile(rf"({ENDPOINT}|{SSE}|{MESSAGES})(/[a-zA-Z0-9_-]+)(?=/|\Z)")


def further_path(path: str) -> str:
    """Return the path of the further server to which ``path`` belongs, or "".

    ``/mcp/notes``, ``/sse/notes`` and longer paths with one of them, such as that of its metadata, belong to
    ``/mcp/notes``. This function does not check that the server exists.
    """
    found = _FURTHER.search(path)
    return ENDPOINT + found[2] if found else ""


def own_path(path: str) -> str:
    """Return the path of the installation's own server that corresponds to one of a further server.

    ``/sse/notes`` becomes ``/sse``. Other paths are returned unchanged.
    """
    return _FURTHER.sub(r"\1", path, count=1)


class Server:
    """The name, title, version, instructions and address of a server. Immutable.

    ``info`` has the members of the newest revisions. ``meta`` is the ``_meta`` in every modern result
    (DISC-03). ``identity`` is equal for servers that clients cannot tell apart. A ``removed`` server stands
    for a server that was deleted: it offers nothing and accepts no requests. With a ``refusal`` it exists,
    but not for the caller. The refusal is the reason. A server with a ``fault`` cannot serve any caller.
    """

    __slots__ = (
        "_openings",
        "fault",
        "identity",
        "info",
        "instructions",
        "meta",
        "name",
        "path",
        "refusal",
        "removed",
        "title",
        "version",
    )

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: str = "",
        instructions: str = "",
        website: str = "",
        path: str = ENDPOINT,
        removed: bool = False,
        refusal: str = "",
        fault: str = "",
    ) -> None:
        self.name, self.version, self.title, self.instructions = name, version, title, instructions
        self.path, self.refusal, self.fault = path, refusal, fault
        self.removed = removed or bool(refusal or fault)
        self.identity = (name, version, title, instructions, website, path)
        self.info: dict[str, Any] = {"name": name, "version": version}
        if title:
            self.info["title"] = title
        if website:
            self.info["websiteUrl"] = website
        self.meta: dict[str, Any] = {SERVER_INFO: self.info}
        self._openings: dict[str, bytes] = {}

    @property
    def label(self) -> str:
        """The name for display."""
        return self.title or self.name

    def absence(self) -> McpError:
        """Return the error for requests to a server that was removed, is faulty or refuses the caller."""
        if self.fault:
            return Unavailable(self.fault)
        return Forbidden(self.refusal) if self.refusal else ServerNotFound()

    def opening(self, method: str) -> bytes:
        """Return the start of a modern result that has further members. It is encoded once per method."""
        found = self._openings.get(method)
        if found is None:
            found = orjson.dumps(downlevel.complete(method, {}, self.meta))[:-1] + b","
            self._openings[method] = found
        return found
