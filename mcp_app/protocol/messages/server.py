"""The server's description in its messages, and the path of its endpoint."""

from __future__ import annotations

from typing import Any, Final

import orjson

from mcp_app.protocol import downlevel
from mcp_app.protocol.messages.envelope import SERVER_INFO

ENDPOINT: Final = "/mcp"


class Server:
    """The name, title, version, instructions and address of the server; immutable.

    ``info`` has the members of the newest revisions. ``meta`` is the ``_meta`` of every modern result
    (DISC-03).
    """

    __slots__ = ("_openings", "info", "instructions", "meta", "name", "path", "title", "version")

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: str = "",
        instructions: str = "",
        website: str = "",
        path: str = ENDPOINT,
    ) -> None:
        self.name, self.version, self.title, self.instructions = name, version, title, instructions
        self.path = path
        self.info: dict[str, Any] = {"name": name, "version": version}
        if title:
            self.info["title"] = title
        if website:
            self.info["websiteUrl"] = website
        self.meta: dict[str, Any] = {SERVER_INFO: self.info}
        self._openings: dict[str, bytes] = {}

    @property
    def label(self) -> str:
        """The name for people."""
        return self.title or self.name

    def opening(self, method: str) -> bytes:
        """Return the start of a modern result that has further members, encoded once per method."""
        found = self._openings.get(method)
        if found is None:
            found = orjson.dumps(downlevel.complete(method, {}, self.meta))[:-1] + b","
            self._openings[method] = found
        return found
