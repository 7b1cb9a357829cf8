"""Pages of sessions, including subscriptions, and of the message log. Sessions can be ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from mcp_app.admin.base import RowPageAdmin, object_button
from mcp_app.admin.columns import text_column, time_column, who_column
from mcp_app.admin.dashboard import dashboard, may_see
from mcp_app.admin.entries.callers import rule_of
from mcp_app.admin.figures.errors import error_list, error_page
from mcp_app.admin.figures.page import csv_name, figures
from mcp_app.admin.figures.table import as_csv
from mcp_app.admin.list_filters import StateFilter
from mcp_app.admin.long_lists import MOST_LISTED, LongListAdmin, name_callers, name_clients
from mcp_app.admin.markup import badge
from mcp_app.admin.personal.saved_searches import SavedSearches
from mcp_app.admin.timeline import LONGEST_SHOWN, row, timeline, trace_of
from mcp_app.auth.services import login_name
from mcp_app.catalogue.access import obstacle_of
from mcp_app.interface.links import call_page, refused_tool, replay_page, tool_page
from mcp_app.interface.text import json_text, marked, visible, visible_block
from mcp_app.models import Call, ErrorGroup, Message, Session
from mcp_app.protocol.messages.methods import every_method
from mcp_app.protocol.versions import SERVED
from mcp_app.sessions.services import end_session_now, idle_since, session_states


def state_of(session: Session) -> str:
    """Return ``open``, ``idle`` (silent for longer than the idle limit) or ``ended``."""
    if session.ended_at is not None:
        return "ended"
    return "open" if session.last_seen_at >= idle_since() else "idle"


class SessionStateFilter(StateFilter):
    """List filter by state: open, idle, ended."""

    states = staticmethod(session_states)


class VersionFilter(admin.SimpleListFilter):
    """List filter by protocol revision; the choices are fixed, to avoid a scan of the table."""

    title = "protocol version"
    parameter_name = "version"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(version, version) for version in SERVED]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        return queryset.filter(protocol_version=self.value()) if self.value() else queryset


@admin.register(Session)
class SessionAdmin(LongListAdmin[Session]):
    """Pages of sessions, each with its timeline of messages."""

    sortable_by = ("who", "created", "seen", "state")  # indexed columns
    list_display = ("client", "who", "state", "seen", "message_count", "created", "where", "protocol")
    list_display_links = ("client",)
    list_filter = (SessionStateFilter, VersionFilter, "created_at")
    search_fields = ("id", "client_name", "client_version", "principal", login_name("user"), "address")
    search_help_text = f"Client, who, address, session id; of the newest {MOST_LISTED:,} sessions."
    newest_by = "created_at"
    actions = ("end_sessions",)

    @admin.display(description="client")
    def client(self, session: Session) -> SafeString:
        """Return the client's self-reported name and version."""
        return visible(f"{session.client_name} {session.client_version}".strip() or "(no name)")

    who = who_column()
    where = text_column("address", "address", empty="-")
    protocol = text_column("protocol", "protocol_version")
    created = time_column("created", "created_at")
    seen = time_column("last seen", "last_seen_at")

    @admin.display(description="state", ordering="ended_at")
    def state(self, session: Session) -> SafeString:
        """Return the state as a badge."""
        name = state_of(session)
        return badge(name, {"open": "good", "idle": "warn"}.get(name, "plain"))

    @admin.display(description="messages")
    def message_count(self, session: Session) -> int:
        """Return the number of logged messages, including deleted ones."""
        return session.messages_logged

    def has_end_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may change sessions: ending changes them."""
        return request.user.has_perm("mcp_app.change_session")

    @admin.action(description="End selected sessions", permissions=["end"])
    def end_sessions(self, request: HttpRequest, queryset: QuerySet[Session]) -> None:
        """End each chosen session. Its client has to initialize again."""
        ended = sum(end_session_now(session_id=session.pk, actor=request.user) for session in queryset)
        self.message_user(request, f"Sessions ended: {ended}.", messages.SUCCESS)

    @object_button("end", "end")
    def end_one(self, request: HttpRequest, session: Session) -> None:
        """End one session."""
        if end_session_now(session_id=session.pk, actor=request.user):
            self.message_user(request, "The session was ended.", messages.SUCCESS)
        else:
            self.message_user(request, "The session had already ended.", messages.INFO)

    def row_page(self, request: HttpRequest, session: Session) -> HttpResponse:
        """Show a session and its timeline."""
        may_read = request.user.has_perm("mcp_app.view_message")
        name_callers([session])
        context = {
            **self.object_context(
                request, f"Session of {marked(session.client_name or '(no name)')[:60]}", session
            ),
            "session": session,
            "state": self.state(session),
            "fields": visible_block(json_text(session.fields)),
            "end_url": self.page_url("end", session) + "?from_page=1",
            "can_watch": request.user.has_perms(["mcp_app.view_session", "mcp_app.view_message"]),
            "can_end": self.has_end_permission(request) and session.ended_at is None,
            "timeline": timeline(request.GET, session=session.pk) if may_read else None,
            "methods": every_method(),
        }
        return TemplateResponse(request, "mcp_admin/session.html", context)


@admin.register(Message)
class MessageAdmin(SavedSearches, RowPageAdmin[Message]):
    """Pages of the message log of all sessions, and of the figures counted from it."""

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
        """Return the dashboard fragment, which the first page reloads."""
        if not may_see(request):
            raise PermissionDenied
        return TemplateResponse(request, "mcp_admin/dashboard.html", {"dashboard": dashboard(request)})

    def figures_view(self, request: HttpRequest) -> HttpResponse:
        """Show tool calls by tool, client, person or time, as a page or as CSV."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        shown = figures(request)
        if request.GET.get("format") == "csv":
            named = {"Content-Disposition": f'attachment; filename="{csv_name(request)}"'}
            return HttpResponse(as_csv(shown.table), content_type="text/csv; charset=utf-8", headers=named)
        context = {**self.object_context(request, "Figures"), "figures": shown}
        return TemplateResponse(request, "mcp_admin/figures.html", context)

    def errors_view(self, request: HttpRequest) -> HttpResponse:
        """List groups of similar errors."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {**self.object_context(request, "Errors"), "errors": error_list(request)}
        return TemplateResponse(request, "mcp_admin/errors.html", context)

    def error_view(self, request: HttpRequest, digest: str) -> HttpResponse:
        """Show one group of errors with its newest messages."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        group = ErrorGroup.objects.filter(pk=digest).first()
        if group is None:
            self.message_user(request, "This group of errors is not kept any more.", messages.WARNING)
            return HttpResponseRedirect(self.page_url("errors"))
        error = error_page(group)
        _name(row.message for row in error.messages)
        context = {
            **self.object_context(request, f"Error in {marked(group.tool or group.method)[:60]}"),
            "error": error,
            "opens_sessions": self.may_open(request, Session),
            "across_sessions": True,
        }
        return TemplateResponse(request, "mcp_admin/error.html", context)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the log as a timeline: counting and offset paging fail with millions of rows."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        found = timeline(request.GET)
        _name(row.message for row in found.rows)
        context = {
            **self.object_context(request, "Messages"),
            "opts": self.opts,
            "timeline": found,
            "methods": every_method(),
            "across_sessions": True,
            "opens_sessions": self.may_open(request, Session),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "mcp_admin/messages.html", context)

    def row_page(self, request: HttpRequest, message: Message) -> HttpResponse:
        """Show one message in full: its facts, its request and its answer."""
        _name([message])
        context = {
            **self.object_context(request, f"Message {message.pk}", message),
            "message": message,
            "row": row(message, LONGEST_SHOWN),
            "trace": trace_of(message.payload),
            "opens_sessions": self.may_open(request, Session),
            "opens_calls": self.may_open(request, Call),
            "address": request.build_absolute_uri(self.page_url("change", message)),
            **_pages_of(message, request.user),
            **_refused_tool(message, request.user),
        }
        return TemplateResponse(request, "mcp_admin/message.html", context)


def _name(messages: Iterable[Message]) -> None:
    """Attach the sender's and the client's name to each message."""
    messages = list(messages)
    name_callers(messages)
    name_clients(messages)


def _pages_of(message: Message, user: Any) -> dict[str, str | None]:
    """Return links from a message to its replay, call and tool, as far as permitted."""
    method, target = message.method, message.target
    return {
        "replay_url": replay_page(user, method=method, kind=message.kind, target=target, pk=message.pk),
        "call_url": call_page(
            user, method=method, session=message.session_id, target=target, request_id=message.request_id
        ),
        "tool_url": tool_page(user, method=method, target=target),
    }


def _refused_tool(message: Message, user: Any) -> dict[str, str]:
    """Return the existing tool behind a "tool not found" answer, and why it was not offered."""
    tool = refused_tool(user, method=message.method, answer=message.answer)
    if tool is None:
        return {}
    obstacle = obstacle_of(tool)
    why = f"nobody can use it now: {obstacle}" if obstacle else f"it is offered to {rule_of(tool)}"
    said = f"There is a tool {marked(tool.name)}, which was not offered to this caller; {why}."
    return {"tool_url": reverse("admin:mcp_app_tool_change", args=[tool.pk]), "refused_tool": said}
