"""The installation under examination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from mcp_app import conf
from mcp_app.connect.address import connection_at, public_url
from mcp_app.protocol.messages.server import ENDPOINT


@dataclass(frozen=True, slots=True, repr=False)
class Installation:
    """Redis, the base address as clients reach it (empty: unknown), and an API key.

    Its repr is disabled because it holds secrets.
    """

    redis_url: str = ""
    url: str = ""
    key: str = ""

    @classmethod
    def configured(cls, url: str = "", key: str = "") -> Self:
        """Return the installation from the settings.

        ``url`` replaces the public address and may end in the endpoint's path. Raises ImproperlyConfigured
        for a wrong public address, ValueError for a wrong ``url`` or key.
        """
        base = (url or public_url()).rstrip("/").removesuffix(ENDPOINT)
        if base:
            connection_at(base + ENDPOINT, key)
        return cls(redis_url=conf.get().redis_url, url=base, key=key)
