"""Admin pages of background calls. They are read-only, except that users can cancel and retry calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.forms import Media
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from mcp_app.admin.base import object_button
from mcp_app.admin.callers.links import caller_of
from mcp_app.admin.calls.approval import shown as shown_approval
from mcp_app.admin.calls.approval import waiting_count
from mcp_app.admin.calls.argument_search import telling
from mcp_app.admin.calls.call_page import (
    AROUND,
    NOT_RUN,
    TOOL_ERROR,
    attempts,
    content,
    detail_of,
    failure_of,
    is_unsent,
    lasted,
    live,
    logged_in,
    outgoing_of,
    request_id_of,
    state_of,
    stopped_by,
    waited,
)
from mcp_app.admin.calls.callers import STORED_CLIENT, client_name, client_of
from mcp_app.admin.calls.decisions import LONGEST_ARGUMENTS, WHOLE
from mcp_app.admin.calls.given import Given, given
from mcp_app.admin.calls.queues import box
from mcp_app.admin.columns import text_column, time_column, who_column
from mcp_app.admin.list_filters import by_date
from mcp_app.admin.long_lists import MOST_LISTED, LongListAdmin
from mcp_app.admin.markup import badge, span
from mcp_app.auth.api_keys import login_name
from mcp_app.execution.call_log import read_position, redactor
from mcp_app.execution.services import RetryRefused, cancel_call, retry_call
from mcp_app.execution.stored.pending_approvals import LONGEST_REASON
from mcp_app.interface.links import named_tool_page
from mcp_app.interface.text import marked, visible
from mcp_app.models import Call, Session, Tool
from mcp_app.models.call import LOGGED_SESSION, calls_of_session
from mcp_app.protocol.call_state import TERMINAL, State, is_terminal, shown_state
from mcp_app.protocol.messages.trace_context import read

LARGE = ("arguments", "answer", "meta", "session_fields")
MOST_TOOLS = 200


def _length(time: timedelta | None) -> SafeString:
    return format_html('<span class="mcp-time">{}</span>', span(time))


class CallStateFilter(admin.SimpleListFilter):
    """List filter by the state that the list shows. One of its choices matches all unfinished calls."""

    title = "status"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        states = ((state.value, shown_state(state)) for state in State)
        return [("open", "not finished"), *states, *((each, each) for each in NOT_RUN)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Call]) -> QuerySet[Call]:
        """Return the calls in a state, or all calls if the state is unknown."""
        asked = self.value()
        if asked == "open":
            return queryset.exclude(state__in=TERMINAL)
        if asked in NOT_RUN:
            return queryset.filter(decision=asked, approval_until__isnull=False)
        tool_errors, not_run = Q(state=State.COMPLETED, outcome=TOOL_ERROR), Q(decision__in=NOT_RUN)
        if asked == State.FAILED:
            return queryset.filter(Q(state=State.FAILED) & ~not_run | tool_errors)
        if asked == State.COMPLETED:
            return queryset.filter(Q(state=State.COMPLETED) & ~tool_errors)
        return queryset.filter(Q(state=asked) & ~not_run) if asked in set(State) else queryset


class CallToolFilter(admin.SimpleListFilter):
    """List filter by tool.

    The choices come from the catalogue, because reading them from the calls would scan the whole table.
    """

    title = "tool"
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = Tool.objects.filter(background=True).order_by("name").values_list("name", flat=True)
        return [(name, marked(name)) for name in names[:MOST_TOOLS]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Call]) -> QuerySet[Call]:
        return queryset.filter(tool=self.value()) if self.value() else queryset


@admin.register(Call)
class CallAdmin(LongListAdmin[Call]):
    """Admin pages of background calls: the list, the state of queues above it, and each call's live page."""

    list_display = (
        "tool_name",
        "state_badge",
        "who",
        "client",
        "accepted",
        "duration",
    )
    list_display_links = ("tool_name",)
    list_filter = (CallStateFilter, CallToolFilter, ("accepted_at", by_date("time of the request")))
    search_fields = ("tool", "principal", login_name("user"), "session_id", "worker", "id")
    search_help_text = (
        f"Tool, user, call or session id, words in the arguments. Only the latest {MOST_LISTED:,} calls"
    )
    newest_by = "accepted_at"
    sortable_by = ("tool_name", "who", "client", "accepted")  # The columns that have an index.
    actions = ("stop_calls", "retry_calls")
    change_list_template = "mcp_admin/calls.html"

    @property
    def media(self) -> Media:
        """Add the style of arguments."""
        return super().media + Media(css={"all": ["mcp_app/decide.css"]})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Call]:
        """Defer large columns, and annotate each call with True if the user may open its session."""
        session = Session.objects.filter(pk=OuterRef("logged_session"))
        opens = Exists(session) if self.may_open(request, Session) else Value(value=False)
        found = super().get_queryset(request).defer(*LARGE).annotate(logged_session=LOGGED_SESSION)
        return found.annotate(opens_session=opens, client_said=STORED_CLIENT)

    def named(self, queryset: QuerySet[Call], term: str) -> QuerySet[Call] | None:
        """Return the call with this id, written in any notation, or the calls of the session with this id.

        Returns None if there is neither.
        """
        try:
            return queryset.filter(pk=UUID(term))
        except ValueError:
            found = queryset.filter(calls_of_session(term))
            return found if found.exists() else None

    def also_found(self, queryset: QuerySet[Call], term: str) -> list[Any]:
        """Return the calls whose arguments contain these words."""
        return telling(queryset, term)

    def get_urls(self) -> list[URLPattern]:
        live_page = path(
            "<path:object_id>/live/", self.admin_site.admin_view(self.live_view), name="mcp_app_call_live"
        )
        return [live_page, *super().get_urls()]

    # The columns of the list.

    tool_name = text_column("tool", "tool", ordering="tool")

    @admin.display(description="status", ordering="state")
    def state_badge(self, call: Call) -> SafeString:
        """Return badges for the call's state, its task and a pending cancellation.

        Outcome and number of attempts are added in dim text if they are informative.
        """
        said = [badge(*state_of(call))]
        if call.task_until is not None:
            said.append(badge("task", "plain"))
        if call.cancel_requested_at is not None and not is_terminal(call.state):
            said.append(badge("cancelling", "warn"))
        details = [detail_of(call), f"{attempts(call)} attempts" if call.attempt > 1 else ""]
        if shown := " · ".join(filter(None, details)):
            said.append(format_html('<span class="mcp-dim">{}</span>', shown))
        return format_html(
            '<div class="mcp-badges">{}</div>', format_html_join(" ", "{}", ((each,) for each in said))
        )

    who = who_column("user")

    @admin.display(description="client", ordering="session_id")
    def client(self, call: Call) -> SafeString:
        """Return the client's name. It is a link to the session if the user may open the session."""
        name = visible(client_of(call))
        if not getattr(call, "opens_session", False):
            return name
        session = vars(call)["logged_session"]
        return format_html('<a class="mcp-link" href="{}">{}</a>', self._session_url(session), name)

    # The log measures only the tool, so its durations are shorter.
    @admin.display(description="total duration")
    def duration(self, call: Call) -> SafeString:
        """Return how long the call has run, and how long it waited in the queue before."""
        wait = waited(call)
        if wait is None:
            return _length(lasted(call))
        return format_html(
            '<div>{}<div class="mcp-dim">queue wait {}</div></div>', _length(lasted(call)), span(wait)
        )

    accepted = time_column("requested", "accepted_at")

    def _session_url(self, session_id: str) -> str:
        return reverse(f"{self.admin_site.name}:mcp_app_session_change", args=[quote(session_id)])

    def _opens_session(self, request: HttpRequest, session: str) -> bool:
        return self.may_open(request, Session) and Session.objects.filter(pk=session).exists()

    # Permissions and actions.

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may change calls, which includes cancelling and retrying them."""
        return request.user.has_perm("mcp_app.change_call")

    @admin.action(description="Cancel selected calls", permissions=["operate"])
    def stop_calls(self, request: HttpRequest, queryset: QuerySet[Call]) -> None:
        """Cancel each selected call that has not finished."""
        stopped = [cancel_call(call_id=call.pk, actor=request.user) for call in queryset]
        text = _cancelled(sum(stopped), stopped.count(False))
        self.message_user(request, text, messages.SUCCESS if any(stopped) else messages.INFO)

    @admin.action(description="Retry selected as new calls", permissions=["operate"])
    def retry_calls(self, request: HttpRequest, queryset: QuerySet[Call]) -> None:
        """Retry each selected finished call as a new call."""

        def retry(call: Call) -> None:
            retry_call(call_id=call.pk, actor=request.user)

        if made := self.done_to_each(request, queryset, retry, RetryRefused):
            self.message_user(request, f"New calls: {made}.", messages.SUCCESS)

    @object_button("stop", "operate")
    def stop_one(self, request: HttpRequest, call: Call) -> None:
        """Cancel one call."""
        if cancel_call(call_id=call.pk, actor=request.user):
            over = Call.objects.filter(pk=call.pk, state__in=TERMINAL).exists()
            # The call may finish before the user reads the message. The wording is true in both cases.
            later = "The call is being cancelled."
            self.message_user(request, "The call is cancelled." if over else later, messages.SUCCESS)
        else:
            self.message_user(request, "The call has already finished.", messages.INFO)

    @object_button("retry", "operate")
    def retry_one(self, request: HttpRequest, call: Call) -> HttpResponse | None:
        """Retry a call as a new call and redirect to the new call."""
        try:
            new = retry_call(call_id=call.pk, actor=request.user)
        except RetryRefused as refused:
            self.message_user(request, marked(refused), messages.WARNING)
            return None
        waits = Call.objects.filter(pk=new, state=State.APPROVAL_NEEDED).exists()
        text = "This is the new call. It waits for approval." if waits else "This is the new call."
        self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(reverse(self.url_name("change"), args=[new]))

    # The pages.

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list of calls, with the queues and workers above it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        more = {
            "box": box(),
            "approvals": waiting_count(),
            "approvals_url": reverse(f"{self.admin_site.name}:mcp_app_approval_changelist"),
            "can_decide": request.user.has_perm("mcp_app.decide_call"),
            "can_examine": request.user.has_perm("mcp_app.run_doctor"),
        }
        return super().changelist_view(request, {**more, **(extra_context or {})})

    def row_page(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Show a call. The page polls live data as long as the call runs."""
        call.refresh_from_db(fields=LARGE)
        whole = "all" in request.GET
        may_operate = self.has_operate_permission(request)
        views_messages = request.user.has_perm("mcp_app.view_message")
        live_now, session = live(call), logged_in(call)
        context = {
            **self.object_context(request, f"Background call of {marked(call.tool)[:60]}", call),
            "call": call,
            "live": live_now,
            "live_url": self.page_url("live", call),
            "detail": detail_of(call),
            "stopped_by": stopped_by(call) if may_operate else "",
            "is_unsent": is_unsent(call),
            "content": content(call, whole=whole),
            "failure": failure_of(call) if views_messages else None,
            "outgoing": outgoing_of(call) if views_messages else (),
            "caller": caller_of(request.user, call.principal),
            "tool_url": named_tool_page(request.user, call.tool),
            "given": self._given(call),
            "approval": shown_approval(call, request, self.admin_site.name),
            "longest_reason": LONGEST_REASON,
            "trace": read(orjson.loads(call.meta)),
            "all_url": None if whole else "?all=1",
            "client": client_name(call.session_fields.get("client")),
            "logged_in": session,
            "session_url": self._session_url(session) if self._opens_session(request, session) else None,
            "messages_url": self._messages_url(call, session) if views_messages else None,
            "retries": call.retries.order_by("accepted_at").values_list("pk", flat=True)[:20],
            "can_stop": may_operate and not is_terminal(call.state) and call.cancel_requested_at is None,
            "can_retry": may_operate and is_terminal(call.state),
            "stop_url": self.page_url("stop", call) + "?from_page=1",
            "retry_url": self.page_url("retry", call) + "?from_page=1",
        }
        return TemplateResponse(request, "mcp_admin/call.html", context)

    def _given(self, call: Call) -> Given | None:
        """Return the arguments of a call that waits, or None if they are too long to be listed."""
        if call.state != State.APPROVAL_NEEDED or len(call.arguments) > LONGEST_ARGUMENTS:
            return None
        return given(redactor().message(call.arguments.encode("utf-8", "replace"), WHOLE))

    def _messages_url(self, call: Call, session: str) -> str:
        asked = {"session": session, "request_id": request_id_of(call)[:120]}
        # A time range limits the number of rows that the log must search if the session is long.
        asked["since"] = f"{call.accepted_at - AROUND:%Y-%m-%dT%H:%M:%S}"
        if call.finished_at is not None:
            asked["until"] = f"{call.finished_at + AROUND:%Y-%m-%dT%H:%M:%S}"
        query = urlencode(asked)
        return f"{reverse(f'{self.admin_site.name}:mcp_app_message_changelist')}?{query}"

    def live_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the live data of a call as JSON.

        The page polls this address every second until the call ends.
        """
        if request.method != "GET":
            return HttpResponseNotAllowed(["GET"])
        call = self.object_to_view(request, object_id)
        if call is None:
            return JsonResponse({"note": "There is no such call."}, status=404)
        return JsonResponse(live(call, read_position(request.GET.get("after"))))


def _cancelled(cancelled: int, finished: int) -> str:
    """Return the message about cancelled calls, and about calls that had finished before."""
    if not cancelled:
        return f"Nothing cancelled: the call{'s' if finished > 1 else ''} had already finished."
    after = f" Already finished: {finished}." if finished else ""
    return f"Calls cancelled: {cancelled}.{after}"
