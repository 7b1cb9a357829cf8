"""Servers of a document: their addresses, with their variables, resolved against the document's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from mcp_app.catalogue.sources.http.openapi.reading import Document

MAX_SERVERS: Final = 50
_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_VALUE: Final = re.compile(r"[A-Za-z0-9._~:/%-]{1,200}")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a server's address. ``choices`` are its allowed values, or empty for any value."""

    name: str
    default: str
    choices: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """A server of a document. ``problem`` is the reason why its address cannot be used as it is, or "".

    ``home`` is the address of the document, for relative addresses.
    """

    template: str
    url: str
    description: str = ""
    variables: tuple[Variable, ...] = ()
    problem: str = ""
    home: str = ""

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the address with other values of its variables. Raises ValueError for an unknown value."""
        address = self.template
        for each in self.variables:
            value = values.get(each.name) or each.default
            if each.choices and value not in each.choices:
                raise ValueError(f"{each.name}: choose one of {', '.join(each.choices)[:300]}.")
            if not _VALUE.fullmatch(value):
                raise ValueError(f"{each.name}: enter a value without spaces and special characters.")
            address = address.replace(f"{{{each.name}}}", value)
        return urljoin(self.home, address) if self.home else address

    @property
    def origin(self) -> str:
        """Scheme, host and port of the address."""
        return origin_of(self.url)

    @property
    def base(self) -> str:
        """The path of the address, in front of the paths of operations."""
        return "" if self.problem else urlsplit(self.url).path.rstrip("/")


def servers_of(document: Document, given: Any = None) -> list[Server]:
    """Return the servers of a document, or those in ``given``, which an operation has in their place."""
    listed = document.root.get("servers") if given is None else given
    entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return [_server(document, each) for each in entries[:MAX_SERVERS]] or [_server(document, {"url": "/"})]


def typed_server(text: str) -> Server:
    """Return a server whose address a person entered."""
    return Server(text, text, problem=problem_of(text))


def problem_of(url: str) -> str:
    """Return the reason why an address cannot be used for requests, or ""."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "This is not a web address."
    if _VARIABLE.search(url):
        return f"Replace {_VARIABLE.findall(url)[0]!r} with its value."
    if not parts.scheme or not parts.hostname:
        return f"The address {url[:200]!r} is relative: enter the whole address of the API."
    if parts.scheme not in ("https", "http"):
        return f"{parts.scheme}: addresses cannot be called. Use https or http."
    if parts.username or parts.password or parts.query or parts.fragment or port == 0:
        return "The address has a user name, a query or a fragment. Enter scheme, host and path only."
    if any(character.isspace() or not character.isprintable() or character == "\\" for character in url):
        return "The address has a space or a control character."
    return ""


def origin_of(url: str) -> str:
    """Return scheme, host and port of a web address, in lower case, or "" for a malformed address."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme.lower()}://{name}" + (f":{port}" if port else "")


def _server(document: Document, given: Mapping[str, Any]) -> Server:
    template = str(given.get("url") or "/")[:2_000]
    named = given.get("variables")
    variables = tuple(
        _variable(str(name), each) for name, each in (named.items() if isinstance(named, dict) else ())
    )
    values = {each.name: each.default for each in variables if each.default}
    filled = _VARIABLE.sub(lambda match: values.get(match[1], match[0]), template)
    try:
        url = urljoin(document.url, filled) if document.url else filled
    except ValueError:
        url = filled  # ``problem_of`` names the problem.
    return Server(
        template, url, str(given.get("description") or "")[:200], variables, problem_of(url), document.url
    )


def _variable(name: str, given: Any) -> Variable:
    found = given if isinstance(given, dict) else {}
    listed = found.get("enum")
    choices = tuple(str(each) for each in listed) if isinstance(listed, list) else ()
    default = str(found["default"]) if found.get("default") is not None else ""
    return Variable(name, default, choices, str(found.get("description") or "")[:200])
