"""URI templates: the subset of RFC 6570 that can be matched safely.

``{name}`` matches a path segment or a part of one. ``{+path}`` also matches slashes. A URI is matched in
one pass without backtracking, so matching takes linear time for every template (S18).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_to_bytes

MAX_URI: Final = 8192

_EXPRESSION: Final = re.compile(r"\{(?P<plus>\+?)(?P<name>[A-Za-z_][A-Za-z0-9_]{0,63})\}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LITERAL: Final = re.compile(r"[!#-;=?-\[\]_a-z~\x80-\U0010ffff]*")
_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ENCODED_SLASH: Final = re.compile(r"%(?:2f|5c)", re.IGNORECASE)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SEGMENT_END: Final = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in a template. If ``is_path`` is True, its value may contain slashes."""

    name: str
    is_path: bool


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A compiled template: its variables and the literals around them.

    There is one literal more than variables.
    """

    text: str
    literals: tuple[str, ...]
    variables: tuple[Variable, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables in the order of the template."""
        return tuple(variable.name for variable in self.variables)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded value of each variable, or None if the URI does not match or a value is unsafe.

        Values are percent-decoded exactly once and then checked (TPL-03). They must not be empty, and must
        not contain an encoded slash, a backslash, a ``.`` or ``..`` segment, or a control character.
        """
        raw = self._split(uri)
        if raw is None:
            return None
        values: dict[str, str] = {}
        for variable, text in zip(self.variables, raw, strict=True):
            value = _decode(text, is_path=variable.is_path)
            if value is None:
                return None
            values[variable.name] = value
        return values

    def expand(self, variables: Mapping[str, str]) -> str:
        """Return the URI with these values. Raise ValueError for a missing or unsafe value."""
        parts = [self.literals[0]]
        for variable, literal in zip(self.variables, self.literals[1:], strict=True):
            if variable.name not in variables:
                raise ValueError(f"The URI template {self.text!r} needs a value for {variable.name!r}.")
            encoded = quote(variables[variable.name], safe="/" if variable.is_path else "")
            if _decode(encoded, is_path=variable.is_path) is None:
                raise ValueError(f"The value of {variable.name!r} cannot be a part of {self.text!r}.")
            parts += (encoded, literal)
        return "".join(parts)

    def _split(self, uri: str) -> list[str] | None:
        """Return the raw text of each variable.

        The URI is matched from both ends towards the path variable.
        """
        if len(uri) > MAX_URI or not uri.startswith(self.literals[0]) or not uri.endswith(self.literals[-1]):
            return None
        start, end = len(self.literals[0]), len(uri) - len(self.literals[-1])
        if not self.variables:
            return [] if uri == self.literals[0] else None
        paths = [index for index, variable in enumerate(self.variables) if variable.is_path]
        pivot = paths[0] if paths else len(self.variables) - 1
        front: list[str] = []
        for literal in self.literals[1 : pivot + 1]:
            found = uri.find(literal, start, max(start, end))
            if found < 0:
                return None
            front.append(uri[start:found])
            start = found + len(literal)
        back: list[str] = []
        for literal in reversed(self.literals[pivot + 1 : -1]):
            found = uri.rfind(literal, start, max(start, end))
            if found < 0:
                return None
            back.append(uri[found + len(literal) : end])
            end = found
        return [*front, uri[start:end], *reversed(back)] if start <= end else None


def compile(template: str) -> UriTemplate:  # noqa: A001
    """Compile a template. Raise ValueError with the unsupported part and the forms that are supported."""
    pieces = _EXPRESSION.split(template)
    literals = tuple(pieces[::3])
    variables = tuple(
        Variable(name, plus == "+") for plus, name in zip(pieces[1::3], pieces[2::3], strict=True)
    )
    _check(template, literals, variables)
    return UriTemplate(template, literals, variables)


def has_scheme(uri: str) -> bool:
    """Return True if the text begins with a URI scheme and a colon."""
    return _SCHEME.match(uri) is not None


def _check(template: str, literals: tuple[str, ...], variables: tuple[Variable, ...]) -> None:
    if len(template) > MAX_URI:
        raise ValueError(f"The URI template has more than {MAX_URI} characters.")
    if not has_scheme(literals[0]):
        raise ValueError(f"The URI template {template!r} must begin with a scheme such as 'demo://'.")
    for literal in literals:
        if "{" in literal or "}" in literal:
            raise ValueError(f"In the URI template {template!r} only {{name}} and {{+path}} can be used.")
        if not _LITERAL.fullmatch(literal):
            raise ValueError(f"The URI template {template!r} has characters that no URI can have.")
    names = [variable.name for variable in variables]
    if len(set(names)) != len(names):
        raise ValueError(f"The URI template {template!r} uses a variable twice.")
    if sum(variable.is_path for variable in variables) > 1:
        raise ValueError(f"The URI template {template!r} can have only one {{+path}}.")
    # If two variables were adjacent, the boundary between their values would be ambiguous.
    if "" in literals[1:-1]:
        raise ValueError(f"The URI template {template!r} needs some text between its variables.")


def _decode(raw: str, *, is_path: bool) -> str | None:
    if not raw or _BAD_PERCENT.search(raw) or _ENCODED_SLASH.search(raw):
        return None
    try:
        value = unquote_to_bytes(raw).decode()
    except UnicodeError:
        return None
    if _CONTROL.search(value) or "\\" in value or ("/" in value and not is_path):
        return None
    # If an empty segment were allowed, an absolute path could pass as a relative path.
    return None if any(part in ("", ".", "..") for part in _SEGMENT_END.split(value)) else value
