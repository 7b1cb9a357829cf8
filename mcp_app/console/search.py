"""Owns the search language of the console: one meaning for lines that come and for those that are stored.

``tool:echo status:error user:ada -method:ping "two words"``: all must hold. A minus turns one round, a star
at the end of a value stands for anything. Words without a key are looked for in the messages themselves.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from mcp_app.console.line import Line
from mcp_app.models import Message
from mcp_app.text import marked

T = TypeVar("T")
LONGEST = 300
MOST_TERMS = 12
# A key with its value, either of them quoted, or one word; quotes may be missing at the end.
_TERM = re.compile(r'(-?)(?:([A-Za-z_]+):)?(?:"([^"]*)"?|(\S+))')
_NUMBER = re.compile(r"([<>]?)=?([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s)?")

STATUS: Final = {
    "ok": ("ok",),
    "error": ("error", "tool_error"),
    "tool_error": ("tool_error",),
    "protocol_error": ("error",),
    "cancelled": ("cancelled",),
    "asked": ("asked",),
}
DIRECTIONS: Final = {"in": "in", "out": "out"}
# What each key means, for people.
KEYS: Final = {
    "tool": "the tool a call names",
    "target": "the tool, prompt or resource named",
    "status": "ok, error (of either kind), tool_error, protocol_error, cancelled, asked (a question)",
    "user": "a user name, or a principal as it is shown",
    "method": "the method, such as tools/call",
    "dir": "in (client → server) or out (server → client)",
    "id": "the JSON-RPC id of the request",
    "session": "the session id",
    "kind": "request, running, notification, response, resumed",
    "process": "the process that served it",
    "ms": "how long it took: ms:>250, ms:<5, ms:>2s",
}
_COLUMNS: Final = {
    "tool": "target",
    "target": "target",
    "method": "method",
    "id": "request_id",
    "session": "session",
    "kind": "kind",
    "process": "process",
}
# Methods of lines that name a tool: calls, and what is sent on their behalf.
_OF_TOOLS: Final = ("tools/call", "notifications/")
# Where the database calls a column otherwise than a line does.
_STORED: Final = {"session": "session__pk"}
# Terms the database finds by an index; for the others it reads rows.
_INDEXED: Final = frozenset({"method", "session", "status"})


@dataclass(frozen=True, slots=True)
class Term:
    """One condition, in both its forms; ``indexed``: the database finds its rows by an index."""

    holds: Callable[[Line], bool]
    query: Q
    indexed: bool = False

    def turned(self) -> Term:
        """The opposite condition."""
        return Term(lambda line: not self.holds(line), ~self.query)


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for; ``problems`` name the terms that mean nothing, which leave nothing to be found."""

    terms: tuple[Term, ...] = ()
    problems: tuple[str, ...] = ()

    def holds(self, line: Line) -> bool:
        """Whether a line is among what is looked for."""
        return not self.problems and all(term.holds(line) for term in self.terms)

    def narrow(self, messages: QuerySet[Message]) -> QuerySet[Message]:
        """Only the stored messages that are looked for."""
        if self.problems:
            return messages.none()
        for term in self.terms:
            messages = messages.filter(term.query)
        return messages

    @property
    def reads_rows(self) -> bool:
        """Whether the database has to read rows that are not among the found ones."""
        return not all(term.indexed for term in self.terms)


class _Wrong(Exception):
    """A term that means nothing; the text says why."""


def parse(text: str) -> Search:
    """What ``text`` looks for. Asks the database for the names of users."""
    if len(text) > LONGEST:
        return Search(problems=(f"A search has at most {LONGEST} characters.",))
    found = list(_TERM.finditer(text.strip()))
    if len(found) > MOST_TERMS:
        return Search(problems=(f"A search has at most {MOST_TERMS} terms.",))
    terms, problems = [], []
    for term in found:
        try:
            terms.append(_term(term))
        except _Wrong as wrong:
            problems.append(str(wrong))
    return Search(tuple(terms), tuple(problems))


def _term(found: re.Match[str]) -> Term:
    minus, key, quoted, word = found.groups()
    value = quoted if quoted is not None else word
    if key is None:
        made = _words(value)
    elif key.lower() not in KEYS:
        raise _Wrong(f"There is no key “{marked(key)}”. Keys: {', '.join(KEYS)}. Put a text in quotes.")
    elif not value:
        raise _Wrong(f"The key “{marked(key)}” needs a value.")
    else:
        made = _keyed(key.lower(), value)
    return made.turned() if minus else made


def _words(value: str) -> Term:
    lower = value.lower()
    places = ("payload", "answer", "method", "target")
    query = Q()
    for place in places:
        query |= Q(**{f"{place}__icontains": value})
    return Term(lambda line: lower in line.text, query)


def _keyed(key: str, value: str) -> Term:
    match key:
        case "status":
            outcomes = _choice(key, value, STATUS)
            return Term(lambda line: line.outcome in outcomes, Q(outcome__in=outcomes), indexed=True)
        case "dir":
            direction = _choice(key, value, DIRECTIONS)
            return Term(lambda line: line.direction == direction, Q(direction=direction))
        case "user":
            return _user(value)
        case "ms":
            return _duration(value)
        case "tool":
            named = _text(key, value)
            return Term(
                lambda line: line.method.startswith(_OF_TOOLS) and named.holds(line),
                named.query & (Q(method="tools/call") | Q(method__startswith="notifications/")),
            )
    return _text(key, value)


def _choice(key: str, value: str, choices: Mapping[str, T]) -> T:
    if value.lower() not in choices:
        raise _Wrong(f"{key} is one of {', '.join(choices)}, not “{marked(value)}”.")
    return choices[value.lower()]


def _text(key: str, value: str) -> Term:
    column = _COLUMNS[key]
    stored = _STORED.get(column, column)
    if value.endswith("*"):
        start = value[:-1]
        return Term(
            lambda line: (getattr(line, column) or "").startswith(start),
            Q(**{f"{stored}__startswith": start}),
        )
    return Term(lambda line: getattr(line, column) == value, Q(**{stored: value}), indexed=key in _INDEXED)


def _user(value: str) -> Term:
    """A principal is ``user:<number>/key:<number>``: people know neither, but the name."""
    if value.isascii() and value.isdigit():
        number: int | None = int(value)
    else:
        users = get_user_model().objects.filter(**{get_user_model().USERNAME_FIELD: value})
        number = users.values_list("pk", flat=True).first()
    if number is None:
        return Term(lambda line: line.principal == value, Q(principal=value))
    whole, start = f"user:{number}", f"user:{number}/"
    return Term(
        lambda line: line.principal == whole or line.principal.startswith(start),
        Q(principal=whole) | Q(principal__startswith=start),
    )


def _duration(value: str) -> Term:
    found = _NUMBER.fullmatch(value)
    if found is None:
        raise _Wrong(f"ms is a number with < or > before it, such as ms:>250, not “{marked(value)}”.")
    bound = float(found[2]) * (1000 if found[3] == "s" else 1)
    if found[1] == "<":
        compare, query = operator.le, Q(duration_ms__lte=bound)
    else:
        compare, query = operator.ge, Q(duration_ms__gte=bound)
    return Term(lambda line: line.ms is not None and compare(line.ms, bound), query)
