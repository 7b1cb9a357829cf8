"""Principals: an authenticated user and client, or the local user of a loopback server."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from mcp_app.protocol.scopes import ADMIN


class Everything:
    """The permissions of a superuser: contains every name."""

    def __contains__(self, item: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "every permission"


EVERYTHING: Final = Everything()
# Prefixes of the permissions of this server's own models: its administration.
OWN: Final = ("mcp_app.", "mcp_oauth.")


class WithoutAdministration:
    """Permissions under the ceiling of a token without the scope ``mcp:admin``."""

    __slots__ = ("_held",)

    def __init__(self, held: Container[str]) -> None:
        self._held = held

    def __contains__(self, item: object) -> bool:
        return item in self._held and not str(item).startswith(OWN)

    def __repr__(self) -> str:
        return f"{self._held!r} without administration"


def below(held: frozenset[str], permissions: Container[str]) -> Container[str]:
    """Limit permissions to those that a token with the scopes ``held`` allows."""
    return permissions if ADMIN in held else WithoutAdministration(permissions)


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity behind a message.

    ``key`` is stable and unique; sessions, streams and limits are bound to it (SES-09). ``expires_at`` is the
    expiry of the credential, in seconds since the epoch by this process's clock. ``bench`` marks a trial from
    the admin, whose token is valid for `/mcp` only. ``scopes`` is the ceiling of the credential, including
    implied scopes, or None. ``audience`` is the resource of an OAuth token, ``path`` the path of the only
    server that accepts it, ``connection_id`` its grant. Other credentials are valid at every server.
    """

    key: str
    name: str
    permissions: Container[str]
    user_id: int | None = None
    api_key_id: int | None = None
    expires_at: float | None = None
    bench: bool = False
    scopes: frozenset[str] | None = None
    audience: str = ""
    path: str = ""
    connection_id: int | None = None


LOOPBACK: Final = Principal(key="loopback", name="local user", permissions=frozenset())
