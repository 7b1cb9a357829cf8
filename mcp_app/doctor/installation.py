"""The installation that the doctor examines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from mcp_app import conf
from mcp_app.connect.address import connection_at, public_url
from mcp_app.protocol.messages.server import ENDPOINT


@dataclass(frozen=True, slots=True, repr=False)
class Installation:
    """The addresses and the credential with which the doctor examines an installation.

    ``url`` is the base address that clients use, or "" if it is unknown. ``key`` is an API key. The object
    has no informative repr, because it contains secrets.
    """

    redis_url: str = ""
    url: str = ""
    key: str = ""

    @classmethod
    def configured(cls, url: str = "", key: str = "") -> Self:
        """Return the installation that the settings describe.

        ``url`` replaces the public address and may end with the endpoint's path. Raises ImproperlyConfigured
        for an invalid public address, and ValueError for an invalid ``url`` or key.
        """
        base = (url or public_url()).rstrip("/").removesuffix(ENDPOINT)
        if base:
            connection_at(base + ENDPOINT, key)
        return cls(redis_url=conf.get().redis_url, url=base, key=key)
