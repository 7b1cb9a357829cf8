"""The removal of secrets from answers: many servers repeat the key in links, errors and echoes."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus, unquote_plus

import orjson

from mcp_app.egress import Secrets

HIDDEN: Final = "[hidden]"
# Shorter texts could be ordinary parts of an answer.
MIN_CHARACTERS: Final = 12
# Headers of the kind "headers" that are not secret.
_ORDINARY: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})
# A percent-encoded byte. Its digits may be in lower case.
_ESCAPE: Final = re.compile("%[0-9A-F]{2}")


def secret_texts(own: Secrets) -> tuple[str, ...]:
    """Return the secret texts of a request in each form in which a server may repeat them, longest first."""
    return texts_to_hide(_secrets(own))


def texts_to_hide(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return each form of secrets in which a server may repeat them, longest first."""
    found = {form for text in secrets if len(text) >= MIN_CHARACTERS for form in _forms(text)}
    return tuple(sorted(found, key=len, reverse=True))


def query_texts(query: str) -> tuple[str, ...]:
    """Return the values of a query in each form in which a server may repeat them, longest first."""
    values = [pair.partition("=")[2] or pair for pair in query.split("&")] if query else []
    return texts_to_hide({*values, *map(unquote_plus, values)})


def hidden(text: str, secrets: tuple[str, ...]) -> str:
    """Return a text without secrets."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def hidden_bytes(data: bytes, secrets: tuple[str, ...]) -> bytes:
    """Return data without secrets. Data with NUL may be text in UTF-16."""
    for encoding in ("utf-8", "utf-16-le", "utf-16-be") if b"\0" in data else ("utf-8",):
        for secret in secrets:
            data = data.replace(secret.encode(encoding), HIDDEN.encode(encoding))
    return data


def _secrets(own: Secrets) -> Iterator[str]:
    for name, value in own.headers:
        if name.lower() in _ORDINARY:
            continue
        scheme, _, token = value.partition(" ")
        yield value
        yield token
        if scheme.lower() == "basic":
            yield from _user_and_password(token)
    for _, value in (*own.query, *own.cookies):
        yield value
        yield value.partition(" ")[2]


def _user_and_password(token: str) -> Iterator[str]:
    try:
        text = base64.b64decode(token, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return
    yield text
    yield text.partition(":")[2]


def _forms(text: str) -> Iterator[str]:
    yield text
    for encoded in (quote(text, safe=""), quote(text), quote_plus(text)):
        yield encoded
        yield _ESCAPE.sub(lambda match: match[0].lower(), encoded)
    as_json = orjson.dumps(text).decode()[1:-1]
    yield as_json
    yield as_json.replace("/", "\\/")
    yield html.escape(text)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(text.encode()).decode().rstrip("=")
