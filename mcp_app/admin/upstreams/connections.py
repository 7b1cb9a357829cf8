"""Admin pages of the accounts that users connected at upstream servers. Tokens are never shown."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db.models import QuerySet, Value
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString

from mcp_app.admin.base import ReadOnlyAdmin, object_button, revoking
from mcp_app.admin.callers.links import linked
from mcp_app.admin.columns import text_column, time_column
from mcp_app.admin.markup import badge
from mcp_app.auth.api_keys import login_name
from mcp_app.connections.services import end
from mcp_app.interface.links import may_view, user_address
from mcp_app.interface.text import visible
from mcp_app.models import UserConnection
from mcp_app.upstreams.accounts.use import Standing, problem_of, standing_of

TONES = {Standing.CONNECTED: ("connected", "good"), Standing.ATTENTION: ("needs attention", "bad")}


@admin.register(UserConnection)
class UserConnectionAdmin(ReadOnlyAdmin[UserConnection]):
    """Admin pages of user connections. They can be ended but not edited."""

    audit_kind = "upstream"
    list_display = ("shown_server", "person", "connected", "last_used", "state")
    list_display_links = ("shown_server",)
    list_filter = ("upstream",)
    list_select_related = ("upstream", "client", "user")
    search_fields = ("upstream__name", login_name("user"))
    search_help_text = "Server or user"
    actions = ("end_connections",)
    change_form_template = "mcp_admin/revocable_form.html"
    fields = (
        "shown_server",
        "person",
        "state",
        "shown_problem",
        "issuer",
        "scopes",
        "more_scopes",
        "connected",
        "renewed",
        "expires",
        "last_used",
    )

    def audit_key(self, row: UserConnection) -> str:
        """Return the name of the server in the audit trail."""
        return row.upstream.name

    def get_queryset(self, request: HttpRequest) -> QuerySet[UserConnection]:
        rows: QuerySet[UserConnection] = super().get_queryset(request)
        opens_user = Value(may_view(request.user, get_user_model()._meta.label_lower))
        return rows.defer("upstream__listed").annotate(opens_user=opens_user)

    def has_delete_permission(self, request: HttpRequest, obj: UserConnection | None = None) -> bool:
        """Deny deletion on these pages. A connection is deleted together with its user."""
        return not self.is_on_own_pages(request) and request.user.has_perm("mcp_app.delete_userconnection")

    def has_end_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may change connections. Ending a connection is the only change."""
        return request.user.has_perm("mcp_app.change_userconnection")

    @admin.action(description="End selected connections", permissions=["end"])
    def end_connections(self, request: HttpRequest, queryset: QuerySet[UserConnection]) -> None:
        """End each selected connection."""
        number = end(connections=queryset, actor=request.user)
        self.message_user(request, f"User connections ended: {number}.", messages.SUCCESS)

    @object_button("end", "end")
    def end_one(self, request: HttpRequest, row: UserConnection) -> HttpResponse:
        """End one connection, whose page then no longer exists."""
        end(connections=[row], actor=request.user)
        self.message_user(request, "User connection ended.", messages.SUCCESS)
        return HttpResponseRedirect(self.back_to_list(request))

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Return the button that ends the connection, if permitted."""
        then = "Calls of this user fail until the user connects again."
        button = revoking("admin:mcp_app_userconnection_end", "End", "connection", then)
        return {"revoking": button if self.has_end_permission(request) else None}

    shown_server = text_column("server", "upstream", ordering="upstream__name")
    scopes = text_column("permissions", "scope", empty="not named")
    more_scopes = text_column("permissions to add", "needed", empty="none")
    connected = time_column("connected", "connected_at")
    renewed = time_column("renewed", "renewed_at", sortable=False)
    expires = time_column("token expires", "expires_at", sortable=False, empty="unknown")
    last_used = time_column("last used", "last_used_at")

    @admin.display(description="user", ordering=login_name("user"))
    def person(self, row: UserConnection) -> SafeString:
        """Return the user, as a link if the reader may open the pages of users."""
        opens = getattr(row, "opens_user", False)
        return linked(str(row.user), user_address(row.user_id) if opens else None)

    @admin.display(description="login server")
    def issuer(self, row: UserConnection) -> SafeString:
        """Return the authorization server."""
        return visible(row.client.issuer)

    @admin.display(description="problem")
    def shown_problem(self, row: UserConnection) -> SafeString | str:
        """Return the reason why the connection needs attention."""
        problem = problem_of(row)
        return visible(problem) if problem else "none"

    @admin.display(description="status")
    def state(self, row: UserConnection) -> SafeString:
        """Return the state as a badge."""
        return badge(*TONES[standing_of(row)])
