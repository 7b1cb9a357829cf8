"""Admin pages of sessions, including records of modern clients. Sessions can be ended."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from mcp_app.admin.base import object_button
from mcp_app.admin.callers.links import caller_of
from mcp_app.admin.columns import text_column, time_column, who_column
from mcp_app.admin.list_filters import StateFilter, by_date
from mcp_app.admin.long_lists import MOST_LISTED, LongListAdmin
from mcp_app.admin.markup import badge
from mcp_app.admin.timeline import Timeline, timeline
from mcp_app.admin.traffic.live import LIVE, can_go_live, live_context
from mcp_app.auth.api_keys import login_name
from mcp_app.interface.text import UNNAMED_CLIENT, json_text, marked, visible, visible_block
from mcp_app.message_log.search.language import KEYS
from mcp_app.models import Message, Session
from mcp_app.protocol.messages.methods import every_method
from mcp_app.protocol.versions import SERVED
from mcp_app.sessions.services import end_session_now, idle_since, session_states

# States of the live list. Ended sessions stay in the list of open sessions for a minute.
STATES: Final = (("open", "Open"), ("idle", "Idle"), ("ended", "Ended"))


def state_of(session: Session) -> str:
    """Return ``open``, ``idle`` (no requests for longer than the idle limit) or ``ended``."""
    if session.ended_at is not None:
        return "ended"
    return "open" if session.last_seen_at >= idle_since() else "idle"


class SessionStateFilter(StateFilter):
    """List filter by state: open, idle, ended."""

    states = staticmethod(session_states)


class VersionFilter(admin.SimpleListFilter):
    """List filter by protocol revision.

    The choices are fixed, because reading them from the sessions would scan the whole table.
    """

    title = "protocol version"
    parameter_name = "version"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(version, version) for version in SERVED]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        return queryset.filter(protocol_version=self.value()) if self.value() else queryset


@admin.register(Session)
class SessionAdmin(LongListAdmin[Session]):
    """Admin pages of sessions. The page of a session shows its messages."""

    sortable_by = ("who", "created", "seen", "state")  # The columns that have an index.
    list_display = ("client", "who", "state", "seen", "message_count", "created", "where", "protocol")
    list_display_links = ("client",)
    list_filter = (SessionStateFilter, VersionFilter, ("created_at", by_date("creation date")))
    search_fields = ("id", "client_name", "client_version", "principal", login_name("user"), "address")
    search_help_text = f"Client, user, address or id, in the latest {MOST_LISTED:,} sessions"
    newest_by = "created_at"
    change_list_template = "mcp_admin/sessions.html"
    actions = ("end_sessions",)

    @admin.display(description="client")
    def client(self, session: Session) -> SafeString:
        """Return the name and version that the client sent."""
        return visible(f"{session.client_name} {session.client_version}".strip() or UNNAMED_CLIENT)

    who = who_column()
    where = text_column("address", "address", empty="–")
    protocol = text_column("protocol", "protocol_version")
    created = time_column("created", "created_at")
    seen = time_column("last seen", "last_seen_at")

    @admin.display(description="status", ordering="ended_at")
    def state(self, session: Session) -> SafeString:
        """Return the state as a badge."""
        name = state_of(session)
        return badge(name, {"open": "good", "idle": "warn"}.get(name, "plain"))

    @admin.display(description="messages")
    def message_count(self, session: Session) -> int:
        """Return the number of messages logged for the session, with deleted ones and pending requests."""
        return session.messages_logged + int(vars(session).get("pending", 0))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Attach the number of pending requests, which the page of a session lists as well."""
        changelist: Any = super().get_changelist_instance(request)
        rows = list(changelist.result_list)
        # Few requests are pending at a time, but a condition on sessions would read all of their messages.
        pending = Message.objects.filter(pending__isnull=False).order_by()
        counts = Counter(pending.values_list("session_id", flat=True))
        for row in rows:
            vars(row)["pending"] = counts[row.pk]
        changelist.result_list = rows
        return changelist

    def has_end_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may change sessions, which includes ending them."""
        return request.user.has_perm("mcp_app.change_session")

    @admin.action(description="End selected sessions", permissions=["end"])
    def end_sessions(self, request: HttpRequest, queryset: QuerySet[Session]) -> None:
        """End each selected session. Its client must initialize a new session."""
        ended = sum(end_session_now(session_id=session.pk, actor=request.user) for session in queryset)
        self.message_user(request, f"Sessions ended: {ended}.", messages.SUCCESS)

    @object_button("end", "end")
    def end_one(self, request: HttpRequest, session: Session) -> None:
        """End one session."""
        if end_session_now(session_id=session.pk, actor=request.user):
            self.message_user(request, "The session was ended.", messages.SUCCESS)
        else:
            self.message_user(request, "The session had already ended.", messages.INFO)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list of sessions, or the live list."""
        switchable = can_go_live(request, "mcp_app.view_session")
        if LIVE not in request.GET or not switchable:
            kept = {name: request.GET[name] for name in ("q", "state") if request.GET.get(name)}
            live_url = "?" + urlencode({LIVE: "1", **kept}) if switchable else ""
            asked = request.GET.copy()
            asked.pop(LIVE, None)  # Django's list would take it for a field.
            request.GET = asked  # type: ignore[assignment]
            return super().changelist_view(request, {"live_url": live_url, **(extra_context or {})})
        context = {
            **self.object_context(request, "Sessions"),
            **live_context(request),
            "search": request.GET.get("q", "")[:200],
            "state": request.GET.get("state", "open"),
            "states": STATES,
        }
        return TemplateResponse(request, "mcp_console/sessions.html", context)

    def row_page(self, request: HttpRequest, session: Session) -> HttpResponse:
        """Show a session with its messages."""
        may_read = request.user.has_perm("mcp_app.view_message")
        found = timeline(request.GET, session=session.pk) if may_read else None
        context = {
            **self.object_context(
                request, f"Session of {marked(session.client_name or UNNAMED_CLIENT)[:60]}", session
            ),
            "session": session,
            "state": self.state(session),
            "caller": caller_of(request.user, session.principal),
            "fields": visible_block(json_text(session.fields)),
            "end_url": self.page_url("end", session) + "?from_page=1",
            "keys": KEYS,
            "can_end": self.has_end_permission(request) and session.ended_at is None,
            "timeline": found,
            "live_url": _live_url(request, session, found) if found else "",
            "methods": every_method(),
        }
        return TemplateResponse(request, "mcp_admin/session.html", context)


def _live_url(request: HttpRequest, session: Session, found: Timeline) -> str:
    """Return the address of the session's live page with the same search, or "" if there is no such page."""
    if not request.user.has_perms(["mcp_app.view_session", "mcp_app.view_message"]):
        return ""
    try:
        address = reverse("mcp_console:session", args=[session.pk])
    except NoReverseMatch:
        return ""
    return f"{address}?{urlencode({'q': found.text})}" if found.text else address
