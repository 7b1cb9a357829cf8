"""The principal: one authenticated user and client pair, or the local user of a loopback server."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final


class Everything:
    """The permissions of a superuser: every name is in it."""

    def __contains__(self, item: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "every permission"


EVERYTHING: Final = Everything()


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sent a message.

    ``key`` is stable and unique; sessions, streams and limits are bound to it (SES-09). ``expires_at`` is
    the moment (seconds since the epoch, by this process's clock) at which its credential ends. ``bench``: a
    person in the admin tries something; their token is good for `/mcp` only.
    """

    key: str
    name: str
    permissions: Container[str]
    user_id: int | None = None
    api_key_id: int | None = None
    expires_at: float | None = None
    bench: bool = False


LOOPBACK: Final = Principal(key="loopback", name="local user", permissions=frozenset())
