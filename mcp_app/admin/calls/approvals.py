"""The approval queue: its list of calls, its columns, and the data for its live update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Case, F, QuerySet, TextField, Value, When
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.callers.links import linked_name
from mcp_app.admin.calls.approval import (
    NOT_SHOWN,
    TONES,
    AskedTool,
    Earlier,
    asked_tools,
    decision_of,
    time_left,
    waited_for_approval,
    waiting_count,
)
from mcp_app.admin.calls.argument_search import OLDEST_FIRST, telling
from mcp_app.admin.calls.callers import STORED_CLIENT, client_of
from mcp_app.admin.calls.decisions import LONGEST_ARGUMENTS, DecidingAdmin, arguments_of, reason_field
from mcp_app.admin.calls.given import given
from mcp_app.admin.columns import time_column
from mcp_app.admin.list_filters import by_date
from mcp_app.admin.long_lists import MOST_LISTED, among_newest
from mcp_app.admin.markup import badge, relative, span
from mcp_app.auth.api_keys import login_name
from mcp_app.auth.permissions import PermissionMissing
from mcp_app.auth.principal_names import CallerName, caller_names
from mcp_app.execution.decisions import objections
from mcp_app.execution.stored.pending_approvals import LONGEST_REASON
from mcp_app.interface.text import marked, visible
from mcp_app.models import Approval, Call
from mcp_app.protocol.call_state import State, shown_state

LINE_CHARACTERS = 200
MOST_WATCHED = 500


class DecisionFilter(admin.SimpleListFilter):
    """List filter by decision. By default, the list shows the calls that wait for approval."""

    title = "decision"
    parameter_name = "decision"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, word) for word in ("approved", "refused", "expired", "cancelled")] + [("any", "All")]

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Put the default choice first and label it "waiting for approval"."""
        usual, *others = super().choices(changelist)
        return iter([{**usual, "display": shown_state(State.APPROVAL_NEEDED)}, *others])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Approval]) -> QuerySet[Approval]:
        match self.value():
            case None | "":
                return queryset.filter(state=State.APPROVAL_NEEDED)
            case "any":
                return queryset
            case "cancelled":
                return queryset.filter(decision="").exclude(state=State.APPROVAL_NEEDED)
            case word:
                return queryset.filter(decision=word)


@dataclass(frozen=True, slots=True)
class _Shared:
    """The data of a list of calls that is read for all of them together.

    ``described`` is the first call of each tool, which describes the tool.
    """

    names: dict[str, CallerName]
    tools: dict[str, AskedTool]
    described: dict[str, UUID]
    earlier: Earlier
    objected: dict[UUID, str]


def _shared(call: Approval) -> _Shared:
    found: _Shared = vars(call)["shared"]
    return found


@admin.register(Approval)
class ApprovalAdmin(DecidingAdmin):
    """The approval queue: the caller, tool and times of each call, and the buttons to decide."""

    list_display_links = None
    list_filter = (DecisionFilter, ("accepted_at", by_date("time of the request")))
    list_select_related = ("user", "decided_by")
    search_fields = ("tool", "principal", login_name("user"), "session_id")
    search_help_text = (
        f"Tool, user, session id, words in the arguments. Decided calls: only the latest {MOST_LISTED:,}"
    )
    change_list_template = "mcp_admin/approvals.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Approval]:
        """Return the calls that needed approval.

        Arguments are loaded only if they are short enough for a list.
        """
        is_short = When(stored_length__lte=LONGEST_ARGUMENTS, then=F("arguments"))
        return (
            super()
            .get_queryset(request)
            .filter(approval_until__isnull=False)
            .defer("arguments", "answer", "meta", "session_fields")
            .annotate(stored_length=Length("arguments"))
            .annotate(short=Case(is_short, default=Value(""), output_field=TextField()))
            .annotate(client_said=STORED_CLIENT)
        )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Approval], search_term: str
    ) -> tuple[QuerySet[Approval], bool]:
        """Search by tool, person, session, or words in the arguments.

        All waiting calls are searched. With a decision filter, only the newest calls are searched.
        """
        decided = bool(request.GET.get("decision"))
        searched = decided and search_term.strip()
        newest = among_newest(Call.objects.all(), "accepted_at") if searched else {}
        queryset = queryset.filter(**newest)
        found, repeats = super().get_search_results(request, queryset, search_term)
        if search_term.strip() and (also := telling(queryset, search_term)):
            found = (found | queryset.filter(pk__in=also)).filter(**newest)
        return found, repeats

    def get_list_display(self, request: HttpRequest) -> Any:
        """Return one column of cards for the waiting calls, and several columns for decided calls."""
        if request.GET.get("decision"):
            return ("tool_name", "asker", "shown_arguments", "before", "since", "waited", "shown_decision")
        return (self._card_column(request),)

    def _card_column(self, request: HttpRequest) -> Callable[[Approval], SafeString]:
        decides = self.has_decide_permission(request)

        @admin.display(description="waiting for approval")
        def card(call: Approval) -> SafeString:
            shared = _shared(call)
            context = {
                "call": call,
                "name": marked(call.tool),
                "principal": marked(call.principal),
                "call_url": self.call_url(call.pk),
                "tool": shared.tools.get(call.tool, NOT_SHOWN),
                "describes": shared.described[call.tool] == call.pk,
                "given": given(arguments_of(call)),
                "caller": linked_name(request.user, call.principal, shared.names[call.principal]),
                "client": client_of(call),
                "before": shared.earlier.words(call),
                "since": relative(call.accepted_at),
                "left": span(time_left(call)),
                "decides": decides and call.state == State.APPROVAL_NEEDED,
                "objection": shared.objected.get(call.pk, ""),
                "approve_url": self._in_row(request, "approve", call),
                "refuse_url": self._in_row(request, "refuse", call),
                "reason_field": reason_field(call),
                "longest_reason": LONGEST_REASON,
            }
            return render_to_string("mcp_admin/approval_card.html", context)

        return card

    def _in_row(self, request: HttpRequest, verb: str, call: Approval) -> str:
        """Return the address to which a card's button posts. Its response redirects to the list."""
        address = self.with_filters(request, self.page_url(verb, call))
        return f"{address}{'&' if '?' in address else '?'}from_queue=1"

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Order waiting calls by expiry, the earliest first, and decided calls by time, the newest first."""
        return ("-accepted_at",) if request.GET.get("decision") else ("approval_until",)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Attach the shared data of the list to its calls."""
        changelist = super().get_changelist_instance(request)
        calls = list(changelist.result_list)
        waiting = [call for call in calls if call.state == State.APPROVAL_NEEDED]
        first = {call.tool: call.pk for call in reversed(calls)}
        shared = _Shared(
            names=caller_names({call.principal for call in calls}),
            tools=asked_tools(first),
            described=first,
            earlier=Earlier(calls),
            objected=objections(waiting, request.user),
        )
        for call in changelist.result_list:
            vars(call)["shared"] = shared
        return changelist

    def has_view_permission(self, request: HttpRequest, obj: Approval | None = None) -> bool:
        """Return True if the user may view calls."""
        return self.may_open(request, Call)

    # The columns of the list.

    @admin.display(description="tool", ordering="tool")
    def tool_name(self, call: Approval) -> SafeString:
        """Return the tool's name as a link to the call, followed by its title."""
        return format_html(
            '<span><a class="mcp-link" href="{}">{}</a>{} <span class="mcp-dim">{}</span></span>',
            self.call_url(call.pk),
            visible(call.tool),
            format_html(" {}", badge("another user must approve")) if call.four_eyes else "",
            visible(_shared(call).tools.get(call.tool, NOT_SHOWN).title),
        )

    @admin.display(description="earlier decisions")
    def before(self, call: Approval) -> str:
        """Return the earlier decisions about calls of this tool."""
        return _shared(call).earlier.words(call)

    @admin.display(description="user", ordering=login_name("user"))
    def asker(self, call: Approval) -> SafeString:
        """Return the user who owns the credential, and the client's name."""
        return format_html(
            '<span><span title="{}">{}</span> <span class="mcp-dim">{}</span></span>',
            marked(call.principal),
            visible(_shared(call).names[call.principal]),
            visible(client_of(call)),
        )

    @admin.display(description="arguments")
    def shown_arguments(self, call: Approval) -> SafeString:
        """Return the beginning of the redacted arguments."""
        text = arguments_of(call)
        if not text:
            return format_html('<span class="mcp-dim">{}</span>', "too long for a list")
        cut = text if len(text) <= LINE_CHARACTERS else text[:LINE_CHARACTERS] + "…"
        # Allow line breaks between the parts of the JSON text and not within words.
        shown = visible(cut).replace(",", ",<wbr>").replace(":", ":<wbr>")
        return format_html("<code>{}</code>", SafeString(shown))

    since = time_column("requested", "accepted_at")

    @admin.display(description="waited")
    def waited(self, call: Approval) -> SafeString:
        """Return how long the call waited for its decision."""
        return format_html('<span class="mcp-length">{}</span>', span(waited_for_approval(call)))

    @admin.display(description="decision", ordering="decision")
    def shown_decision(self, call: Approval) -> SafeString:
        """Return the decision and the user who made it."""
        word = decision_of(call)
        by = format_html(" {}", visible(call.decided_by)) if call.decided_by else ""
        return format_html("{}{}", badge(word, TONES[word]), by)

    # The pages.

    def get_urls(self) -> list[URLPattern]:
        live = path("live/", self.admin_site.admin_view(self.live_view), name="mcp_app_approval_live")
        return [live, *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the queue.

        A script reports new calls, but never changes the list, because an operator may be about to decide.
        """
        if not self.has_view_permission(request):
            raise PermissionMissing("mcp_app.view_call")
        watched = "" if request.GET.get("decision") else " ".join(_waiting_ids())
        context = {
            "live_url": self.page_url("live"),
            "watched": watched,
            "watches": not request.GET.get("decision"),
            "may_decide": self.has_decide_permission(request),
            "is_narrowed": bool(request.GET),
            "tools_url": reverse(f"{self.admin_site.name}:mcp_app_tool_changelist"),
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def live_view(self, request: HttpRequest) -> HttpResponse:
        """Return the ids of the first waiting calls, and the number of all, as JSON.

        The queue's page and the badge of the sidebar poll this address.
        """
        if request.method != "GET":
            return HttpResponseNotAllowed(["GET"])
        if not self.has_view_permission(request):
            raise PermissionMissing("mcp_app.view_call")
        return JsonResponse({"waiting": _waiting_ids(), "number": waiting_count()})

    def row_page(self, request: HttpRequest, call: Approval) -> HttpResponse:
        """Redirect to the page of the call."""
        return HttpResponseRedirect(self.call_url(call.pk))


def _waiting_ids() -> list[str]:
    waiting = Call.objects.filter(state=State.APPROVAL_NEEDED).order_by(*OLDEST_FIRST)
    return [str(pk) for pk in waiting.values_list("pk", flat=True)[:MOST_WATCHED]]
