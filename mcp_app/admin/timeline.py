"""Pages of the message log: filters, rows, and links to the adjacent pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson
from django import forms
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from mcp_app.admin.log.form import FOLDED, TimelineForm, in_one_search
from mcp_app.admin.markup import in_utc
from mcp_app.auth.principal_names import principal_names
from mcp_app.database import clock
from mcp_app.interface.results import Result, result_of
from mcp_app.interface.summary import asked_name, summary, text_title
from mcp_app.interface.text import UNNAMED_CLIENT, indented_json, visible_block
from mcp_app.message_log.broadcasts import are_grouped, until_full
from mcp_app.message_log.counts.figures import Expected, expected
from mcp_app.message_log.counts.refusals import RefusalCount, refusal_counts
from mcp_app.message_log.pages import ERRORS, MessagePage, Tally, find, tally
from mcp_app.message_log.search.language import term_of, without
from mcp_app.models import Message
from mcp_app.observability.incidents import StoredException, number_in
from mcp_app.protocol.messages.trace_context import TraceContext, read

PAGE_SIZE = 50
SHOWN_CHARACTERS = 2_000
# Larger than any logged payload, even after indentation.
LONGEST_SHOWN = 200_000
# For each field: name, label, key in the search language, and label for messages without a value.
FACETS: Final = (
    ("outcome", "Status", "status", "no status"),
    ("method", "Method", "method", "no method"),
    ("target", "Tool, prompt or resource", "target", "none, or unknown"),
    ("principal", "User", "user", "no user"),
    ("client", "Client", "client", UNNAMED_CLIENT),
)

RECENT: Final = {"15m": "Last 15 min", "1h": "Last hour", "today": "Today"}
# Formats of downloads, which the console serves.
FORMS: Final = ("jsonl", "har")


class Mark(NamedTuple):
    """The sign in place of a message's arrow, the word in place of its outcome, and the sign's meaning."""

    sign: str
    word: str
    meaning: str


# Display of log lines that mark the state of a request. ``line.js`` of the live console has a copy of this
# table.
MARKS: Final = {
    "running": Mark("⋯", "running", "no response yet"),
    "waiting": Mark("⋯", "waiting for approval", "no response yet"),
    "queued": Mark("⋯", "queued", "no response yet"),
    "resumed": Mark("↻", "resumed", "the client resumed a stream"),
}


class Pane(NamedTuple):
    """A payload for display: escaped, indented and truncated."""

    html: SafeString
    characters: int
    cut: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """The unexpected exception behind an answer. ``pane`` is None if the message log has no details of it."""

    number: str
    pane: Pane | None

    @classmethod
    def of(cls, answer: str, exception: str | None) -> Failure | None:
        """Return the exception behind an answer, or None if the answer names no incident."""
        raised, number = StoredException.read(exception), number_in(answer)
        if raised is None:
            return cls(number, None) if number else None
        return cls(number, Pane(visible_block(raised.text), len(raised.text), cut=False))


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A message for display, with its request and answer side by side. ``said`` is its summary.

    ``day`` is the date of the message if the message above has another date, except for today's date.

    A notification of many sessions is one row: ``notified`` is their number, and ``each_url`` the address of
    all its messages.
    """

    message: Message
    request: Pane | None
    answer: Pane | None
    said: str
    notified: int = 0
    each_url: str = ""
    day: str = ""

    @property
    def title(self) -> str:
        """The heading of the message's text."""
        return text_title(self.message.kind)

    @property
    def result(self) -> Result | None:
        """The result of the request, or None for a message without a response."""
        return result_of(self.message.outcome)

    @property
    def detail(self) -> str:
        """The kind of error with its code, or the code of a refusal, or ""."""
        message, result = self.message, self.result
        code = "" if message.code is None else f"{message.code:d}"
        return message.refusal or f"{result.detail if result else ''} {code}".strip()

    @property
    def asked(self) -> str:
        """The name that a call of an unknown tool asked for, or ""."""
        return asked_name(self.message.method, self.message.target, self.message.payload)

    @property
    def failure(self) -> Failure | None:
        """The unexpected exception because of which the request failed, or None."""
        if self.message.outcome not in ERRORS:
            return None
        return Failure.of(self.message.answer, self.message.exception)

    @property
    def mark(self) -> Mark | None:
        """The label of a log line that is not a message, or None for a message."""
        return MARKS.get(self.message.kind)


class FacetValue(NamedTuple):
    """A value of a field, with its count among the newest matching messages.

    ``url`` is the address of the search limited to this value. It is "" if the search language cannot express
    the value.
    """

    title: str
    number: int
    url: str = ""


class Facet(NamedTuple):
    """A field with its most frequent values."""

    title: str
    values: list[FacetValue]


class Recent(NamedTuple):
    """A shortcut to a recent period: its label, and the address of the same search in that period."""

    title: str
    url: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """A page of the message log, with the queries of the adjacent pages."""

    form: TimelineForm
    rows: list[TimelineRow]
    newest_first: bool
    newer: str | None
    older: str | None
    filtered: bool
    looked_at: int = 0
    until: datetime | None = None
    expected: Expected | None = None
    tally: Tally | None = None
    facets: list[Facet] = field(default_factory=list)
    session: str = ""

    @property
    def hits(self) -> str:
        """The number of matching messages as text. The text states if not all were counted."""
        return str(self.tally) if self.tally else ""

    @property
    def problems(self) -> str:
        """The errors of all filters in one line."""
        return " ".join(
            # The errors of the search name their terms, and stand below the words "The search has an error".
            str(each)
            if name == "q"
            else f"{self.form.fields[name].label or name.replace('_', ' ').capitalize()}: {each}"
            for name, found in self.form.errors.items()
            for each in found
        )

    @property
    def fields(self) -> list[forms.BoundField]:
        """The form fields that are always visible."""
        return [each for each in self.form.visible_fields() if each.name not in FOLDED]

    @property
    def folded(self) -> list[forms.BoundField]:
        """The form fields that are collapsed unless they are used."""
        return [each for each in self.form.visible_fields() if each.name in FOLDED]

    @property
    def used(self) -> int:
        """The number of collapsed fields with a value or an error."""
        return sum(bool(each.value() or each.errors) for each in self.folded)

    @property
    def recent(self) -> list[Recent]:
        """Shortcuts to recent periods. They replace the time limits of the current search."""
        asked = {name: self.form.data.get(name, "") for name in self.form.fields}
        for name in ("since", "until", "before", "after"):
            asked.pop(name)
        q = without("since", asked.pop("q"))
        kept = {name: value for name, value in asked.items() if value}
        return [
            Recent(title, _narrower({**kept, "q": q}, term), term in self.form.data.get("q", "").split())
            for ago, title in RECENT.items()
            if (term := f"since:{ago}")
        ]

    @property
    def downloads(self) -> list[tuple[str, str]]:
        """The formats and addresses of downloads of the matching messages, if the console is available."""
        try:
            address = reverse("mcp_console:download")
        except NoReverseMatch:
            return []
        asked = {"search": self.text, "session": self.session}
        return [(form.upper(), f"{address}?{urlencode({'form': form, **asked})}") for form in FORMS]

    @property
    def text(self) -> str:
        """All filters combined into one search text."""
        return in_one_search(self.form.cleaned_data) if self.form.is_valid() else ""

    @property
    def further(self) -> str | None:
        """The query string that continues the search, or None.

        It is set if the search reached its limit before the page was full.
        """
        return (self.older if self.newest_first else self.newer) if self.looked_at else None


def pane(text: str, limit: int) -> Pane | None:
    """Return ``text`` for a ``pre`` element, truncated to ``limit`` characters, or None if it is empty."""
    if not text:
        return None
    shown = indented_json(text, limit + 1)
    return Pane(visible_block(shown[:limit]), len(text), len(shown) > limit or len(text) > limit)


def trace_of(text: str) -> TraceContext | None:
    """Return the trace context in the ``_meta`` of a logged request.

    Returns None if there is none or if the logged text was truncated.
    """
    try:
        message = orjson.loads(text)
    except ValueError:
        return None
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return read(meta) if isinstance(meta, dict) else None


def row(message: Message, limit: int = SHOWN_CHARACTERS, others: Sequence[Message] = ()) -> TimelineRow:
    """Return a message for display. Request and answer are truncated to ``limit`` characters.

    ``others`` are the messages that notify further sessions of the same change.
    """
    said = summary(message.kind, message.method, message.payload, message.answer, message.outcome)
    shown = TimelineRow(message, pane(message.payload, limit), pane(message.answer, limit), said)
    if not others:
        return shown
    every = [message, *others]
    times = sorted(each.at for each in every)
    # The time in a search has whole seconds; the last one is included.
    period = f"since:{in_utc(times[0])} until:{in_utc(times[-1])}"
    sessions = len({each.session_id for each in every})
    url = "?" + urlencode({"q": f"{term_of('method', message.method)} {period}"})
    return replace(shown, notified=sessions, each_url=url)


def dated(rows: Sequence[TimelineRow]) -> list[TimelineRow]:
    """Return rows in the order of a page, with a day where the date changes."""
    today = before = timezone.localtime(clock.utcnow()).date()
    found = []
    for each in rows:
        day = timezone.localtime(each.message.at).date()
        found.append(replace(each, day=f"{day}") if day not in (before, today) else each)
        before = day
    return found


def filters_of(query: Any) -> Timeline:
    """Return the filters in ``query`` (a QueryDict) without any rows, for the live log."""
    return Timeline(TimelineForm(query), [], newest_first=True, newer=None, older=None, filtered=False)


def timeline(query: Any, *, session: str = "", size: int = PAGE_SIZE) -> Timeline:
    """Return the page of the log for ``query`` (a QueryDict).

    If a filter is invalid, the page has no rows and the form has the errors.
    """
    form = TimelineForm(query)
    if not form.is_valid():
        return Timeline(form, [], newest_first=True, newer=None, older=None, filtered=True)
    asked = dict(form.cleaned_data)
    if session:
        asked["session"] = session
    newest_first = asked["order"] != "oldest"
    upwards = asked["after"] is not None or (asked["before"] is None and not newest_first)
    place = {"before": asked["before"], "after": asked["after"]}

    def page(**at: int | None) -> MessagePage:
        return find(asked, **{**place, **at}, newest_first=newest_first, size=size)

    def further(read: MessagePage) -> MessagePage | None:
        """Return the next page in reading order: newest first is read towards older messages."""
        if upwards:
            return page(before=None, after=read.newer) if read.newer is not None else None
        return page(before=read.older, after=None) if read.older is not None else None

    found = last = page()
    messages, groups = found.messages, {}
    if are_grouped(asked):
        messages, last, others = until_full(found, size, further, upwards=upwards)
        groups = others.others
    # The rows are in the order of arrival, which depends on when each process flushes its lines. They are
    # sorted by time for display.
    in_time = sorted(messages, key=lambda message: (message.at, message.pk), reverse=newest_first)
    first = asked["before"] is None and asked["after"] is None
    newer, older = (last.newer, found.older) if upwards else (found.newer, last.older)
    kept = {name: query[name] for name in form.fields if name not in ("before", "after") and query.get(name)}
    kept |= {name: in_utc(asked[name]) for name in ("since", "until") if asked[name]}
    filtered = bool(kept.keys() - {"order"})
    # The counts are about a search. Without one, they would cost more than the page's rows.
    counted = tally(asked, found if newest_first else None) if first and filtered else None
    return Timeline(
        form,
        dated([row(message, others=groups.get(message.pk, ())) for message in in_time]),
        newest_first,
        newer=None if newer is None else urlencode({**kept, "after": newer}),
        older=None if older is None else urlencode({**kept, "before": older}),
        filtered=filtered,
        looked_at=last.looked_at,
        until=last.until,
        expected=None if session else expected(asked, clock.utcnow()),
        tally=counted,
        facets=_facets(counted, kept) if counted else [],
        session=session,
    )


def _facets(counted: Tally, kept: dict[str, str]) -> list[Facet]:
    """Return the most frequent values of each field, unless all messages have the same value."""
    found = []
    for name, title, key, missing in FACETS:
        names: dict[str, str] = dict(Message.Outcome.choices) if name == "outcome" else {}
        if name == "principal":
            names = principal_names([value for value, _ in counted.values[name]])
        values = [
            FacetValue(names.get(value, value), count, _narrower(kept, term_of(key, value)))
            for value, count in counted.values[name]
        ]
        rest = zip((missing, "other"), counted.rest[name], strict=True)
        values += [FacetValue(said, count) for said, count in rest if count]
        if len(values) > 1:
            found.append(Facet(title, values))
    return found


def _narrower(kept: dict[str, str], term: str) -> str:
    """Return the query string of the search with an additional term, or "" if there is no term."""
    return "?" + urlencode({**kept, "q": f"{kept.get('q', '')} {term}".strip()}) if term else ""


def refusals_of(
    since: datetime, until: datetime | None = None, tool: str = ""
) -> list[tuple[RefusalCount, str]]:
    """Return the number of refused calls in a period by code.

    Each is returned with the address of its messages.
    """
    time = {"since": in_utc(since)} if until is None else {"since": in_utc(since), "until": in_utc(until)}
    page = reverse("admin:mcp_app_message_changelist")
    limit = {"target": tool} if tool else {}
    return [
        (found, f"{page}?{urlencode({'q': f'refusal:{found.code}', **limit, **time})}")
        for found in refusal_counts(since, until, tool)
    ]
