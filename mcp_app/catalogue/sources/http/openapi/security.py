"""Security of operations: proposed credentials, and parameters that a credential fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_app.catalogue.sources.http.openapi.reading import Document, Place

_PLACES: Final = ("header", "query", "cookie")
# Flows of OAuth that need a person. Their token is entered by hand.
_PERSONAL: Final = ("authorizationCode", "implicit", "password")


@dataclass(frozen=True, slots=True)
class Scheme:
    """A security scheme as a proposed credential. ``kind`` is empty if no credential can serve it.

    ``place`` and ``parameter`` are where an API key stands in requests. ``hint`` names the credential.
    """

    name: str
    kind: str
    hint: str
    place: str = ""
    parameter: str = ""
    token_url: str = ""
    scopes: tuple[str, ...] = field(default=())


def schemes_of(document: Document) -> dict[str, Scheme]:
    """Return the security schemes of a document by name."""
    components = document.root.get("components")
    given = components.get("securitySchemes") if isinstance(components, dict) else None
    found = {}
    for name, each in given.items() if isinstance(given, dict) else ():
        try:
            solved = document.solved(each)
        except KeyError:
            solved = {}
        found[name] = _scheme(str(name), solved if isinstance(solved, dict) else {})
    return found


def requirements_of(document: Document, place: Place) -> list[tuple[str, ...]]:
    """Return the alternatives that secure an operation, each as names of schemes. Empty means anonymous."""
    given = place.operation.get("security")
    given = document.root.get("security") if given is None else given
    found = (
        [tuple(map(str, each)) for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    )
    return found or [()]


def needed(
    requirements: list[tuple[str, ...]], schemes: Mapping[str, Scheme], given: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the alternative to use: the first one for whose schemes ``given`` has a credential.

    Otherwise, return the first one that credentials can satisfy, or else the first one. Alternatives with a
    credential come before the empty one, because most APIs answer more with a credential.
    """
    known = given or {}
    if found := [each for each in requirements if each and all(known.get(name) for name in each)]:
        return found[0]
    usable = [each for each in requirements if all(name in schemes and schemes[name].kind for name in each)]
    return next((each for each in usable if each), next(iter(usable), requirements[0]))


def together(wanted: tuple[str, ...], schemes: Mapping[str, Scheme]) -> str:
    """Return the way to satisfy several schemes together, or the reason why this is impossible."""
    listed = " and ".join(wanted)[:300]
    elsewhere = [each for name in wanted if (each := schemes.get(name)) and each.place in ("query", "cookie")]
    if elsewhere:
        place = f"{elsewhere[0].name[:100]} is sent in the {elsewhere[0].place}"
        return f"It needs {listed} together. A tool sends one credential, and {place}, so this cannot be sent"
    return (
        f"It needs {listed} together. A tool sends one credential: store all headers in one of the kind "
        "'headers', and choose it for each"
    )


def filled_parameters(schemes: Mapping[str, Scheme]) -> frozenset[tuple[str, str]]:
    """Return the place and the lower-case name of each parameter that is a credential."""
    return frozenset((each.place, each.parameter.lower()) for each in schemes.values() if each.parameter)


def _scheme(name: str, given: Mapping[str, Any]) -> Scheme:
    kind = given.get("type")
    if kind == "apiKey":
        place, parameter = str(given.get("in")), str(given.get("name") or "")
        if place in _PLACES and parameter:
            hint = f"API key in the {place} {parameter}"
            return Scheme(name, "api_key", hint, place=place, parameter=parameter)
    if kind == "http":
        scheme = str(given.get("scheme", "")).lower()
        if scheme == "bearer":
            return Scheme(name, "bearer", "bearer token")
        if scheme == "basic":
            return Scheme(name, "basic", "user name and password")
        return Scheme(name, "", f"HTTP authentication {scheme[:50]!r}: set a header by hand")
    if kind == "oauth2":
        return _oauth(name, given.get("flows"))
    if kind == "openIdConnect":
        return Scheme(name, "bearer", "bearer token of an OpenID Connect login")
    return Scheme(name, "", f"{str(kind)[:50]!r} is not supported: set it by hand")


def _oauth(name: str, flows: Any) -> Scheme:
    found = flows if isinstance(flows, dict) else {}
    flow = found.get("clientCredentials")
    if isinstance(flow, dict) and isinstance(flow.get("tokenUrl"), str):
        scopes = tuple(map(str, flow["scopes"])) if isinstance(flow.get("scopes"), dict) else ()
        hint = "client id and secret (OAuth client credentials)"
        return Scheme(name, "client_credentials", hint, token_url=flow["tokenUrl"], scopes=scopes)
    personal = next((each for each in _PERSONAL if each in found), "")
    return Scheme(name, "bearer", f"bearer token, from an OAuth login ({personal or 'unknown flow'})")
