"""Environment variables for upstream servers over stdio. This module does not import Django."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from mcp_app import upstream_commands

REMEDIES = {
    "UPSTREAM_COMMANDS": 'a JSON object, for example {"files": {"command": ["npx", "-y", "server@1.0.0"]}}',
    "UPSTREAM_SOCKET": "the path of a socket, for example /run/mcp/upstreams.sock",
}


class UpstreamEnvironment(BaseSettings):
    """The commands of upstream servers over stdio, and the socket of the bridge that runs them."""

    upstream_commands: Annotated[dict[str, Any], NoDecode] = Field({}, repr=False)
    upstream_socket: str = ""

    @field_validator("upstream_commands", mode="before")
    @classmethod
    def _commands(cls, value: Any) -> Any:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                # The value is not shown, because it may contain secrets.
                raise ValueError("is not JSON") from None
        upstream_commands.read(value)
        return value
