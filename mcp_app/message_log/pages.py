"""Pages of the message log. A page takes a bounded amount of work, whatever the number of messages.

The most selective filter leads: its index yields messages in the order of their ids. The other filters are
applied to a limited window of these messages. No combination of filters therefore reads the whole log.
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

# Maximum number of messages examined per page: for combined filters, and for a search in the message text.
WINDOW: Final = 10_000
TEXT_WINDOW: Final = 5_000
LARGEST_ID: Final = 2**63 - 1
# Maximum number of matching messages that are counted, and the fields whose most frequent values are listed.
COUNTED: Final = 2_000
TOLD: Final = ("outcome", "method", "target", "principal")
COUNTS: Final = (*TOLD, "session_id")
MOST_VALUES: Final = 6
# The indexed fields, the most selective one first.
LEADING: Final = (
    "pending", "session", "incident", "request_id", "refusal", "target", "principal", "outcome", "method",
)  # fmt: skip
OTHERS: Final = ("direction",)
# Value of the outcome filter that matches both kinds of errors.
FAILED: Final = "failed"
# Value of the outcome filter that matches all answered requests.
ANSWERED: Final = "answered"
ERRORS: Final = (Message.Outcome.ERROR, Message.Outcome.TOOL_ERROR)


@dataclass(frozen=True, slots=True)
class MessagePage:
    """A page of messages, in ascending order of ids, and the starts of the adjacent pages.

    ``newer`` and ``older`` are ids from which to continue, or None at the end of the log. If the page reached
    its limit, ``looked_at`` is the number of examined messages and ``until`` the time of the last one.
    ``fitting`` selects all matching messages in this direction. If ``edge`` is not None, it is the last id
    that ``fitting`` includes.
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
    """Return the page of messages that match ``asked``, before or after an id, or the first page.

    ``without`` lists columns that the caller does not read.
    """
    upwards = after is not None or (before is None and not newest_first)
    window = _window(asked)
    fitting, edge = _fitting(asked, window, before, after, upwards=upwards)
    messages = list(fitting.defer(*without)[: size + 1])
    more = len(messages) > size
    messages = messages[:size]
    ahead = messages[-1].pk if more else edge
    # The page from which the reader came starts here.
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
    """Return the matching messages in reading order, and the last id of the window, or None."""
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
    """Return the id from which a reader returns from an empty page.

    It is chosen so that the returned page includes the message next to ``before`` or ``after``.
    """
    if before is not None:
        return max(before - 1, 0)
    return None if after is None else min(after + 1, LARGEST_ID)


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of matching messages, and the most frequent values of their fields.

    ``whole`` is True if all matching messages were counted. ``rest`` maps each field to two numbers: messages
    without a value, and messages with a value that is not listed. With them, the counts of a field add up to
    ``hits``.
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
    """Count the values of the newest matching messages.

    At most COUNTED messages within the window of a page are counted. If the caller has already read the page
    of the newest messages, it passes that page as ``newest``. If the page contains all matches, no message is
    read again. Otherwise its query is reused.
    """
    if newest is not None and (newest.older is None or newest.looked_at):
        rows = [tuple(getattr(message, name) for name in COUNTS) for message in reversed(newest.messages)]
        whole = not newest.looked_at
    else:
        rows, whole = _counted_rows(asked, newest)
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


def _counted_rows(asked: dict[str, Any], newest: MessagePage | None) -> tuple[list[Any], bool]:
    """Return the counted columns of at most COUNTED + 1 messages.

    The second item is True if these are all matching messages.
    """
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
    """Restrict messages to a period, by their ids.

    The result is approximate, because ids follow the order of arrival and not the messages' times.
    """
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
    """Return the filters, extended by those terms of the search that an index can serve."""
    search: Search | None = asked.get("search")
    if search is None:
        return asked
    exact = dict(term.exact for term in reversed(search.terms) if term.exact)
    return {**asked, **{name: value for name, value in exact.items() if not asked.get(name)}}


def _holds(query: Q) -> Narrow:
    return lambda found: found.filter(query)


def _narrowed(asked: dict[str, Any]) -> tuple[QuerySet[Message], list[Narrow]]:
    """Return the messages restricted by the leading filter, and the remaining filters."""
    asked = _searched(asked)
    given = [name for name in (*LEADING, *OTHERS) if asked.get(name)]
    if given and given[0] == "outcome" and asked["outcome"] == Message.Outcome.OK and "method" in given:
        given.remove("outcome")  # Most messages have the outcome "ok", so the method is more selective.
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
    """Return a filter that no index can serve, so that the planner uses the index of the leading filter."""
    expression = Concat(F("session_id" if name == "session" else name), Value(""))
    return lambda found: found.alias(**{f"only_{name}": expression}).filter(**{f"only_{name}": value})


_TIME: Final = Coalesce(F("at"), F("at"))
# A subquery per message keeps the planner from starting with the sessions.
_CLIENT: Final = Subquery(Session.objects.filter(pk=OuterRef("session_id")).values("client_name")[:1])
_OUTCOME: Final = Concat(F("outcome"), Value(""))


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _edge(candidates: QuerySet[Message], window: int, *, upwards: bool) -> int | None:
    """Return the id of the last message that may be examined.

    Returns None if fewer messages than the window remain.
    """
    furthest = (Max if upwards else Min)("pk")
    seen = candidates.values("pk")[:window].aggregate(edge=furthest, count=Count("pk"))
    return seen["edge"] if seen["count"] == window else None
