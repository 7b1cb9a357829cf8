"""The data about this server that clients need to connect. It does not depend on any framework."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

KEY_PLACEHOLDER = "YOUR_API_KEY"

_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?"
_REST = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*"
# The characters that RFC 3986 allows. User name, password and fragment are excluded.
_ADDRESS = re.compile(rf"https?://{_HOST}(?:[/?]{_REST})?")
_ADDRESS_LENGTH = 2048
_KEY = re.compile(r"[A-Za-z0-9._~+/=-]+")
_NAME_LENGTH = 64


@dataclass(frozen=True, slots=True)
class ServerConnection:
    """The data that clients need to connect to a server.

    ``name`` is the server's name and ``title`` its readable name, if it has one. If ``needs_key``,
    configurations contain the ``key``. With ``logs_in``, clients that can open a browser need no key. Raises
    ValueError for an invalid address, and for a key that a header cannot contain. The messages are for the
    person who entered the value.
    """

    name: str
    url: str
    needs_key: bool = True
    key: str = KEY_PLACEHOLDER
    title: str = ""
    logs_in: bool = False

    def __post_init__(self) -> None:
        if not is_address(self.url):
            raise ValueError(f"{self.url!r} is not an address like https://mcp.example.com/mcp.")
        if not _KEY.fullmatch(self.key):
            raise ValueError("The key has characters that no Authorization header can carry.")

    @property
    def client_name(self) -> str:
        """The name in letters, digits, ``-`` and ``_``, which the configuration of every client accepts."""
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", self.name)[:_NAME_LENGTH].strip("-")
        return plain or "mcp"

    @property
    def label(self) -> str:
        """The readable name as one line without hidden characters."""
        shown = "".join(
            character if character.isprintable() else " " for character in self.title or self.name
        )
        return " ".join(shown.split()) or self.client_name

    @property
    def host(self) -> str:
        """The host of the endpoint in lower case, without the port. IPv6 addresses have no brackets."""
        return urlsplit(self.url).hostname or ""


def is_address(url: str) -> bool:
    """Return True if ``url`` is an absolute http or https address without special characters."""
    if len(url) > _ADDRESS_LENGTH or not _ADDRESS.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # The port is above 65535, or the address in brackets is invalid.
        return False
