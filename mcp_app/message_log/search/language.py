"""The search language of the log, which matches live and stored lines alike.

An example is ``tool:echo status:failed user:ada since:2h -method:ping "two words"``. All terms must match. A
minus negates a term, and a star at the end of a value matches any continuation. Words without a key are
searched in the messages.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, TypeVar

from django.contrib.auth import get_user_model
from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.db.models.lookups import GreaterThanOrEqual, IExact, IStartsWith, LessThanOrEqual

from mcp_app.interface.text import marked
from mcp_app.message_log.log import PENDING_MARKS
from mcp_app.message_log.search.times import NotATime, begin_of, end_of
from mcp_app.models import Message, Session

T = TypeVar("T")
LONGEST = 300
MOST_TERMS = 12
# A key with a value, or a single word. Value and word may be quoted, and the closing quote may be missing.
_TERM = re.compile(r'(-?)(?:([A-Za-z_]+):)?(?:"([^"]*)"?|(\S+))')
_NUMBER = re.compile(r"([<>]?)=?([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s)?")

STATUS: Final = {
    "succeeded": ("ok",),
    "failed": ("error", "tool_error"),
    "tool_error": ("tool_error",),
    "protocol_error": ("error",),
    "refused": ("refused",),
    "cancelled": ("cancelled",),
    "asked": ("asked",),
    # The names of earlier versions, for saved searches and links.
    "ok": ("ok",),
    "error": ("error", "tool_error"),
}
DIRECTIONS: Final = {"in": "in", "out": "out"}
# Description of each key, for users.
KEYS: Final = {
    "tool": 'name of the called tool; tool:"" finds calls of unknown tools',
    "target": "name of the tool, prompt or resource",
    "status": "succeeded, failed, refused, cancelled or asked (for input); tool_error or protocol_error "
    "finds one kind of failure",
    "refusal": "code of a refused call, such as rate_limited",
    "incident": "ID of an unexpected error, such as 1f2e3d4c",
    "user": "username, or key such as user:1/key:2",
    "client": "name of the client",
    "since": "earliest time, such as 2h (2 hours ago), 30m, 7d, today, 14:05, 2026-11-23 or 2026-11-23T14:05",
    "until": "latest time, written like since; includes the whole day or minute",
    "method": "MCP method, such as tools/call",
    "dir": "in (client → server) or out (server → client)",
    "id": "JSON-RPC id of the request",
    "session": "session id",
    "kind": "request, notification, response or resumed (a stream); running or waiting finds requests "
    "without a response",
    "process": "name of the server process",
    "ms": "duration: ms:>250, ms:<5 or ms:>2s",
}
_COLUMNS: Final = {
    "tool": "target",
    "target": "target",
    "method": "method",
    "refusal": "refusal",
    "incident": "incident",
    "id": "request_id",
    "session": "session",
    "kind": "kind",
    "process": "process",
}
# With an empty quoted value, these keys match lines without a target.
_MAY_BE_NONE: Final = frozenset({"tool", "target"})
_LEADING: Final = frozenset({"target", "method", "request_id", "session", "refusal", "incident"})
# Methods of lines whose target is a tool: calls, and messages sent on behalf of a call.
_OF_TOOLS: Final = ("tools/call", "notifications/")
# Maps fields of a line to columns where the names differ.
_STORED: Final = {"session": "session__pk"}
# Keys whose terms the database serves from an index. For other terms it reads rows.
_INDEXED: Final = frozenset({"method", "session", "status", "refusal", "incident"})
# No index can serve these expressions. The planner therefore uses the index that yields rows in order.
_TIME: Final = Coalesce(F("at"), F("at"))
_CLIENT: Final = Coalesce(
    Subquery(Session.objects.filter(pk=OuterRef("session_id")).values("client_name")[:1]), Value("")
)


class SearchedLine(Protocol):
    """The fields of a live line that a search reads. ``client`` is filled only if the search needs it."""

    at: float
    client: str
    direction: str
    kind: str
    method: str
    ms: float | None
    outcome: str
    principal: str
    refusal: str
    incident: str

    @property
    def text(self) -> str:
        """The text in which words without a key are searched, in lower case."""


@dataclass(frozen=True, slots=True)
class Term:
    """A condition of a search, both as a function of a line and as a database query.

    ``indexed`` is True if the database finds the rows with an index. ``exact`` is a column and the value it
    must have, if the term requires one. ``begin`` and ``end`` limit the times that can match.
    """

    holds: Callable[[SearchedLine], bool]
    query: Q
    indexed: bool = False
    exact: tuple[str, str] | None = None
    begin: datetime | None = None
    end: datetime | None = None
    asks_for_client: bool = False
    reads_text: bool = False

    def turned(self) -> Term:
        """Return the negated condition."""
        return Term(
            lambda line: not self.holds(line), ~self.query,
            asks_for_client=self.asks_for_client, reads_text=self.reads_text,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Search:
    """A parsed search. ``problems`` describe the invalid terms. A search with problems matches nothing."""

    terms: tuple[Term, ...] = ()
    problems: tuple[str, ...] = ()

    def holds(self, line: SearchedLine) -> bool:
        """Return True if a line matches."""
        return not self.problems and all(term.holds(line) for term in self.terms)

    def narrow(self, messages: QuerySet[Message]) -> QuerySet[Message]:
        """Return those ``messages`` that match."""
        if self.problems:
            return messages.none()
        for term in self.terms:
            messages = messages.filter(term.query)
        return messages

    @property
    def begin(self) -> datetime | None:
        """The earliest time that can match, or None."""
        return max((term.begin for term in self.terms if term.begin), default=None)

    @property
    def end(self) -> datetime | None:
        """The latest time that can match, or None."""
        return min((term.end for term in self.terms if term.end), default=None)

    @property
    def pending(self) -> str:
        """The kind of mark that the search is limited to, or "": few requests are pending at a time."""
        return next((term.exact[1] for term in self.terms if term.exact and term.exact[0] == "pending"), "")

    @property
    def asks_for_client(self) -> bool:
        """True if the search needs the client name of live lines."""
        return any(term.asks_for_client for term in self.terms)

    @property
    def reads_text(self) -> bool:
        """True if the database must read whole messages, which takes longer."""
        return any(term.reads_text for term in self.terms)

    @property
    def reads_rows(self) -> bool:
        """True if the database must read rows that do not match."""
        return not all(term.indexed for term in self.terms)


class _Wrong(Exception):
    """Raised for an invalid term. The text explains the problem to the user."""


def parse(text: str) -> Search:
    """Parse a search. Queries the database to resolve user names."""
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


def term_of(key: str, value: str) -> str:
    """Return the term that matches exactly this value, or "" if the language cannot express it."""
    if key == "status":
        value = next((name for name, outcomes in STATUS.items() if outcomes == (value,)), "")
    if not value or '"' in value or value.endswith("*"):
        return ""
    return f"{key}:{value}" if re.fullmatch(r"\S+", value) else f'{key}:"{value}"'


def without(key: str, text: str) -> str:
    """Return the text of a search without the terms that have this key."""
    return " ".join(found[0] for found in _TERM.finditer(text) if (found[2] or "").lower() != key)


def _term(found: re.Match[str]) -> Term:
    minus, key, quoted, word = found.groups()
    value = quoted if quoted is not None else word
    if key is None:
        made = _words(value)
    elif key.lower() not in KEYS:
        known = ", ".join(KEYS)
        raise _Wrong(
            f"Unknown search term “{marked(key)}:”. Known: {known}. "
            "To search for this text, put it in quotes."
        )
    elif not value and not (quoted is not None and key.lower() in _MAY_BE_NONE):
        raise _Wrong(f"The term “{marked(key)}” needs a value.")
    else:
        made = _keyed(key.lower(), value)
    return made.turned() if minus else made


def _words(value: str) -> Term:
    lower = value.lower()
    places = ("payload", "answer", "method", "target")
    query = Q()
    for place in places:
        query |= Q(**{f"{place}__icontains": value})
    return Term(lambda line: lower in line.text, query, reads_text=True)


def _keyed(key: str, value: str) -> Term:
    match key:
        case "status":
            outcomes = _choice(key, value, STATUS)
            if len(outcomes) > 1:
                return Term(lambda line: line.outcome in outcomes, Q(outcome__in=outcomes), True)
            (outcome,) = outcomes
            return Term(lambda line: line.outcome == outcome, Q(outcome=outcome), True, ("outcome", outcome))
        case "dir":
            direction = _choice(key, value, DIRECTIONS)
            return Term(lambda line: line.direction == direction, Q(direction=direction))
        case "user":
            return _user(value)
        case "ms":
            return _duration(value)
        case "client":
            return _client(value)
        case "since" | "until":
            return _time(key, value)
        case "kind" if value in PENDING_MARKS:
            return Term(lambda line: line.kind == value, Q(pending=value), True, ("pending", value))
        case "tool":
            named = _text(key, value)
            return Term(
                lambda line: line.method.startswith(_OF_TOOLS) and named.holds(line),
                named.query & (Q(method="tools/call") | Q(method__startswith="notifications/")),
                exact=named.exact,
            )
    return _text(key, value)


def _choice(key: str, value: str, choices: Mapping[str, T]) -> T:
    if value.lower() not in choices:
        raise _Wrong(f"{key} must be one of {', '.join(choices)}, not “{marked(value)}”.")
    return choices[value.lower()]


def _text(key: str, value: str) -> Term:
    column = _COLUMNS[key]
    if value.endswith("*"):
        start, stored = value[:-1], _STORED.get(column, column)
        return Term(
            lambda line: (getattr(line, column) or "").startswith(start),
            Q(**{f"{stored}__startswith": start}),
        )
    exact = (column, value) if column in _LEADING else None
    return Term(lambda line: getattr(line, column) == value, Q(**{column: value}), key in _INDEXED, exact)


def _user(value: str) -> Term:
    """Return the term for a user name, a user's number, or a principal.

    A number or a user name matches all principals of that user, such as ``user:<number>/key:<number>``.
    """
    if value.isascii() and value.isdigit():
        number: int | None = int(value)
    else:
        users = get_user_model().objects.filter(**{get_user_model().USERNAME_FIELD: value})
        number = users.values_list("pk", flat=True).first()
    if number is None:
        return Term(lambda line: line.principal == value, Q(principal=value), exact=("principal", value))
    whole, start = f"user:{number}", f"user:{number}/"
    return Term(
        lambda line: line.principal == whole or line.principal.startswith(start),
        Q(principal=whole) | Q(principal__startswith=start),
    )


def _client(value: str) -> Term:
    """Return the term for a client name. Case is ignored."""
    lower, begins = value.lower().removesuffix("*"), value.endswith("*")

    def holds(line: SearchedLine) -> bool:
        client = line.client.lower()
        return client.startswith(lower) if begins else client == lower

    query = Q(IStartsWith(_CLIENT, value[:-1]) if begins else IExact(_CLIENT, value))
    return Term(holds, query, asks_for_client=True)


def _time(key: str, value: str) -> Term:
    try:
        if key == "since":
            begin = begin_of(value)
            return Term(
                lambda line: line.at >= begin.timestamp(), Q(GreaterThanOrEqual(_TIME, begin)), begin=begin
            )
        end = end_of(value)
        return Term(lambda line: line.at <= end.timestamp(), Q(LessThanOrEqual(_TIME, end)), end=end)
    except NotATime:
        raise _Wrong(
            f"{key} must be a time, such as 2h, today, 14:05 or 2026-11-23T14:05, not “{marked(value)}”."
        ) from None


def _duration(value: str) -> Term:
    found = _NUMBER.fullmatch(value)
    if found is None:
        raise _Wrong(f"ms must be a number after < or >, such as ms:>250, not “{marked(value)}”.")
    bound = float(found[2]) * (1000 if found[3] == "s" else 1)
    if found[1] == "<":
        compare, query = operator.le, Q(duration_ms__lte=bound)
    else:
        compare, query = operator.ge, Q(duration_ms__gte=bound)
    return Term(lambda line: line.ms is not None and compare(line.ms, bound), query)
