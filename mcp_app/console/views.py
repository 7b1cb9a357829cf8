"""Pages and JSON data of the console, and two actions for operators: cancel a call, end a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from django.contrib import admin
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    JsonResponse,
    StreamingHttpResponse,
)
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from mcp_app.auth.permissions import PermissionMissing
from mcp_app.auth.principal_names import caller_names
from mcp_app.console import history
from mcp_app.console.access import MESSAGES, SESSIONS
from mcp_app.console.detail import block, detail, running_calls
from mcp_app.console.download import TYPES, written
from mcp_app.console.naming import name_lines
from mcp_app.console.session_rows import background_calls, session_row, session_rows
from mcp_app.execution.services import cancel_request
from mcp_app.interface.links import page_patterns
from mcp_app.interface.text import marked
from mcp_app.message_log.pages import tally
from mcp_app.message_log.search.language import KEYS, parse
from mcp_app.models import Session
from mcp_app.observability.incidents import StoredException
from mcp_app.protocol.messages.methods import every_method
from mcp_app.sessions.exchange import CLIENT_RECORD
from mcp_app.sessions.services import end_session_now

View = Callable[..., HttpResponseBase]
LONGEST_ID = 64
# Parameters of the former page of live messages, and those of the log.
FORMER = {"search": "q", "dir": "direction", "method": "method", "message": "message"}


def _for(*permissions: str) -> Callable[[View], View]:
    """Restrict a view to staff users who have all these permissions.

    Other users are denied, and anonymous visitors are redirected to the login.
    """

    def decorate(view: View) -> View:
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.has_perms(permissions):
                raise PermissionMissing(*permissions)
            return view(request, *args, **kwargs)

        # ``admin_view`` disables caching, checks CSRF tokens and redirects anonymous visitors to the login.
        return admin.site.admin_view(guarded)

    return decorate


def _asked(request: HttpRequest, name: str) -> str:
    """Return a query parameter without NUL, which PostgreSQL refuses."""
    return request.GET.get(name, "").replace("\x00", "")


def _page(request: HttpRequest, title: str, **more: Any) -> dict[str, Any]:
    may_list = request.user.has_perm(SESSIONS)
    return {
        **admin.site.each_context(request),
        "title": title,
        # The skin links the list in the heading.
        "list_opts": Session._meta if may_list else None,
        "changelist_url": _live_sessions(),
        "may_read": request.user.has_perm(MESSAGES),
        "may_list": may_list,
        "can_cancel": request.user.has_perm("mcp_app.change_call"),
        **more,
    }


@_for(SESSIONS)
@require_safe
def sessions(request: HttpRequest) -> HttpResponse:
    """Redirect the former address of the live list of sessions."""
    return HttpResponseRedirect(_live_sessions())


def _live_sessions() -> str:
    return f"{reverse('admin:mcp_app_session_changelist')}?live=1"


@_for(SESSIONS)
@require_safe
def sessions_now(request: HttpRequest) -> HttpResponse:
    """Return the rows of the session list as JSON."""
    rows, more = session_rows(_asked(request, "search")[:200], request.GET.get("state", "open"))
    return JsonResponse({"rows": rows, "more": more})


@_for(MESSAGES)
@require_safe
def messages(request: HttpRequest) -> HttpResponse:
    """Redirect the former address of the live messages, with its search."""
    asked = {name: request.GET[former] for former, name in FORMER.items() if request.GET.get(former)}
    query = urlencode({"live": "1", **asked})
    return HttpResponseRedirect(f"{reverse('admin:mcp_app_message_changelist')}?{query}")


@_for(MESSAGES, SESSIONS)
@require_safe
def session(request: HttpRequest, session_id: str) -> HttpResponse:
    """Show the messages of one session, live. The session may be so new that it is not stored yet."""
    row, exists = _opened(session_id)
    if not exists:
        context = _page(request, "No such session", session_id=session_id[:LONGEST_ID])
        return TemplateResponse(request, "mcp_console/no_session.html", context, status=404)
    client = marked(row.client_name[:60]) if row is not None else ""
    title = f"Session of {client}" if client else "Session"
    context = _page(
        request,
        title,
        session_id=session_id[:LONGEST_ID],
        session=session_row(row, caller_names([row.principal])) if row is not None else None,
        state="not stored yet" if row is None else "open" if row.ended_at is None else "ended",
        search=request.GET.get("q", request.GET.get("search", "")),
        # Records of stateless clients are not sessions and cannot be ended.
        can_end=request.user.has_perm("mcp_app.change_session") and not session_id.startswith(CLIENT_RECORD),
        methods=every_method(),
        keys=KEYS,
        pages=page_patterns(request.user),
    )
    return TemplateResponse(request, "mcp_console/session.html", context)


def _opened(session_id: str) -> tuple[Session | None, bool]:
    """Return the row of a session, and True if the session exists: it may have no row yet."""
    stored = Session.objects.filter(pk=session_id)
    row = stored.first()
    if row is None and history.waits_to_be_stored(session_id):
        return None, True
    # It may have been stored between the two lookups.
    row = row or stored.first()
    return row, row is not None


@_for(MESSAGES, SESSIONS)
@require_safe
def session_now(request: HttpRequest, session_id: str) -> HttpResponse:
    """Return the current state of a session and its background calls as JSON."""
    row = Session.objects.filter(pk=session_id).first()
    if row is None:
        return JsonResponse({"session": None, "calls": []})
    shown = session_row(row, caller_names([row.principal]), background_calls([row.pk]).get(row.pk, 0))
    return JsonResponse({"session": shown, "calls": running_calls(row.pk)})


@_for(MESSAGES)
@require_safe
def lines(request: HttpRequest) -> HttpResponse:
    """Return logged messages as JSON: the newest ones, those before a row, or those around one message."""
    search, session_id = parse(_asked(request, "search")), _asked(request, "session")
    before, around = request.GET.get("before", ""), request.GET.get("around", "")
    found: history.History | None
    if around:
        found = history.around(search, session_id, around)
        if found is None:
            return JsonResponse({"missing": True})
    elif before.isascii() and before.isdigit() and len(before) < 19:
        found = history.before(search, session_id, int(before))
    else:
        found = history.newest(search, session_id)
    # The lines are in order of arrival. They must be sorted by time, because processes flush their lines at
    # different times.
    in_time = sorted(found.lines, key=lambda line: line.at)
    name_lines(in_time)
    rows = b"[" + b",".join(line.encoded for line in in_time) + b"]"
    asked = {"search": search, "session": session_id}
    newest = not before and not around and search.terms and not search.problems
    answer = {
        "hits": str(tally(asked)) if newest else None,
        "older": found.older,
        "newer": found.newer,
        "note": found.note,
        "problems": search.problems,
        "rows": orjson.Fragment(rows),
    }
    return HttpResponse(orjson.dumps(answer), content_type="application/json")


@_for(MESSAGES)
@require_safe
def message(request: HttpRequest) -> HttpResponse:
    """Return one message with all details as JSON."""
    line = history.find(request.GET.get("key", ""))
    if line is None:
        return JsonResponse({"note": "This message does not exist or was deleted."}, status=404)
    return JsonResponse(detail(line, request.user))


@_for(MESSAGES)
@require_safe
def incident(request: HttpRequest, number: str) -> HttpResponse:
    """Return the exception behind an incident number as JSON. Its text is "" if the log does not have it."""
    raised = StoredException.read(history.exception_of(number))
    return JsonResponse({"text": block(raised.text) if raised else ""})


@_for(MESSAGES)
@require_safe
def download(request: HttpRequest) -> HttpResponseBase:
    """Return the matching stored messages as a file."""
    form, session_id = request.GET.get("form", ""), _asked(request, "session")
    search = parse(_asked(request, "search"))
    if form not in TYPES or search.problems:
        return HttpResponse(
            " ".join(search.problems) or "Unknown form.", status=400, content_type="text/plain"
        )
    return StreamingHttpResponse(
        written(form, search, session_id),
        content_type=TYPES[form],
        headers={"Content-Disposition": f'attachment; filename="mcp-messages.{form}"'},
    )


@_for(MESSAGES, SESSIONS, "mcp_app.change_call")
@require_POST
def cancel(request: HttpRequest, session_id: str) -> HttpResponse:
    """Cancel one running request of a session."""
    try:
        request_id = orjson.loads(request.POST.get("request", "")[:2_000])
    except orjson.JSONDecodeError:
        request_id = None
    if type(request_id) not in (str, int):
        return JsonResponse({"note": "This is not the id of a request."}, status=400)
    is_cancelled = cancel_request(
        session_id=session_id[:LONGEST_ID], request_id=request_id, actor=request.user
    )
    return JsonResponse(
        {"note": "The call is being cancelled." if is_cancelled else "The call has already finished."}
    )


@_for(MESSAGES, SESSIONS, "mcp_app.change_session")
@require_POST
def end(request: HttpRequest, session_id: str) -> HttpResponse:
    """End a session in every process."""
    if not Session.objects.filter(pk=session_id).exists():
        return JsonResponse({"note": "There is no such session, or it is not stored yet."}, status=404)
    ended = end_session_now(session_id=session_id, actor=request.user)
    return JsonResponse({"note": "The session was ended." if ended else "The session had already ended."})
