"""Checks of elicitation: its forms, the answers to the forms, and its URLs."""

from __future__ import annotations

import re
from datetime import date, datetime
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlsplit

_COMMON: Final = frozenset(("type", "title", "description", "default"))
KEYWORDS: Final[dict[str, frozenset[str]]] = {
    "string": _COMMON | {"minLength", "maxLength", "format", "enum", "enumNames", "oneOf"},
    "number": _COMMON | {"minimum", "maximum"},
    "integer": _COMMON | {"minimum", "maximum"},
    "boolean": _COMMON,
    "array": _COMMON | {"items", "minItems", "maxItems"},
}
FORMATS: Final = ("email", "uri", "date", "date-time")
_TOP_KEYWORDS: Final = frozenset(("$schema", "type", "title", "description", "properties", "required"))

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SECRET_WORDS: Final = frozenset(
    (
        "credential",
        "credentials",
        "cvc",
        "cvv",
        "otp",
        "passphrase",
        "passwd",
        "password",
        "pwd",
        "secret",
        "ssn",
        "token",
    )
)
_SECRET_PAIRS: Final = frozenset(
    (
        ("access", "key"),
        ("api", "key"),
        ("card", "number"),
        ("credit", "card"),
        ("pin", "code"),
        ("private", "key"),
        ("security", "code"),
        ("session", "key"),
    )
)
_EMAIL: Final = re.compile(r"[^@\s]{1,64}@[^@\s]{1,255}")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]+")


def check_form(schema: dict[str, Any]) -> None:
    """Check a ``requestedSchema`` (ELI-03, ELI-06). Raise ValueError with the bad member and the remedy."""
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        raise ValueError("A form must be an object schema with 'properties'.")
    if unknown := sorted(schema.keys() - _TOP_KEYWORDS):
        raise ValueError(f"A form cannot use {', '.join(map(repr, unknown))}.")
    properties: dict[str, Any] = schema["properties"]
    required = schema.get("required", [])
    if not isinstance(required, list) or any(name not in properties for name in required):
        raise ValueError("The 'required' of a form must list some of its properties.")
    for name, member in properties.items():
        _check_member(name, member)
    if secret := secret_like_names(schema):
        raise ValueError(
            f"A form must not ask for secrets such as {secret[0]!r}: use an elicitation in URL mode for that."
        )


def secret_like_names(schema: dict[str, Any]) -> list[str]:
    """Return the names of the properties whose name or title suggests a secret (ELI-06)."""
    found = []
    for name, member in schema.get("properties", {}).items():
        title = member.get("title") if isinstance(member, dict) else None
        if _is_secret(name) or (isinstance(title, str) and _is_secret(title)):
            found.append(name)
    return found


def _is_secret(text: str) -> bool:
    words = [word.lower() for word in _WORD.findall(text)]
    return not _SECRET_WORDS.isdisjoint(words) or any(pair in _SECRET_PAIRS for pair in pairwise(words))


def _check_member(name: str, member: Any) -> None:
    kind = member.get("type") if isinstance(member, dict) else None
    if not isinstance(kind, str) or kind not in KEYWORDS:
        raise ValueError(f"The form member {name!r} must be a string, number, integer, boolean or a choice.")
    if unknown := sorted(member.keys() - KEYWORDS[kind]):
        raise ValueError(
            f"The form member {name!r} of type {kind} cannot use {', '.join(map(repr, unknown))}."
        )
    if member.get("format", "email") not in FORMATS:
        raise ValueError(f"The format of the form member {name!r} must be one of {', '.join(FORMATS)}.")
    if kind == "array" and choices(member) is None:
        raise ValueError(
            f"The form member {name!r} must have 'items' with 'enum' or 'anyOf' of const and title."
        )
    if ("enum" in member or "oneOf" in member) and choices(member) is None:
        raise ValueError(
            f"The choices of the form member {name!r} must be texts, each with a title in 'oneOf'."
        )
    _check_names(name, member)
    if "default" in member and (problem := _problem(member, member["default"])):
        raise ValueError(f"The default of the form member {name!r} {problem}.")


def _check_names(name: str, member: dict[str, Any]) -> None:
    names = member.get("enumNames")
    if names is None:
        return
    values = member.get("enum")
    if not _is_texts(names) or not isinstance(values, list) or len(names) != len(values):
        raise ValueError(f"The 'enumNames' of the form member {name!r} must be as many texts as its 'enum'.")


def choices(member: dict[str, Any]) -> list[str] | None:
    """Return the possible values of a select field in any of its forms, or None for another field."""
    source = member.get("items") if member.get("type") == "array" else member
    if not isinstance(source, dict):
        return None
    values = source.get("enum")
    if values is None:
        titled = source.get("anyOf" if source is not member else "oneOf")
        values = [_titled(choice) for choice in titled] if isinstance(titled, list) else None
    return values if _is_texts(values) and values else None


def _titled(choice: Any) -> Any:
    return choice.get("const") if isinstance(choice, dict) and isinstance(choice.get("title"), str) else None


def _is_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def check_answer(schema: dict[str, Any], content: dict[str, Any]) -> str | None:
    """Return the problem with an accepted form's content, or None if it matches the schema (ELI-05).

    Unknown members are ignored (GEN-02).
    """
    for name in schema.get("required", []):
        if name not in content:
            return f"{name!r} is missing."
    for name, member in schema.get("properties", {}).items():
        if name in content and (problem := _problem(member, content[name])):
            return f"{name!r} {problem}."
    return None


def _problem(member: dict[str, Any], value: Any) -> str | None:
    kind = member["type"]
    if kind == "boolean":
        return None if isinstance(value, bool) else "must be true or false"
    if kind == "array":
        return _selection_problem(member, value)
    if kind == "string":
        return _text_problem(member, value)
    return _number_problem(member, value)


def _selection_problem(member: dict[str, Any], value: Any) -> str | None:
    offered = choices(member) or []
    if not isinstance(value, list) or any(item not in offered for item in value):
        return f"must be a list of some of {', '.join(offered)}"
    if len(value) < member.get("minItems", 0):
        return f"needs at least {member['minItems']} choices"
    if len(value) > member.get("maxItems", len(value)):
        return f"takes at most {member['maxItems']} choices"
    return None


def _text_problem(member: dict[str, Any], value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be a text"
    offered = choices(member)
    if offered is not None and value not in offered:
        return f"must be one of {', '.join(offered)}"
    if len(value) < member.get("minLength", 0):
        return f"must have at least {member['minLength']} characters"
    if len(value) > member.get("maxLength", len(value)):
        return f"must have at most {member['maxLength']} characters"
    form = member.get("format")
    return None if form is None or _has_format(form, value) else f"must be in the format {form}"


def _has_format(form: str, value: str) -> bool:
    if form == "email":
        return _EMAIL.fullmatch(value) is not None
    if form == "uri":
        return _URI.fullmatch(value) is not None
    try:
        if form == "date":
            return len(value) == 10 and date.fromisoformat(value) is not None
        return "T" in value.upper() and datetime.fromisoformat(value.upper()).tzinfo is not None
    except ValueError:
        return False


def _number_problem(member: dict[str, Any], value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "must be a number"
    if member["type"] == "integer" and isinstance(value, float) and not value.is_integer():
        return "must be a whole number"
    if value < member.get("minimum", value):
        return f"must be at least {member['minimum']}"
    if value > member.get("maximum", value):
        return f"must be at most {member['maximum']}"
    return None


def check_url(url: str, *, allow_http: bool = False) -> None:
    """Check the URL of an elicitation (ELI-10). Raise ValueError. Set ``allow_http`` in development only."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("The URL of an elicitation is not a URL.") from None
    if parts.scheme not in (("https", "http") if allow_http else ("https",)):
        raise ValueError("The URL of an elicitation must be an 'https:' URL.")
    if not _URI.fullmatch(url) or not parts.hostname or "@" in parts.netloc:
        raise ValueError(
            "The URL of an elicitation needs a host and must hold no blanks, user name or password."
        )
