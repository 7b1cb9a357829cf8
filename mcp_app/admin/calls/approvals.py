"""The approval queue: its list of calls, its columns, and the data for its live update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.contrib import admin
from django.db.models import Case, F, QuerySet, TextField, Value, When
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, JsonResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.calls.approval import (
    TONES,
    Earlier,
    decision_of,
    described,
    time_left,
    waited_for_approval,
)
from mcp_app.admin.calls.argument_search import HELP, OLDEST_FIRST, telling
from mcp_app.admin.calls.callers import STORED_CLIENT, caller_of, client_of, names_of
from mcp_app.admin.calls.decisions import LONGEST_ARGUMENTS, DecidingAdmin, arguments_of, reason_field
from mcp_app.admin.columns import time_column
from mcp_app.admin.long_lists import among_newest
from mcp_app.admin.markup import badge, span
from mcp_app.admin.timeline import pane
from mcp_app.auth.api_keys import login_name
from mcp_app.auth.permissions import PermissionMissing
from mcp_app.execution.decisions import objections
from mcp_app.execution.stored.pending_approvals import LONGEST_REASON
from mcp_app.interface.text import marked, visible
from mcp_app.models import Approval, Call
from mcp_app.protocol.call_state import State

LINE_CHARACTERS = 200
ABOUT_CHARACTERS = 120
MOST_WATCHED = 500


class DecisionFilter(admin.SimpleListFilter):
    """List filter by decision. By default, the list shows the calls that wait for approval."""

    title = "decision"
    parameter_name = "decision"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, word) for word in ("approved", "refused", "expired", "cancelled")] + [("any", "any")]

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Put the default choice first and label it "waiting"."""
        usual, *others = super().choices(changelist)
        return iter([{**usual, "display": "waiting"}, *others])

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


@admin.register(Approval)
class ApprovalAdmin(DecidingAdmin):
    """The approval queue: the caller, tool and times of each call, and the buttons to decide."""

    list_display_links = None
    list_filter = (DecisionFilter, "accepted_at")
    list_select_related = ("user", "decided_by")
    search_fields = ("tool", "principal", login_name("user"), "session_id")
    search_help_text = f"Tool, who, session id, {HELP}"
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
        """Return the columns. The list of waiting calls has buttons if the user may decide."""
        about = ("asker", "shown_arguments", "before")
        if request.GET.get("decision"):
            return ("tool_name", *about, "since", "waited", "shown_decision")
        decides = (self._decide_column(request),) if self.has_decide_permission(request) else ()
        return ("tool_name", *decides, *about, "waited", "left")

    def _decide_column(self, request: HttpRequest) -> Callable[[Approval], SafeString]:
        @admin.display(description="decide")
        def decide(call: Approval) -> SafeString:
            if call.state != State.APPROVAL_NEEDED:
                return SafeString("")
            objection = getattr(call, "objected", {}).get(call.pk, "")
            approve = format_html(
                '<button class="mcp-button mcp-primary" type="submit" formnovalidate'
                ' formaction="{}" aria-label="{}">Approve</button> ',
                self._in_row(request, "approve", call),
                f"Approve {marked(call.tool)}",
            )
            refuse = self._refuse_in_row(request, call)
            if objection:
                return format_html('<div><span class="mcp-dim">{}</span> {}</div>', objection, refuse)
            return format_html('<span class="mcp-buttons mcp-tight">{}{}</span>', approve, refuse)

        return decide

    def _in_row(self, request: HttpRequest, verb: str, call: Approval) -> str:
        """Return the address to which a row's button posts. Its response redirects to the list."""
        address = self.with_filters(request, self.page_url(verb, call))
        return f"{address}{'&' if '?' in address else '?'}from_queue=1"

    def _refuse_in_row(self, request: HttpRequest, call: Approval) -> SafeString:
        # A modal dialog keeps the widths of the columns and blocks the page behind it. The reason is a
        # textarea, because Enter in a text input would press the first button of the form, which approves a
        # call.
        return format_html(
            '<button class="mcp-button" type="button" command="show-modal" commandfor="{0}" aria-label="{1}">'
            'Refuse…</button><dialog class="mcp-refuse" id="{0}" closedby="any" aria-label="{1}">'
            "<p><strong>{1}</strong>, asked by {2}</p>{6}"
            '<label for="{3}">Reason, shown to the caller</label>'
            '<textarea class="mcp-input" id="{3}" name="{3}" rows="2" maxlength="{4}" autofocus></textarea>'
            '<p class="mcp-buttons">'
            '<button class="mcp-button mcp-danger" type="submit" formnovalidate formaction="{5}">'
            "Refuse</button>"
            '<button class="mcp-button" type="button" command="close" commandfor="{0}">'
            "Keep it waiting</button></p></dialog>",
            f"refuse-{call.pk}",
            f"Refuse {marked(call.tool)}",
            visible(caller_of(call, getattr(call, "names", {}))),
            reason_field(call),
            LONGEST_REASON,
            self._in_row(request, "refuse", call),
            self._whole_arguments(call),
        )

    def _whole_arguments(self, call: Approval) -> SafeString:
        """Return the redacted arguments on several lines. If they are too long, return a link to the call."""
        if shown := pane(arguments_of(call), LONGEST_ARGUMENTS * 2):
            return format_html('<pre class="mcp-pre" tabindex="0">{}</pre>', shown.html)
        address, words = (
            self.call_url(call.pk),
            "The arguments are too long for a list: read them on its page.",
        )
        return format_html('<p><a class="mcp-link" href="{}">{}</a></p>', address, words)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Order waiting calls by expiry, the earliest first, and decided calls by time, the newest first."""
        return ("-accepted_at",) if request.GET.get("decision") else ("approval_until",)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Attach names, tool descriptions, earlier decisions and objections to the calls in the list."""
        changelist = super().get_changelist_instance(request)
        calls = list(changelist.result_list)
        waiting = [call for call in calls if call.state == State.APPROVAL_NEEDED]
        shared = {
            "names": names_of(calls),
            "described": described(call.tool for call in calls),
            "earlier": Earlier(calls),
            "objected": objections(waiting, request.user),
        }
        for call in changelist.result_list:
            vars(call).update(shared)
        return changelist

    def has_view_permission(self, request: HttpRequest, obj: Approval | None = None) -> bool:
        """Return True if the user may view calls."""
        return self.may_open(request, Call)

    # The columns of the list.

    @admin.display(description="tool", ordering="tool")
    def tool_name(self, call: Approval) -> SafeString:
        """Return the tool's name as a link to the call, followed by title and description."""
        title, description = getattr(call, "described", {}).get(call.tool, ("", ""))
        about = ": ".join(filter(None, (title, description.partition("\n")[0])))
        return format_html(
            '<span><a class="mcp-link" href="{}">{}</a>{} <span class="mcp-dim">{}</span></span>',
            self.call_url(call.pk),
            visible(call.tool),
            format_html(" {}", badge("four eyes")) if call.four_eyes else "",
            visible(about if len(about) <= ABOUT_CHARACTERS else about[:ABOUT_CHARACTERS] + "…"),
        )

    @admin.display(description="before")
    def before(self, call: Approval) -> str:
        """Return the counts of earlier decisions about calls of this tool."""
        earlier: Earlier | None = getattr(call, "earlier", None)
        return (earlier.words(call) if earlier else "") or "no call of this tool was decided before"

    @admin.display(description="asked by", ordering=login_name("user"))
    def asker(self, call: Approval) -> SafeString:
        """Return the user who owns the credential, the client's name, and the principal."""
        return format_html(
            '{} <span class="mcp-dim">{} · {}</span>',
            visible(caller_of(call, getattr(call, "names", {}))),
            visible(client_of(call)),
            visible(call.principal),
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

    since = time_column("asked", "accepted_at")

    @admin.display(description="waited")
    def waited(self, call: Approval) -> SafeString:
        """Return how long the call waited for its decision."""
        return format_html('<span class="mcp-time">{}</span>', span(waited_for_approval(call)))

    @admin.display(description="expires in", ordering="approval_until")
    def left(self, call: Approval) -> SafeString:
        """Return the time until the approval expires."""
        return format_html('<span class="mcp-time">{}</span>', span(time_left(call)))

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
        context = {"live_url": self.page_url("live"), "watched": watched, **(extra_context or {})}
        return super().changelist_view(request, {**context, "watches": not request.GET.get("decision")})

    def live_view(self, request: HttpRequest) -> HttpResponse:
        """Return the ids of the waiting calls as JSON. The queue's page polls this address."""
        if request.method != "GET":
            return HttpResponseNotAllowed(["GET"])
        if not self.has_view_permission(request):
            raise PermissionMissing("mcp_app.view_call")
        return JsonResponse({"waiting": _waiting_ids()})

    def row_page(self, request: HttpRequest, call: Approval) -> HttpResponse:
        """Redirect to the page of the call."""
        return HttpResponseRedirect(self.call_url(call.pk))


def _waiting_ids() -> list[str]:
    waiting = Call.objects.filter(state=State.APPROVAL_NEEDED).order_by(*OLDEST_FIRST)
    return [str(pk) for pk in waiting.values_list("pk", flat=True)[:MOST_WATCHED]]
