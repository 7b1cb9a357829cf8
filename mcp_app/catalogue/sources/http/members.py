"""Typed reading of the members of a JSON object. Errors name the member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.catalogue.definitions.definition import DefinitionError

MAX_TEXT: Final = 4_096


def error(name: str, text: str) -> DefinitionError:
    """Return the error for a member."""
    return DefinitionError(f"{name}: {text}" if name else text)


def members_of(
    json: Any, where: str, known: tuple[str, ...], required: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    """Return an object that has known members only."""
    if not isinstance(json, Mapping):
        raise error(where, "Must be an object.")
    if unknown := sorted(str(name) for name in json if name not in known):
        raise error(at(where, unknown[0]), f"Unknown. Known members: {', '.join(known)}.")
    if absent := [name for name in required if name not in json]:
        raise error(at(where, absent[0]), "This is required.")
    return json


def at(where: str, name: str) -> str:
    """Return the place of a member."""
    return f"{where}.{name}" if where else name


def text(
    json: Mapping[str, Any], name: str, default: str = "", *, where: str = "", required: bool = False
) -> str:
    """Return a member that is text."""
    value = json.get(name, default)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise error(at(where, name), f"Must be text of at most {MAX_TEXT} characters.")
    if required and not value:
        raise error(at(where, name), "This is required.")
    return value


def choice(
    json: Mapping[str, Any], name: str, known: tuple[str, ...], default: str = "", where: str = ""
) -> str:
    """Return a member that is one of some values."""
    value = json.get(name, default)
    if value not in known:
        raise error(at(where, name), f"Must be one of: {', '.join(known)}.")
    return str(value)


def switch(json: Mapping[str, Any], name: str, default: bool = False, where: str = "") -> bool:
    """Return a member that is true or false."""
    value = json.get(name, default)
    if not isinstance(value, bool):
        raise error(at(where, name), "Must be true or false.")
    return value


def number(
    json: Mapping[str, Any],
    name: str,
    default: float,
    least: float,
    most: float,
    *,
    whole: bool = False,
    where: str = "",
) -> float:
    """Return a member that is a number in a range."""
    value = json.get(name, default)
    is_number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        kind = "a whole number" if whole else "a number"
        raise error(at(where, name), f"Must be {kind} from {least:g} to {most:g}.")
    return float(value)
