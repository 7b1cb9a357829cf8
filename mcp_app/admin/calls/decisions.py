"""Approval and refusal of calls: a single call with a button, several calls after a confirmation page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.forms import Media
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import RowPageAdmin, object_button
from mcp_app.admin.calls.approval import NOT_SHOWN, AskedTool, asked_tools
from mcp_app.admin.calls.callers import caller_of, client_of, names_of
from mcp_app.admin.calls.given import Given, given
from mcp_app.admin.markup import relative
from mcp_app.execution.call_log import redactor
from mcp_app.execution.decisions import DecisionRefused, approve_call, objections, refuse_call
from mcp_app.execution.stored.pending_approvals import LONGEST_REASON
from mcp_app.interface.text import marked
from mcp_app.models import Approval
from mcp_app.protocol.call_state import State

# Longer arguments are shown only on the page of their call, because the confirmation page lists many calls.
LONGEST_ARGUMENTS = 20_000
WHOLE = 1 << 30
MOST_AT_ONCE = 100


class DecidingAdmin(RowPageAdmin[Approval]):
    """Base class of the approval queue: the bulk actions, and the buttons that decide a single call."""

    actions = ("approve_calls", "refuse_calls")

    @property
    def media(self) -> Media:
        """Add the style of the cards and the keys that decide."""
        return super().media + Media(css={"all": ["mcp_app/decide.css"]}, js=["mcp_app/decide.js"])

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may approve and refuse calls."""
        return request.user.has_perm("mcp_app.decide_call")

    def call_url(self, call_id: Any) -> str:
        """Return the address of a call's page."""
        return reverse(f"{self.admin_site.name}:mcp_app_call_change", args=[call_id])

    @object_button("approve", "decide")
    def approve_one(self, request: HttpRequest, call: Approval) -> HttpResponse:
        """Approve one call."""
        return self._decide_one(request, call, "approve")

    @object_button("refuse", "decide")
    def refuse_one(self, request: HttpRequest, call: Approval) -> HttpResponse:
        """Refuse one call."""
        return self._decide_one(request, call, "refuse")

    def _decide_one(self, request: HttpRequest, call: Approval, verb: str) -> HttpResponse:
        try:
            _decide(verb, call.pk, request)
        except DecisionRefused as refused:
            self.message_user(request, marked(refused), messages.WARNING)
        else:
            self.message_user(request, self._consequence(verb, call), messages.SUCCESS)
        if "from_queue" in request.GET:
            return HttpResponseRedirect(self.back_to_list(request))
        return HttpResponseRedirect(self.call_url(call.pk))

    def _consequence(self, verb: str, call: Approval) -> SafeString:
        """Return the message after a decision. An approved call can be cancelled on the linked page."""
        who, tool = marked(caller_of(call, names_of([call]))), marked(call.tool)
        if verb == "refuse":
            return format_html("The call of {} by {} was refused.", tool, who)
        words = 'The call of {} by {} was approved. <a class="mcp-link" href="{}">View call</a>'
        return format_html(words, tool, who, self.call_url(call.pk))

    @admin.action(description="Approve selected calls", permissions=["decide"])
    def approve_calls(self, request: HttpRequest, queryset: QuerySet[Approval]) -> HttpResponse | None:
        """Approve the selected calls after a confirmation page."""
        return self._decide_many(request, queryset, "approve")

    @admin.action(description="Refuse selected calls", permissions=["decide"])
    def refuse_calls(self, request: HttpRequest, queryset: QuerySet[Approval]) -> HttpResponse | None:
        """Refuse the selected calls with a common reason, after a confirmation page."""
        return self._decide_many(request, queryset, "refuse")

    def _decide_many(
        self, request: HttpRequest, queryset: QuerySet[Approval], verb: str
    ) -> HttpResponse | None:
        asked_before = request.POST.get("decided") == verb
        if asked_before and verb == "refuse" and not request.POST.get("reason", "").strip():
            self.message_user(request, "Enter a reason. The callers see it.", messages.WARNING)
        elif asked_before:
            self._decide_chosen(request, verb)
            return None
        return self._confirm(request, queryset, verb)

    def _decide_chosen(self, request: HttpRequest, verb: str) -> None:
        """Decide the calls that the confirmation page listed, even if the queue has changed since."""

        def decide(text: str) -> None:
            _decide(verb, UUID(text), request)

        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)[:MOST_AT_ONCE]
        if count := self.done_to_each(request, chosen, decide, DecisionRefused):
            self.message_user(request, f"Calls {_done(verb)}: {count}.", messages.SUCCESS)

    def _confirm(self, request: HttpRequest, queryset: QuerySet[Approval], verb: str) -> HttpResponse | None:
        """Show the selected calls on the confirmation page."""
        chosen = list(queryset.filter(state=State.APPROVAL_NEEDED)[:MOST_AT_ONCE])
        if not chosen:
            self.message_user(request, "None of these calls waits any longer.", messages.INFO)
            return None
        names, objected = names_of(chosen), objections(chosen, request.user)
        tools = asked_tools(call.tool for call in chosen)
        context = {
            **self.object_context(request, f"{verb.capitalize()} {len(chosen)} calls"),
            "verb": verb,
            "calls": [
                _Looked(
                    call,
                    self.call_url(call.pk),
                    f"{caller_of(call, names)}, {client_of(call)}",
                    tools.get(call.tool, NOT_SHOWN),
                    relative(call.accepted_at),
                    given(arguments_of(call)),
                    objected[call.pk],
                )
                for call in chosen
            ],
            "free": sum(verb == "refuse" or not objected[call.pk] for call in chosen),
            "checkbox": ACTION_CHECKBOX_NAME,
            "longest_reason": LONGEST_REASON,
            "reason": request.POST.get("reason", ""),
        }
        return TemplateResponse(request, "mcp_admin/decide.html", context)


@dataclass(frozen=True, slots=True)
class _Looked:
    """A call on the confirmation page. ``given`` is None if the arguments are too long for the page."""

    call: Approval
    url: str
    asked_by: str
    tool: AskedTool
    since: SafeString
    given: Given | None
    objection: str


def _decide(verb: str, call_id: UUID, request: HttpRequest) -> None:
    decide = approve_call if verb == "approve" else refuse_call
    reason = request.POST.get("reason") or request.POST.get(f"reason-{call_id}", "")
    decide(call_id=call_id, actor=request.user, reason=reason)


def reason_field(call: Approval) -> str:
    """Return the name of the input for the reason in a call's row. The name is unique within the list."""
    return f"reason-{call.pk}"


def _done(verb: str) -> str:
    return "approved" if verb == "approve" else "refused"


def arguments_of(call: Approval) -> str:
    """Return the redacted arguments of a call, or "" if they are too long for a list."""
    short: str = getattr(call, "short", "")
    return redactor().message(short.encode("utf-8", "replace"), WHOLE)
