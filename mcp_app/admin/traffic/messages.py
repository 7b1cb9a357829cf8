"""Admin pages of the message log, with the pages of statistics and errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst

from mcp_app.admin.base import RowPageAdmin
from mcp_app.admin.callers.links import caller_of
from mcp_app.admin.calls.outgoing import sent_requests
from mcp_app.admin.dashboard import dashboard, may_see
from mcp_app.admin.entries.callers import rule_of
from mcp_app.admin.figures.errors import error_list, error_page
from mcp_app.admin.figures.page import figures
from mcp_app.admin.figures.table import as_csv
from mcp_app.admin.figures.triage import ErrorTriage, triage_part
from mcp_app.admin.long_lists import name_callers, name_clients
from mcp_app.admin.personal.saved_searches import SavedSearches
from mcp_app.admin.timeline import LONGEST_SHOWN, filters_of, row, timeline, trace_of
from mcp_app.admin.traffic.live import LIVE, can_go_live, live_context
from mcp_app.catalogue.access import obstacle_of
from mcp_app.interface.links import CALLED, call_of, page_patterns, refused_tool, replay_page, tool_page
from mcp_app.interface.text import marked
from mcp_app.message_log.counts.error_groups import kind_of
from mcp_app.message_log.pages import ERRORS
from mcp_app.message_log.search.language import KEYS
from mcp_app.models import Call, ErrorGroup, Message, Session, Tool
from mcp_app.protocol.messages.methods import every_method


@admin.register(Message)
class MessageAdmin(ErrorTriage, SavedSearches, RowPageAdmin[Message]):
    """Admin pages of the message log, and of the statistics and errors counted from it."""

    def get_urls(self) -> list[URLPattern]:
        pages = (
            ("dashboard", self.dashboard_view),
            ("figures", self.figures_view),
            ("errors", self.errors_view),
        )
        return [
            *(
                path(f"{name}/", self.admin_site.admin_view(view), name=f"mcp_app_message_{name}")
                for name, view in pages
            ),
            path(
                "errors/<slug:digest>/",
                self.admin_site.admin_view(self.error_view),
                name="mcp_app_message_error",
            ),
            *super().get_urls(),
        ]

    def dashboard_view(self, request: HttpRequest) -> HttpResponse:
        """Return the HTML of the dashboard, which the admin's first page reloads."""
        if not may_see(request):
            raise PermissionDenied
        return TemplateResponse(request, "mcp_admin/dashboard.html", {"dashboard": dashboard(request)})

    def figures_view(self, request: HttpRequest) -> HttpResponse:
        """Show the tool calls by tool, client, user or time, as a page or as a CSV file."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        shown = figures(request)
        if request.GET.get("format") == "csv":
            name = shown.view.file_name(shown.since, shown.at)
            named = {"Content-Disposition": f'attachment; filename="{name}"'}
            text = as_csv(shown.table, shown.view, shown.since, shown.at)
            return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=named)
        context = {**self.object_context(request, "Figures"), "is_place": True, "figures": shown}
        return TemplateResponse(request, "mcp_admin/figures.html", context)

    def errors_view(self, request: HttpRequest) -> HttpResponse:
        """List the groups of similar errors."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {
            **self.object_context(request, "Errors"),
            "is_place": True,
            "errors": error_list(request),
        }
        return TemplateResponse(request, "mcp_admin/errors.html", context)

    def error_view(self, request: HttpRequest, digest: str) -> HttpResponse:
        """Show a group of errors with its newest messages."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        group = ErrorGroup.objects.select_related("assignee").filter(pk=digest).first()
        if group is None:
            self.message_user(request, "This error is no longer stored.", messages.WARNING)
            return HttpResponseRedirect(self.page_url("errors"))
        error = error_page(group)
        _name((row.message for row in error.messages), request.user)
        context = {
            **self.object_context(request, f"Error in {marked(group.tool or group.method)[:60]}"),
            "error": error,
            "triage": triage_part(group, request.user),
            "opens_sessions": self.may_open(request, Session),
            "across_sessions": True,
        }
        return TemplateResponse(request, "mcp_admin/error.html", context)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the log as a timeline.

        Django's list cannot be used, because counting rows and paging by offset are too slow with millions of
        rows.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        switchable = can_go_live(request, "mcp_app.view_message")
        live = switchable and LIVE in request.GET
        found = filters_of(request.GET) if live else timeline(request.GET)
        _name((row.message for row in found.rows), request.user)
        context = {
            **self.object_context(request, "Log"),
            "timeline": found,
            "methods": every_method(),
            "keys": KEYS,
            "across_sessions": True,
            "opens_sessions": self.may_open(request, Session),
            "can_go_live": switchable,
            **(live_context(request) if live else {}),
            **(extra_context or {}),
        }
        template = "mcp_console/log.html" if live else "mcp_admin/messages.html"
        return TemplateResponse(request, template, context)

    def row_page(self, request: HttpRequest, message: Message) -> HttpResponse:
        """Show a message in full: its properties, its request and its answer."""
        name_clients([message])
        context = {
            **self.object_context(request, f"Message {message.pk}", message),
            "message": message,
            "row": row(message, LONGEST_SHOWN),
            "caller": caller_of(request.user, message.principal),
            "trace": trace_of(message.payload),
            "opens_sessions": self.may_open(request, Session),
            "opens_calls": self.may_open(request, Call),
            "outgoing": sent_requests(message),
            "error_url": _error_page(message),
            "address": request.build_absolute_uri(self.page_url("change", message)),
            **_pages_of(message, request.user),
            **_refused_tool(message, request.user),
        }
        return TemplateResponse(request, "mcp_admin/message.html", context)


def _name(messages: Iterable[Message], user: Any) -> None:
    """Attach the display names and pages of caller, client and tool to each message."""
    messages = list(messages)
    name_callers(messages, user)
    name_clients(messages)
    address = page_patterns(user).get("tool", "")
    called = {message.target for message in messages if message.method == CALLED} if address else set()
    tools = dict(Tool.objects.filter(name__in=called).values_list("name", "pk")) if called else {}
    for message in messages:
        pk = tools.get(message.target) if message.method == CALLED else None
        vars(message)["tool_url"] = address.replace("ID", str(pk)) if pk else ""


def _pages_of(message: Message, user: Any) -> dict[str, Any]:
    """Return links from a message to its replay, its call and its tool, and the time of the call's request.

    A link is None if the user may not open the page.
    """
    method, target = message.method, message.target
    call = call_of(
        user,
        method=method,
        session=message.session_id,
        target=target,
        request_id=message.request_id,
        at=message.at,
    )
    return {
        "replay_url": replay_page(user, method=method, kind=message.kind, target=target, pk=message.pk),
        "call_url": call and call.url,
        "requested": call and call.requested,
        "tool_url": tool_page(user, method=method, target=target),
    }


def _error_page(message: Message) -> str | None:
    """Return the address of the page of similar errors, or None if the message is not an error."""
    if message.outcome not in ERRORS:
        return None
    named = (message.method, message.target, message.outcome, message.answer, message.exception)
    digest = kind_of(*named).digest
    if not ErrorGroup.objects.filter(pk=digest).exists():
        return None
    return reverse("admin:mcp_app_message_error", args=[digest])


def _refused_tool(message: Message, user: Any) -> dict[str, str]:
    """Return the link to a tool that exists although the client got the answer "tool not found".

    It comes with the reason why the tool was not offered. Returns {} for other answers.
    """
    tool = refused_tool(user, method=message.method, answer=message.answer)
    if tool is None:
        return {}
    obstacle = obstacle_of(tool)
    why = f"No client can use it: {obstacle}" if obstacle else f"{capfirst(rule_of(tool))} can use it"
    said = f"There is a tool {marked(tool.name)}, but this user could not use it. {why}."
    return {"tool_url": reverse("admin:mcp_app_tool_change", args=[tool.pk]), "refused_tool": said}
