"""Finds one page of the message log through an index, with bounded work, however many messages there are.

One filter leads: its index hands out messages in the order of their ids. The other filters are tried on what
it hands out, and on no more than a window of that, so that no combination of filters reads the whole log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, Concat

from mcp_app.interface.clients import client_names
from mcp_app.message_log.search.language import Search
from mcp_app.models import LogMinute, Message, Session

# How many messages one page looks at when several filters hold, and when words are looked for in their text.
WINDOW: Final = 10_000
TEXT_WINDOW: Final = 5_000
LARGEST_ID: Final = 2**63 - 1
# How many messages that fit are counted, and of which fields their values are told, the most frequent ones.
COUNTED: Final = 2_000
TOLD: Final = ("outcome", "method", "target", "principal")
COUNTS: Final = (*TOLD, "session_id")
MOST_VALUES: Final = 6
# The fields that have an index, the most telling ones first.
LEADING: Final = ("session", "request_id", "refusal", "target", "principal", "outcome", "method")
OTHERS: Final = ("direction",)
# An outcome to ask for that stands for both kinds of error.
FAILED: Final = "failed"
# One that stands for all of them: a request that was answered, whatever with.
ANSWERED: Final = "answered"
ERRORS: Final = (Message.Outcome.ERROR, Message.Outcome.TOOL_ERROR)


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages in ascending order, and where the pages beside them begin.

    ``newer`` and ``older`` are ids to go on from, None where nothing is left. ``looked_at`` is how many
    messages were looked at when that was all a page may, and ``until`` the time of the last one. ``fitting``
    are the messages of which these are the first ones: all that fit in this direction, or, if ``edge`` is an
    id, those up to it.
    """

    messages: list[Message]
    newer: int | None
    older: int | None
    looked_at: int = 0
    until: datetime | None = None
    fitting: QuerySet[Message] | None = None
    edge: int | None = None


def find(
    asked: dict[str, Any],
    *,
    before: int | None,
    after: int | None,
    newest_first: bool,
    size: int,
    without: tuple[str, ...] = (),
) -> MessagePage:
    """The page of messages that fit ``asked`` before or after an id; both None: the first page.

    ``without`` are columns that the caller does not read.
    """
    upwards = after is not None or (before is None and not newest_first)
    window = _window(asked)
    fitting, edge = _fitting(asked, window, before, after, upwards=upwards)
    messages = list(fitting.defer(*without)[: size + 1])
    more = len(messages) > size
    messages = messages[:size]
    ahead = messages[-1].pk if more else edge
    # What lies behind: the page that was come from.
    behind = messages[0].pk if messages else _included(before, after)
    back = behind if before is not None or after is not None else None
    if upwards:
        newer, older = ahead, back
    else:
        newer, older = back, ahead
        messages.reverse()
    found = MessagePage(messages, newer, older, fitting=fitting, edge=edge)
    if edge is None or len(messages) == size:
        return found
    return replace(found, looked_at=window, until=Message.objects.values_list("at", flat=True).get(pk=edge))


def _fitting(
    asked: dict[str, Any], window: int, before: int | None, after: int | None, *, upwards: bool
) -> tuple[QuerySet[Message], int | None]:
    """The messages that fit, in the order they are read in; and up to which id, if a window bounds them."""
    candidates, rest = _narrowed(asked)
    if before is not None:
        candidates = candidates.filter(pk__lt=before)
    if after is not None:
        candidates = candidates.filter(pk__gt=after)
    candidates = candidates.order_by("pk" if upwards else "-pk")
    edge = _edge(candidates, window, upwards=upwards) if rest else None
    if edge is not None:
        candidates = candidates.filter(pk__lte=edge) if upwards else candidates.filter(pk__gte=edge)
    for narrow in rest:
        candidates = narrow(candidates)
    return candidates, edge


def _included(before: int | None, after: int | None) -> int | None:
    """Where the way back from an empty page begins: the row it went on from is on the page that was left."""
    if before is not None:
        return max(before - 1, 0)
    return None if after is None else min(after + 1, LARGEST_ID)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many messages fit, and how often each value is among them; ``whole``: all that fit were counted.

    ``rest`` is, of each field, how many messages have none, and how many have another value: with these, the
    counts of a field add up to ``hits``.
    """

    hits: int
    whole: bool
    values: dict[str, list[tuple[str, int]]]
    rest: dict[str, tuple[int, int]]

    def __str__(self) -> str:
        if not self.whole:
            return f"At least {self.hits:,} messages match."
        return "1 message matches." if self.hits == 1 else f"{self.hits:,} messages match."


def tally(asked: dict[str, Any], newest: MessagePage | None = None) -> Tally:
    """Of the newest messages that fit, at most COUNTED and in the window of a page, what they are.

    ``newest`` is the page of the newest ones, where it was read: what fits is then known, and if the page has
    all of it, none is read again.
    """
    if newest is not None and (newest.older is None or newest.looked_at):
        rows = [tuple(getattr(message, name) for name in COUNTS) for message in reversed(newest.messages)]
        whole = not newest.looked_at
    else:
        rows, whole = _told(asked, newest)
    hits = min(len(rows), COUNTED)
    clients = client_names(row[-1] for row in rows[:COUNTED] if row[-1])
    values: dict[str, list[tuple[str, int]]] = {}
    others: dict[str, tuple[int, int]] = {}
    for place, name in enumerate((*TOLD, "client")):
        said = (row[place] for row in rows[:COUNTED])
        counts = Counter(clients.get(value, "") if name == "client" else value for value in said)
        without = counts.pop("", 0)
        values[name] = counts.most_common(MOST_VALUES)
        others[name] = (without, hits - without - sum(count for _, count in values[name]))
    return Tally(hits, whole, values, others)


def _told(asked: dict[str, Any], newest: MessagePage | None) -> tuple[list[Any], bool]:
    """What is counted, of one message more than COUNTED at most; and whether these are all that fit."""
    if newest is not None and newest.fitting is not None:
        fitting, edge = newest.fitting, newest.edge
    else:
        fitting, edge = _fitting(asked, _window(asked), None, None, upwards=False)
    rows = list(fitting.values_list(*COUNTS)[: COUNTED + 1])
    return rows, edge is None and len(rows) <= COUNTED


Narrow = Callable[[QuerySet[Message]], QuerySet[Message]]


def _window(asked: dict[str, Any]) -> int:
    search: Search | None = asked.get("search")
    return TEXT_WINDOW if asked.get("text") or (search and search.reads_text) else WINDOW


def between(messages: QuerySet[Message], since: datetime | None, until: datetime | None) -> QuerySet[Message]:
    """By their ids, those that may be of this time: the log is in order of arrival, not quite of time."""
    if since:
        first = LogMinute.objects.filter(at__gte=_minute(since)).aggregate(Min("first_id"))["first_id__min"]
        messages = messages if first is None else messages.filter(pk__gte=first)
    if until:
        last = LogMinute.objects.filter(at__lte=until).aggregate(Max("last_id"))["last_id__max"]
        if last is not None:
            messages = messages.filter(pk__lte=last)
        elif LogMinute.objects.exists():
            return messages.none()
    return messages


def _searched(asked: dict[str, Any]) -> dict[str, Any]:
    """What was asked for with what its search says in a way that an index can serve."""
    search: Search | None = asked.get("search")
    if search is None:
        return asked
    exact = dict(term.exact for term in reversed(search.terms) if term.exact)
    return {**asked, **{name: value for name, value in exact.items() if not asked.get(name)}}


def _holds(query: Q) -> Narrow:
    return lambda found: found.filter(query)


def _narrowed(asked: dict[str, Any]) -> tuple[QuerySet[Message], list[Narrow]]:
    """Messages narrowed by what an index can do, and the filters that are left."""
    asked = _searched(asked)
    given = [name for name in (*LEADING, *OTHERS) if asked.get(name)]
    if given and given[0] == "outcome" and asked["outcome"] == Message.Outcome.OK and "method" in given:
        given.remove("outcome")  # Most messages are in order: the method tells more.
        given.append("outcome")
    outcome = asked.get("outcome")
    if outcome in (FAILED, ANSWERED):
        given.remove("outcome")
    messages, rest = Message.objects.all(), [_equals(name, asked[name]) for name in given]
    if given and given[0] in LEADING:
        messages, rest = messages.filter(**{given[0]: asked[given[0]]}), rest[1:]
    if outcome == FAILED:
        rest.append(lambda found: found.alias(only_outcome=_OUTCOME).filter(only_outcome__in=ERRORS))
    if outcome == ANSWERED:
        rest.append(lambda found: found.alias(only_outcome=_OUTCOME).exclude(only_outcome=""))
    if client := asked.get("client"):
        rest.append(lambda found: found.alias(client=_CLIENT).filter(client=client))
    since, until = asked.get("since"), asked.get("until")
    messages = between(messages, since, until)
    if since:
        rest.append(lambda found: found.alias(time=_TIME).filter(time__gte=since))
    if until:
        rest.append(lambda found: found.alias(time=_TIME).filter(time__lte=until))
    if search := asked.get("search"):
        messages = between(messages, search.begin, search.end)
        served = [Q(**{name: asked[name]}) for name in (*LEADING, *OTHERS) if asked.get(name)]
        rest += [_holds(term.query) for term in search.terms if term.query not in served]
    if text := asked.get("text"):
        within = Q(payload__icontains=text) | Q(answer__icontains=text)
        rest.append(lambda found: found.filter(within))
    return messages, rest


def _equals(name: str, value: str) -> Narrow:
    """A filter that no index can serve: a planner must not leave the leading one for it."""
    expression = Concat(F("session_id" if name == "session" else name), Value(""))
    return lambda found: found.alias(**{f"only_{name}": expression}).filter(**{f"only_{name}": value})


_TIME: Final = Coalesce(F("at"), F("at"))
# One look at a session for each message tried: a planner must not begin with the sessions.
_CLIENT: Final = Subquery(Session.objects.filter(pk=OuterRef("session_id")).values("client_name")[:1])
_OUTCOME: Final = Concat(F("outcome"), Value(""))


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _edge(candidates: QuerySet[Message], window: int, *, upwards: bool) -> int | None:
    """The id of the last message that may be looked at; None when there are fewer than a window's."""
    furthest = (Max if upwards else Min)("pk")
    seen = candidates.values("pk")[:window].aggregate(edge=furthest, count=Count("pk"))
    return seen["edge"] if seen["count"] == window else None
