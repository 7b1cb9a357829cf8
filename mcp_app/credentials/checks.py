"""Checks of credentials before they are stored."""

from __future__ import annotations

import re
from typing import Any, Final

from django.core.exceptions import ValidationError

from mcp_app.credentials import kinds
from mcp_app.egress import EgressRefused
from mcp_app.egress.policy import ANY_PORT, Policy
from mcp_app.egress.target import Target, read
from mcp_app.models import Credential

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
MAX_ORIGINS: Final = 20
Kind = Credential.Kind
# The kinds that may have each setting of token requests.
_WITH: Final = {
    "scopes": (Kind.CLIENT_CREDENTIALS, Kind.OAUTH_CLIENT, Kind.TOKEN_EXCHANGE),
    "resource": (Kind.CLIENT_CREDENTIALS, Kind.TOKEN_EXCHANGE),
    "audience": (Kind.CLIENT_CREDENTIALS, Kind.TOKEN_EXCHANGE),
}
_ANY: Final = Policy(ports=ANY_PORT, max_url_characters=16_384)
_NOT_HTTPS: Final = (
    "{}: use https. Without it, anybody on the way could read the secret. Plain http is possible for names "
    "and addresses of a private network only."
)


def target_of(url: str) -> Target:
    """Return the target of a URL, with any port. Raises ValueError with the reason."""
    try:
        return read(url, _ANY)
    except EgressRefused as refused:
        raise ValueError(str(refused)) from None


def origin_of(text: Any) -> str:
    """Return the one spelling of an origin that an administrator entered. Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError("An origin is text such as https://api.example.com.")  # noqa: TRY004 - shown in a form
    target = target_of(text.strip())
    if target.path not in ("/", "") or target.url.fragment or "?" in text:
        raise ValueError(f"{text}: give scheme and host only, such as {target.origin}.")
    _check_scheme(target, text)
    return target.origin


def _check_scheme(target: Target, text: str) -> None:
    if target.scheme != "https" and not target.is_inside:
        raise ValueError(_NOT_HTTPS.format(text))


def check(row: Credential) -> None:
    """Raise ValidationError by field if a credential cannot be stored. Origins get their one spelling."""
    errors: dict[str, list[str]] = {}
    if not NAME.fullmatch(row.name):
        errors["name"] = ["Use lower-case letters, digits, - and _ only, such as shop-api."]
    if row.kind not in kinds.PARTS:
        errors["kind"] = [f"Must be one of: {', '.join(kinds.PARTS)}."]
        raise ValidationError(errors)
    try:
        row.origins = _origins(row.origins)
    except ValueError as error:
        errors["origins"] = [str(error)]
    if problem := kinds.objection_to_placement(row.kind, row.placement):
        errors["placement"] = [problem]
    if problem := _objection_to_token_url(row):
        errors["token_url"] = [problem]
    for name in ("scopes", "resource", "audience"):
        if getattr(row, name) and row.kind not in _WITH[name]:
            errors[name] = ["Credentials of this kind do not have this."]
    if errors:
        raise ValidationError(errors)


def _origins(given: Any) -> list[str]:
    if not isinstance(given, list) or not 0 < len(given) <= MAX_ORIGINS:
        raise ValueError(f"List 1 to {MAX_ORIGINS} servers, such as https://api.example.com.")
    return list(dict.fromkeys(map(origin_of, given)))


def _objection_to_token_url(row: Credential) -> str:
    if row.kind not in (Kind.CLIENT_CREDENTIALS, Kind.TOKEN_EXCHANGE):
        return "Credentials of this kind have no token URL." if row.token_url else ""
    if not row.token_url:
        return "Enter the URL that issues the tokens."
    try:
        _check_scheme(target_of(row.token_url), row.token_url)
    except ValueError as error:
        return str(error)
    return "" if "#" not in row.token_url else "A token URL has no fragment."
