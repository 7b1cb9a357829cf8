"""Search for sessions, background calls and messages by id, name or person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import nsmallest
from typing import Any, Final
from uuid import UUID

from django.db.models import Case, QuerySet, TextField, Value, When
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from mcp_app.admin.calls.argument_search import MOST_FOUND, MOST_OPEN, ArgumentMatches, open_calls
from mcp_app.admin.calls.call_page import state_of
from mcp_app.admin.markup import written
from mcp_app.admin.search.found import (
    MENTIONS,
    MOST_OF_KIND,
    SAYS,
    SearchResult,
    better,
    page_of,
    place,
    rank_of,
)
from mcp_app.auth.principal_names import principal_names
from mcp_app.models import Call, Message, Session

NEWEST_SESSIONS: Final = 1_000
LEAST_ID: Final = 16
LARGEST_ID: Final = 2**63 - 1
# Columns read for every candidate. Other columns are read for results only.
READ: Final = ("pk", "principal", "tool")
# Shorter queries would occur in almost all arguments.
LEAST_SAID: Final = 3


def sessions(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    """Yield sessions that match by id, client name or person."""
    if not request.user.has_perm("mcp_app.view_session"):
        return
    columns = ("pk", "client_name", "client_version", "principal")
    # A session that is not among the newest is found by its complete id only.
    named = Session.objects.filter(pk=text[:64]) if len(text) >= LEAST_ID else Session.objects.none()
    rows = [*named.values_list(*columns)]
    rows += Session.objects.order_by("-created_at").values_list(*columns)[:NEWEST_SESSIONS]
    names = _names(request, {row[3] for row in rows})
    of_person = _ranks(text, names)
    of_client = {client: rank_of(text, client) for client in {row[1] for row in rows}}
    fit = [
        (rank, row)
        for row in rows
        if (rank := better(better(rank_of(text, row[0]), of_client[row[1]]), of_person[row[3]])) is not None
    ]
    # A session found by its id may also be among the newest, so duplicates are removed.
    near = nsmallest(2 * MOST_OF_KIND, fit, key=lambda each: (each[0], len(each[1][1] or each[1][0])))
    best = [*dict.fromkeys(near)][:MOST_OF_KIND]
    # Only for the results, because parsing the times of a thousand sessions would take most of the time.
    opened = dict(Session.objects.filter(pk__in=[row[0] for _, row in best]).values_list("pk", "created_at"))
    for rank, (pk, client, version, principal) in best:
        if pk not in opened:
            continue  # The session was deleted after the first query.
        note = f"{version} {names[principal]}, opened {written(opened[pk])}".strip()
        yield SearchResult(rank, "session", client or pk, note, page_of("session", pk))


def _names(request: HttpRequest, principals: set[str]) -> dict[str, str]:
    """Return the display names of principals.

    The request caches the names, because sessions and calls have many principals in common.
    """
    known: dict[str, str] = vars(request).setdefault("names_of_principals", {})
    known.update(principal_names(principals - known.keys()))
    return {principal: known[principal] for principal in principals}


def _ranks(text: str, names: dict[str, str]) -> dict[str, int | None]:
    """Return the rank of each principal, by its whole display name or by the user name in it."""
    return {principal: rank_of(text, name, name.partition(",")[0]) for principal, name in names.items()}


def calls(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    """Yield background calls by id or by person.

    The newest calls and those in open states are searched by person. Only calls in open states are also
    searched by their arguments.
    """
    if not request.user.has_perm("mcp_app.view_call"):
        return
    try:
        call = Call.objects.filter(pk=UUID(text)).first()
    except ValueError:
        yield from _calls_with(request, text)
        return
    if call is not None:
        about = f"{state_of(call)[0]}, {call.pk.hex}"
        yield SearchResult(0, "background call", call.tool, about, page_of("call", call.pk.hex))


def _calls_with(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    waiting = _open_calls(text)
    newest = Call.objects.order_by("-accepted_at").values_list(*READ)[:MOST_OPEN]
    # Calls in open states come first, then the newest calls. Times are not read here, because parsing
    # hundreds of them would take most of the time.
    rows = [*waiting, *((*row, "", None) for row in newest)]
    names = _names(request, {row[1] for row in rows})
    # A call in an open state may also be among the newest, so duplicates are removed.
    fit = nsmallest(2 * MOST_OF_KIND, _fitting(text, rows, names), key=lambda each: place(each[0], each[3]))
    best = [*dict.fromkeys(fit)][:MOST_OF_KIND]
    shown = Call.objects.only("state", "outcome", "decision", "accepted_at")
    found = shown.in_bulk([pk for _, pk, *_ in best])
    for rank, pk, principal, tool in best:
        if (call := found.get(pk)) is not None:  # The call was not deleted after the first query.
            note = f"{state_of(call)[0]}, by {names[principal]}, {written(call.accepted_at)}"
            yield SearchResult(rank, "background call", tool, note, page_of("call", pk.hex))


def _fitting(text: str, rows: list[Any], names: dict[str, str]) -> Iterator[tuple[int, UUID, str, str]]:
    """Yield the rows whose person or whose arguments match.

    At most ``MOST_FOUND`` calls in each state may match by their arguments.
    """
    of_person, matches, said = _ranks(text, names), ArgumentMatches(text), Counter[str]()
    for pk, principal, tool, state, arguments in rows:
        rank = of_person[principal]
        if rank is None and arguments is not None and said[state] < MOST_FOUND:
            # A call that matches only by a secret is not counted, because the limit would reveal the match.
            rank = MENTIONS if matches.is_shown(tool, arguments) else None
            said[state] += rank is not None
        # Matches by tool name are left out. The tool itself is a result, and its calls would hide other
        # results.
        if rank is not None:
            yield rank, pk, principal, tool


def _open_calls(text: str) -> QuerySet[Any, tuple[Any, ...]]:
    """Return calls in open states, in one query.

    Arguments are included only for calls that may match ``text``.
    """
    matches = ArgumentMatches(text)
    fits = [When(matches.named, then=Value("")), When(matches.stored, then="arguments")]
    asked = Case(*fits[: 2 if len(text) >= LEAST_SAID else 0], output_field=TextField())
    return open_calls(*READ, "state", asked)


def messages(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    """Yield messages by number or request id, and a link to a search of the log for the text."""
    if not request.user.has_perm("mcp_app.view_message"):
        return
    named = Message.objects.filter(request_id=text[:120]).order_by("-pk")[:3]
    rows = [*named]
    if text.isascii() and text.isdigit() and int(text) <= LARGEST_ID:
        rows += Message.objects.filter(pk=int(text))
    for message in dict.fromkeys(rows):
        title = f"{message.method or message.kind} {message.target}".strip()
        note = f"id {message.request_id}, {written(message.at)}"
        yield SearchResult(0, "message", title, note, page_of("message", message.pk))
    if '"' not in text:
        log = reverse("admin:mcp_app_message_changelist")
        words = f"{log}?{urlencode({'q': _quoted(text)})}"
        yield SearchResult(SAYS, "messages", f"Messages with “{text}”", "", words)


def _quoted(text: str) -> str:
    return f'"{text}"'
