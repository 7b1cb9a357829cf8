"""Challenges with which servers refuse a credential (RFC 6750, RFC 9110 section 11.4)."""

from __future__ import annotations

import re
from typing import Final

from mcp_app.protocol.client.faults import InsufficientScope

# A parameter of a challenge. Values without quotes end at a comma or blank.
_PARAMETER: Final = re.compile(r'([A-Za-z_]{1,40})\s*=\s*(?:"((?:[^"\\]|\\.){0,2000})"|([^\s",]{1,2000}))')
_MAX_CHARACTERS: Final = 8_192
MAX_SCOPES: Final = 50
SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")


def parameters_of(challenges: str) -> dict[str, str]:
    """Return the parameters in ``WWW-Authenticate``. Of repeated names, the first counts."""
    found: dict[str, str] = {}
    for name, quoted, plain in _PARAMETER.findall(challenges[:_MAX_CHARACTERS]):
        found.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
    return found


def scopes_in(text: str) -> tuple[str, ...]:
    """Return the scopes in a text, each once. Words that are not scopes are left out."""
    return tuple(dict.fromkeys(word for word in text.split(" ") if SCOPE.fullmatch(word)))[:MAX_SCOPES]


def missing_scope(challenges: str) -> InsufficientScope | None:
    """Return the fault for a credential without the scopes of a request, or None for another reason."""
    found = parameters_of(challenges)
    if found.get("error") != "insufficient_scope":
        return None
    return InsufficientScope(scopes_in(found.get("scope", "")))
