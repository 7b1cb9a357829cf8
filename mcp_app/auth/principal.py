"""Principals: an authenticated user and client, or the anonymous local user of a loopback server."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final

from mcp_app.protocol.scopes import ADMIN


class Everything:
    """The permissions of a superuser. Every permission name is contained."""

    def __contains__(self, item: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "every permission"


class WithoutLogin:
    """The permissions of a sender without a credential: none, and no access to what needs a login."""

    def __contains__(self, item: object) -> bool:
        return False

    def __repr__(self) -> str:
        return "no login"


EVERYTHING: Final = Everything()
# Prefixes of the permissions for this server's own models. Such permissions allow administration.
OWN_PERMISSIONS: Final = ("mcp_app.", "mcp_oauth.")


class WithoutAdministration:
    """The permissions of a credential that lacks the scope ``mcp:admin``."""

    __slots__ = ("_held",)

    def __init__(self, held: Container[str]) -> None:
        self._held = held

    def __contains__(self, item: object) -> bool:
        return item in self._held and not str(item).startswith(OWN_PERMISSIONS)

    def __repr__(self) -> str:
        return f"{self._held!r} without administration"


def below(held: frozenset[str], permissions: Container[str]) -> Container[str]:
    """Limit permissions to those that a credential with the scopes ``held`` may use."""
    return permissions if ADMIN in held else WithoutAdministration(permissions)


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated sender of a message.

    ``key`` is stable and unique. Sessions, streams and limits are bound to it (SES-09). ``expires_at`` is the
    expiry of the credential, in epoch seconds of this process's clock. ``bench`` is True for a request of the
    admin's test bench or doctor, whose token is valid at ``/mcp`` only. ``scopes`` are the credential's
    scopes including implied scopes, or None if it has no limit.

    ``path`` is the path of the only server that accepts the credential. API keys have none and are valid at
    every server. For an OAuth token, ``audience`` is its resource, and ``connection_id`` is the connection it
    was issued for. ``caller_token`` is the sealed token of the identity provider, or "" for others.
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
    caller_token: str = field(default="", repr=False, compare=False)


LOOPBACK: Final = Principal(key="loopback", name="local user", permissions=WithoutLogin())
