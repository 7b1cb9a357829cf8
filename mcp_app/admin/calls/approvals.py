"""Owns the queue of calls that wait for approval: the list, deciding one or many, what a call's page says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import Case, F, QuerySet, TextField, Value, When
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app import database_clock
from mcp_app.admin.base import ObjectView, ReadOnlyAdmin
from mcp_app.admin.calls.askers import actors_of, asked_by
from mcp_app.admin.shown import badge, moment, span
from mcp_app.admin.timeline import Pane, pane
from mcp_app.auth.services import login_name
from mcp_app.execution.call_log import redactor
from mcp_app.execution.decisions import DecisionRefused, approve_call, objection_to, refuse_call
from mcp_app.execution.stored.pending_approvals import LONGEST_REASON
from mcp_app.models import Approval, Call
from mcp_app.protocol.call_state import State
from mcp_app.text import marked, visible

TONES = {"approved": "good", "refused": "bad", "expired": "warn", "cancelled": "warn", "waiting": "info"}
# Longer arguments are read on the call's own page; here fifty of them stand together.
LONGEST_ARGUMENTS = 20_000
LINE_CHARACTERS = 200
WHOLE = 1 << 30
MOST_WATCHED = 500
MOST_AT_ONCE = 100


# A badge on every page must not count for long.
MOST_WAITING = 1_000


def waiting_count() -> int:
    """How many calls wait for approval now; MOST_WAITING stands for that many and more."""
    return Call.objects.filter(state=State.APPROVAL_NEEDED)[:MOST_WAITING].count()


def decision_of(call: Call) -> str:
    """``waiting``, ``approved``, ``refused``, ``expired`` or ``cancelled``."""
    if call.decision:
        return str(call.decision)
    return "waiting" if call.state == State.APPROVAL_NEEDED else "cancelled"


def waited_for_approval(call: Call) -> timedelta:
    """How long it waited until somebody decided, or has waited so far."""
    end = call.decided_at or call.finished_at or database_clock.utcnow()
    return end - call.accepted_at


def time_left(call: Call) -> timedelta | None:
    """How long it may still wait."""
    if call.state != State.APPROVAL_NEEDED or call.approval_until is None:
        return None
    return call.approval_until - database_clock.utcnow()


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page of one call says about its approval, and what this user may do about it."""

    badge: SafeString
    waited: str
    waits: bool
    may_decide: bool
    objection: str
    asked_by: str
    approve_url: str
    refuse_url: str


def shown(call: Call, request: HttpRequest, site: str) -> Shown | None:
    """The approval of a call; None for one that needs none."""
    if call.approval_until is None:
        return None
    word = decision_of(call)
    waits = word == "waiting"
    may_decide = waits and request.user.has_perm("mcp_app.decide_call")
    urls = [reverse(f"{site}:mcp_app_approval_{verb}", args=[call.pk]) for verb in ("approve", "refuse")]
    return Shown(
        badge=badge(word, TONES[word]),
        waited=span(waited_for_approval(call)),
        waits=waits,
        may_decide=may_decide,
        objection=objection_to(call, request.user) if may_decide else "",
        asked_by=asked_by(call, actors_of([call])),
        approve_url=urls[0],
        refuse_url=urls[1],
    )


class DecisionFilter(admin.SimpleListFilter):
    """What became of them; those that wait unless something else is chosen."""

    title = "decision"
    parameter_name = "decision"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The answers besides the usual one."""
        return [(word, word) for word in ("approved", "refused", "expired", "cancelled")] + [("any", "any")]

    def choices(self, changelist: Any) -> Iterator[Any]:
        """The answers, the usual one first and by its name."""
        usual, *others = super().choices(changelist)
        return iter([{**usual, "display": "waiting"}, *others])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Approval]) -> QuerySet[Approval]:
        """Only calls with the chosen answer."""
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
class ApprovalAdmin(ReadOnlyAdmin[Approval]):
    """Who asks for what, since when and until when; approved or refused here or on the call's page."""

    list_display = ("tool_name", "asker", "shown_arguments", "since", "waited", "left", "shown_decision")
    list_display_links = None
    list_filter = (DecisionFilter, "accepted_at")
    list_select_related = ("user", "decided_by")
    search_fields = ("tool", "principal", login_name("user"), "session_id")
    search_help_text = "Tool, principal, user or session id."
    actions = ("approve_calls", "refuse_calls")
    change_list_template = "mcp_admin/approvals.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Approval]:
        """Calls that needed approval, with arguments that are not too long to stand in a list."""
        is_short = When(stored_length__lte=LONGEST_ARGUMENTS, then=F("arguments"))
        return (
            super()
            .get_queryset(request)
            .exclude(approval_until=None)
            .defer("arguments", "answer", "meta", "session_fields")
            .annotate(stored_length=Length("arguments"))
            .annotate(short=Case(is_short, default=Value(""), output_field=TextField()))
        )

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """What ends first stands first; of what is decided, the newest."""
        return ("-accepted_at",) if request.GET.get("decision") else ("approval_until",)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The list, whose calls know the names of all who asked as somebody else."""
        changelist = super().get_changelist_instance(request)
        actors = actors_of(changelist.result_list)
        for call in changelist.result_list:
            call.actors = actors
        return changelist

    # Who may look and decide: as with all calls.

    def has_view_permission(self, request: HttpRequest, obj: Approval | None = None) -> bool:
        """These are calls."""
        return self.may_open(request, Call)

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """Approving and refusing have a permission of their own."""
        return request.user.has_perm("mcp_app.decide_call")

    # The columns.

    @admin.display(description="tool", ordering="tool")
    def tool_name(self, call: Approval) -> SafeString:
        """The tool, leading to the call's page."""
        return format_html(
            '<a class="mcp-link" href="{}">{}</a>', self._call_url(call.pk), visible(call.tool)
        )

    @admin.display(description="asked by", ordering=login_name("user"))
    def asker(self, call: Approval) -> SafeString:
        """The user behind the credential, and which one it was."""
        if call.user is None:
            return visible(call.principal)
        who = asked_by(call, getattr(call, "actors", {}))
        return format_html('{} <span class="mcp-dim">{}</span>', visible(who), visible(call.principal))

    @admin.display(description="arguments")
    def shown_arguments(self, call: Approval) -> SafeString:
        """The beginning of what it is asked to do, without secrets."""
        text = _arguments(call)
        if not text:
            return format_html('<span class="mcp-dim">{}</span>', "too long for a list")
        cut = text if len(text) <= LINE_CHARACTERS else text[:LINE_CHARACTERS] + "…"
        return format_html("<code>{}</code>", visible(cut))

    @admin.display(description="asked", ordering="accepted_at")
    def since(self, call: Approval) -> SafeString:
        """When it was asked for."""
        return moment(call.accepted_at)

    @admin.display(description="waited")
    def waited(self, call: Approval) -> SafeString:
        """How long it has waited for somebody."""
        return format_html('<span class="mcp-time">{}</span>', span(waited_for_approval(call)))

    @admin.display(description="expires in", ordering="approval_until")
    def left(self, call: Approval) -> SafeString:
        """How long it may still wait."""
        return format_html('<span class="mcp-time">{}</span>', span(time_left(call)))

    @admin.display(description="decision", ordering="decision")
    def shown_decision(self, call: Approval) -> SafeString:
        """What became of it, and by whom."""
        word = decision_of(call)
        by = format_html(" {}", visible(call.decided_by)) if call.decided_by else ""
        four_eyes = format_html(" {}", badge("four eyes")) if call.four_eyes else ""
        return format_html("{}{}{}", badge(word, TONES[word]), by, four_eyes)

    def _call_url(self, call_id: Any) -> str:
        return reverse(f"{self.admin_site.name}:mcp_app_call_change", args=[call_id])

    # Deciding.

    def object_buttons(self) -> dict[str, ObjectView]:
        """The buttons of a call's page."""
        return {"approve": self.approve_one, "refuse": self.refuse_one}

    def approve_one(self, request: HttpRequest, call: Approval) -> HttpResponse:
        """Approve one call."""
        return self._decide_one(request, call, "approve")

    def refuse_one(self, request: HttpRequest, call: Approval) -> HttpResponse:
        """Refuse one call."""
        return self._decide_one(request, call, "refuse")

    def _decide_one(self, request: HttpRequest, call: Approval, verb: str) -> HttpResponse:
        if not self.has_decide_permission(request):
            raise PermissionDenied
        try:
            _decide(verb, call.pk, request)
        except DecisionRefused as refused:
            self.message_user(request, marked(refused), messages.WARNING)
        else:
            self.message_user(request, f"The call was {_done(verb)}.", messages.SUCCESS)
        return HttpResponseRedirect(self._call_url(call.pk))

    @admin.action(description="Approve selected calls", permissions=["decide"])
    def approve_calls(self, request: HttpRequest, queryset: QuerySet[Approval]) -> HttpResponse | None:
        """Approve the chosen calls, after a look at what they are."""
        return self._decide_many(request, queryset, "approve")

    @admin.action(description="Refuse selected calls", permissions=["decide"])
    def refuse_calls(self, request: HttpRequest, queryset: QuerySet[Approval]) -> HttpResponse | None:
        """Refuse the chosen calls for one reason."""
        return self._decide_many(request, queryset, "refuse")

    def _decide_many(
        self, request: HttpRequest, queryset: QuerySet[Approval], verb: str
    ) -> HttpResponse | None:
        asked_before = request.POST.get("decided") == verb
        if asked_before and verb == "refuse" and not request.POST.get("reason", "").strip():
            self.message_user(request, "Give a reason: the callers are told it.", messages.WARNING)
        elif asked_before:
            self._decide_chosen(request, verb)
            return None
        return self._look(request, queryset, verb)

    def _decide_chosen(self, request: HttpRequest, verb: str) -> None:
        """Decide about the calls that were looked at, also when the list has moved on."""
        count = 0
        for text in request.POST.getlist(ACTION_CHECKBOX_NAME)[:MOST_AT_ONCE]:
            try:
                _decide(verb, UUID(text), request)
                count += 1
            except DecisionRefused as refused:
                words = f"Left alone: {marked(text)}. {marked(refused)}"
                self.message_user(request, words, messages.WARNING)
        if count:
            self.message_user(request, f"Calls {_done(verb)}: {count}.", messages.SUCCESS)

    def _look(self, request: HttpRequest, queryset: QuerySet[Approval], verb: str) -> HttpResponse | None:
        """The page on which the chosen calls are looked at before they are decided about together."""
        chosen = list(queryset.filter(state=State.APPROVAL_NEEDED)[:MOST_AT_ONCE])
        if not chosen:
            self.message_user(request, "None of them waits any more.", messages.INFO)
            return None
        actors = actors_of(chosen)
        context = {
            **self.object_context(request, f"{verb.capitalize()} {len(chosen)} calls"),
            "verb": verb,
            "calls": [
                _Looked(call, asked_by(call, actors), _pane(call), objection_to(call, request.user))
                for call in chosen
            ],
            "checkbox": ACTION_CHECKBOX_NAME,
            "longest_reason": LONGEST_REASON,
            "reason": request.POST.get("reason", ""),
        }
        return TemplateResponse(request, "mcp_admin/decide.html", context)

    # The pages.

    def get_urls(self) -> list[URLPattern]:
        """The skin's addresses, after that of the live view."""
        live = path("live/", self.admin_site.admin_view(self.live_view), name="mcp_app_approval_live")
        return [live, *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The queue, which says when it has changed; it does not move under the hand of who decides."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        watched = "" if request.GET.get("decision") else " ".join(_waiting_ids())
        context = {"live_url": self.page_url("live"), "watched": watched, **(extra_context or {})}
        return super().changelist_view(request, {**context, "watches": not request.GET.get("decision")})

    def live_view(self, request: HttpRequest) -> HttpResponse:
        """Which calls wait now; polled by the queue's page."""
        if request.method != "GET":
            return HttpResponseNotAllowed(["GET"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        return JsonResponse({"waiting": _waiting_ids()})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The page of the call, where all about it stands."""
        call = self.object_to_view(request, object_id)
        if call is None:
            return self.not_there(request, object_id)
        return HttpResponseRedirect(self._call_url(call.pk))


@dataclass(frozen=True, slots=True)
class _Looked:
    """A call on the page where many are decided about; ``arguments`` is None when they are too long."""

    call: Approval
    asked_by: str
    arguments: Pane | None
    objection: str


def _decide(verb: str, call_id: UUID, request: HttpRequest) -> None:
    decide = approve_call if verb == "approve" else refuse_call
    decide(call_id=call_id, actor=request.user, reason=request.POST.get("reason", ""))


def _done(verb: str) -> str:
    return "approved" if verb == "approve" else "refused"


def _arguments(call: Approval) -> str:
    short: str = getattr(call, "short", "")
    return redactor().message(short.encode("utf-8", "replace"), WHOLE)


def _pane(call: Approval) -> Pane | None:
    return pane(_arguments(call), LONGEST_ARGUMENTS * 2)


def _waiting_ids() -> list[str]:
    waiting = Call.objects.filter(state=State.APPROVAL_NEEDED).order_by("accepted_at")
    return [str(pk) for pk in waiting.values_list("pk", flat=True)[:MOST_WATCHED]]
