"""The OAuth addresses of this installation: issuer, scopes and the resources of its MCP servers.

All addresses come from the settings. A request only decides which loopback name they contain (SEC-12): a
client that connects to ``localhost`` must find ``localhost`` in the metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import global_settings
from django.conf import settings as django_settings
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, reverse

from mcp_app import conf, servers
from mcp_app.auth.public_paths import COMPANY_ADAPTER, FACTOR_ADAPTER, FACTOR_GATE, FACTOR_MIDDLEWARE, names
from mcp_app.optional_parts import COMPANY_LOGIN, SECOND_FACTOR
from mcp_app.protocol import scopes
from mcp_app.protocol.http.transport_security import names_loopback
from mcp_app.protocol.messages.server import ENDPOINT, SSE, Server, further_path, own_path

RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
# Two well-known paths of the same document. Some clients try the first one first, others the second.
SERVER_METADATA: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
# Endpoint paths of the default server. A token for one path is valid for the other (AUTH-17).
DOORS: Final = (ENDPOINT, SSE)
# Maps paths of metadata documents to endpoint paths. The root path belongs to the default server.
DOCUMENTS: Final = {
    RESOURCE_METADATA: ENDPOINT,
    **{RESOURCE_METADATA + door: door for door in DOORS},
    # Some clients append the well-known path to the endpoint path.
    **{door + RESOURCE_METADATA: door for door in DOORS},
}
# The key in OAUTH_SCOPES for scopes that every token of the provider has. Clients need not request them.
EVERY: Final = "*"

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_LONGEST: Final = 2_048


def offers_oauth() -> bool:
    """Return True if this installation issues OAuth tokens and accepts them."""
    settings = conf.get()
    return settings.oauth and settings.auth == "required" and bool(settings.public_url)


def login_address() -> str:
    """Return the address of the login page for users, who need not be staff.

    It is that of this server if it issues tokens. Otherwise ``LOGIN_URL`` of the project comes first.
    """
    if not offers_oauth():
        if django_settings.LOGIN_URL != global_settings.LOGIN_URL:
            return resolve_url(django_settings.LOGIN_URL)
        if names_provider() and apps.is_installed("django.contrib.admin"):
            return reverse("admin:login")
    try:
        return reverse("mcp_oauth:login")
    except NoReverseMatch:
        return reverse("admin:login")


def home_address() -> str:
    """Return the address of the first page after the login of a user."""
    return reverse("mcp_oauth:apps" if offers_oauth() else "mcp_connections")


def names_provider() -> bool:
    """Return True if tokens of an external identity provider are accepted."""
    return conf.get().auth == "external"


def offers_company_login() -> bool:
    """Return True if people can log in with an identity provider on this server's login page."""
    return bool(conf.get().login_issuer) and offers_oauth() and not company_login_lacks()


def company_login_lacks() -> str:
    """Return the instruction that completes the setup of logins with an identity provider, or ""."""
    if not COMPANY_LOGIN.is_there():
        return COMPANY_LOGIN.remedy()
    if not names(getattr(django_settings, "SOCIALACCOUNT_ADAPTER", ""), COMPANY_ADAPTER):
        return f"Set SOCIALACCOUNT_ADAPTER to {COMPANY_ADAPTER!r}."
    return ""


def second_factor_lacks() -> str:
    """Return the instruction that completes the setup of second factors, or ""."""
    if not SECOND_FACTOR.is_there():
        return SECOND_FACTOR.remedy()
    if not names(getattr(django_settings, "MFA_ADAPTER", ""), FACTOR_ADAPTER):
        return f"Set MFA_ADAPTER to {FACTOR_ADAPTER!r}."
    if not names(django_settings.AUTHENTICATION_BACKENDS, FACTOR_GATE):
        return f"Add {FACTOR_GATE!r} to AUTHENTICATION_BACKENDS, before what checks passwords."
    if not names(django_settings.MIDDLEWARE, FACTOR_MIDDLEWARE):
        return f"Add {FACTOR_MIDDLEWARE!r} to MIDDLEWARE, after that of authentication."
    return ""


def issuer(host: str = "") -> str:
    """Return the issuer that the metadata names for a request to ``host``.

    Returns "" if the metadata names no issuer.
    """
    settings = conf.get()
    if names_provider() and settings.public_url:
        return settings.oauth_issuer
    return origin(host) if offers_oauth() else ""


def requested(wanted: Iterable[str]) -> str:
    """Return the value of ``scope`` with which a client gets the scopes ``wanted`` from the issuer.

    A provider may use other names for them. A name that grants more than ``wanted`` is used only if no exact
    name exists.
    """
    named = conf.get().oauth_scopes if names_provider() else {}
    given = {name: scopes.widened(each.split()) for name, each in named.items() if name != EVERY}
    if not named:
        return scopes.in_order(wanted)
    ceiling = scopes.widened(wanted)
    exact = [name for name, each in given.items() if each <= ceiling]
    return " ".join(exact or [name for name, each in given.items() if each & ceiling])


def origin(host: str = "") -> str:
    """Return the public address of this installation for a request to ``host``.

    Returns "" if no public address is configured.
    """
    base = conf.get().public_url.rstrip("/")
    own = urlsplit(base)
    if not host or own.scheme != "http" or not names_loopback(own.netloc.encode()):
        return base
    named = host.strip().lower()
    if not names_loopback(named.encode("latin-1", "replace")):
        return base
    asked = urlsplit(f"http://{named}")
    return f"http://{named}" if (asked.port or 80) == (own.port or 80) else base


def resource(host: str = "", path: str = ENDPOINT) -> str:
    """Return the resource at an endpoint path of this installation, for a request to ``host``."""
    return origin(host) + _door(path)


def audiences() -> frozenset[str]:
    """Return the resources of the default server for which a token can be issued."""
    return frozenset(origin() + door for door in DOORS)


def further_resources() -> frozenset[str]:
    """Return the resources of the further servers."""
    base = origin()
    return frozenset(base + path for path in servers.further()) if base else frozenset()


def server_at(path: str) -> Server:
    """Return the server at an endpoint path. For an unknown path, ``removed`` of the result is True."""
    return servers.at((further_path(path) or ENDPOINT) if own_path(path) in DOORS else path)


def path_of(resource: str) -> str:
    """Return the path of the server to which a resource belongs, or ""."""
    base = origin()
    path = resource.removeprefix(base)
    return path if base and resource == base + path and not servers.at(path).removed else ""


def described_at(path: str) -> str:
    """Return the endpoint path whose metadata document is at ``path``, or ""."""
    door = DOCUMENTS.get(own_path(path), "")
    named = door + further_path(path).removeprefix(ENDPOINT)
    return named if door and not server_at(named).removed else ""


def _door(path: str) -> str:
    """Return the endpoint path of the resource to which ``path`` belongs."""
    further = further_path(path)
    if not server_at(path).removed:
        return path
    return further if further and not servers.at(further).removed else ENDPOINT


def metadata_url(host: str, path: str) -> str:
    """Return the address of the metadata for the resource at ``path``, or "" if there is no issuer."""
    if not issuer(host):
        return ""
    return origin(host) + RESOURCE_METADATA + _door(path)


def canonical(value: str) -> str:
    """Return the canonical form of a resource of this installation (AUTH-09, AUTH-35).

    Returns "" for any other value. The case of scheme and host, a default port and one trailing slash are
    ignored. Values with a query, a fragment or a user name are refused.
    """
    if not value or len(value) > _LONGEST or not value.isascii() or any(c in value for c in "?#@\\ \t\r\n"):
        return ""
    try:
        parts = urlsplit(value)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return ""
    server = server_at(parts.path.removesuffix("/"))
    if server.removed:
        return ""
    own = urlsplit(origin())
    if (parts.scheme, port) != (own.scheme, own.port or _DEFAULT_PORTS.get(own.scheme)):
        return ""
    name, ours = (parts.hostname or ""), (own.hostname or "")
    local = names_loopback(own.netloc.encode()) and names_loopback(parts.netloc.encode())
    return resource(path=server.path) if name == ours or local else ""
