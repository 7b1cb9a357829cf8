"""Checks of the Host and Origin headers, which protect against DNS rebinding."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Final, TypeVar

from mcp_app.protocol.errors import Forbidden, MisdirectedRequest

_LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))
# Headers that proxies, load balancers and CDNs add to requests.
_ADDED_BY_PROXIES: Final = frozenset(
    (
        *(
            b"forwarded",
            b"forwarded-for",
            b"via",
            b"x-real-ip",
            b"x-client-ip",
            b"client-ip",
            b"true-client-ip",
        ),
        *(b"x-cluster-client-ip", b"fastly-client-ip", b"fly-client-ip", b"x-azure-clientip"),
        *(b"x-envoy-external-address", b"x-appengine-user-ip", b"x-proxyuser-ip", b"x-remote-addr"),
        *(b"x-host", b"x-scheme", b"x-url-scheme", b"front-end-https", b"cdn-loop", b"x-amzn-trace-id"),
    )
)
_PREFIXES_OF_PROXIES: Final = (b"x-forwarded", b"x-original-", b"cf-")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# Any other character (of userinfo, paths, percent encoding, blanks, non-ASCII letters) is invalid in a
# Host.
_AUTHORITY: Final = re.compile(
    r"(?P<name>[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_][a-z0-9_-]{0,62})*\.?|\[[0-9a-f:.]{2,45}\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


class _Verdict(Enum):
    ALLOWED = 0
    BAD_HOST = 1
    BAD_ORIGIN = 2


@dataclass(frozen=True, slots=True)
class _Authority:
    """A host name in lower case without a trailing dot, and its port or None."""

    name: str
    port: int | None


def _parse_authority(text: str) -> _Authority | None:
    match = _AUTHORITY.fullmatch(text.lower())
    if match is None or len(text) > 262:
        return None
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65536:
        return None
    name = _canonical(match["name"])
    return None if name is None else _Authority(name, port)


def _canonical(name: str) -> str | None:
    """Return the only spelling used here for a host: without a trailing dot, with IPv6 addresses compressed.

    Return None for an invalid address.
    """
    if not name.startswith("["):
        return name.removesuffix(".")
    try:
        return f"[{IPv6Address(name[1:-1]).compressed}]"
    except AddressValueError:
        return None


@lru_cache(maxsize=256)
def is_forwarded(names: tuple[bytes, ...]) -> bool:
    """Return True if one of the header names (lower-case) shows that the request passed through a proxy."""
    return any(name in _ADDED_BY_PROXIES or name.startswith(_PREFIXES_OF_PROXIES) for name in names)


@dataclass(frozen=True, slots=True)
class _Origin:
    scheme: str
    authority: _Authority

    @property
    def port(self) -> int | None:
        return self.authority.port or _DEFAULT_PORTS.get(self.scheme)


def _parse_origin(text: str) -> _Origin | None:
    scheme, separator, rest = text.lower().partition("://")
    authority = _parse_authority(rest)
    if not separator or not re.fullmatch(r"[a-z][a-z0-9+.-]{0,40}", scheme) or authority is None:
        return None
    return _Origin(scheme, authority)


_Parsed = TypeVar("_Parsed", _Authority, _Origin)


@lru_cache(maxsize=256)
def names_loopback(host: bytes) -> bool:
    """Return True if the Host field contains a loopback host."""
    authority = _parse_authority(host.decode("latin-1"))
    return authority is not None and authority.name in _LOOPBACK


class HostPolicy:
    """A policy that decides by the Host and Origin fields which requests are accepted (SEC-01, SEC-02)."""

    def __init__(
        self,
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        *,
        loopback: bool = False,
    ) -> None:
        """Parse the configuration. Raise ValueError for an entry that can never match.

        An entry in ``allowed_hosts`` is ``name`` (any port), ``name:port``, ``.name`` (with subdomains) or
        ``*`` (any host). An entry in ``allowed_origins`` is ``scheme://name[:port]``. ``loopback`` adds the
        loopback names on any port.
        """
        self._any_host = False
        self._hosts: set[_Authority] = set()
        self._suffixes: set[str] = set()
        for entry in allowed_hosts:
            self._add_host(entry)
        self._origins = frozenset(_required(_parse_origin(entry), entry) for entry in allowed_origins)
        self._loopback = loopback
        # Few pairs are in use. The size limit protects against hostile clients.
        self._verdict = lru_cache(maxsize=1024)(self._judge)

    def check(self, host: bytes | None, origin: bytes | None) -> None:
        """Raise MisdirectedRequest (421) for a wrong or missing Host, Forbidden (403) for a wrong Origin."""
        verdict = self._verdict(host, origin)
        if verdict is _Verdict.BAD_HOST:
            raise MisdirectedRequest
        if verdict is _Verdict.BAD_ORIGIN:
            raise Forbidden(
                "The Origin header is not allowed. An administrator can add it to ALLOWED_ORIGINS."
            )

    def _add_host(self, entry: str) -> None:
        if entry == "*":
            self._any_host = True
            return
        authority = _required(_parse_authority(entry.removeprefix(".")), entry)
        self._hosts.add(authority)
        if entry.startswith("."):
            if authority.port is not None:
                raise ValueError(f"{entry!r} must not name a port: subdomains are allowed on any port.")
            self._suffixes.add("." + authority.name)

    def _judge(self, host: bytes | None, origin: bytes | None) -> _Verdict:
        authority = _parse_authority(host.decode("latin-1")) if host else None
        if authority is None or not self._allows_host(authority):
            return _Verdict.BAD_HOST
        if origin is None or self._allows_origin(origin.decode("latin-1"), authority):
            return _Verdict.ALLOWED
        return _Verdict.BAD_ORIGIN

    def _allows_host(self, host: _Authority) -> bool:
        return (
            self._any_host
            or (self._loopback and host.name in _LOOPBACK)
            or self._is_listed(host)
            or any(host.name.endswith(suffix) for suffix in self._suffixes)
        )

    def _is_listed(self, host: _Authority) -> bool:
        return host in self._hosts or _Authority(host.name, None) in self._hosts

    def _allows_origin(self, text: str, host: _Authority) -> bool:
        origin = _parse_origin(text)
        if origin is None:
            return False
        if any(origin.scheme == known.scheme and _same_place(origin, known) for known in self._origins):
            return True
        if origin.scheme not in _DEFAULT_PORTS:
            return False
        if self._loopback and host.name in _LOOPBACK:
            return origin.authority.name in _LOOPBACK
        # If any Host is allowed, the Host of a rebound name equals its Origin. So only listed origins are
        # accepted.
        return not self._any_host and _same_place(origin, _Origin(origin.scheme, host))


def _same_place(one: _Origin, other: _Origin) -> bool:
    return one.authority.name == other.authority.name and one.port == other.port


def _required(value: _Parsed | None, entry: str) -> _Parsed:
    if value is None:
        raise ValueError(f"{entry!r} is not a host or origin that a request could carry.")
    return value
