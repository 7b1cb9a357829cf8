"""Owns the pages of OAuth: clients (switch off, enter by hand) and connections (end)."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from mcp_app.admin.base import ReadOnlyAdmin, object_button
from mcp_app.admin.columns import text_column, time_column
from mcp_app.admin.issued import IssuedAdmin, IssuedForm
from mcp_app.admin.markup import badge
from mcp_app.auth.site import company_login_lacks, second_factor_lacks
from mcp_app.oauth.connections import disable, enable, end
from mcp_app.oauth.models import Client, Connection
from mcp_app.oauth.registration import RegistrationRefused, enter, kept
from mcp_app.text import marked, visible

KINDS = {"manual": "entered here", "dcr": "registered itself", "cimd": "published document"}


def undress() -> None:
    """Take the libraries' own pages away: they show empty tables, and edit what is not to be edited."""
    labels = ["oauth2_provider", "mcp_oauth"]
    if not company_login_lacks():
        labels += ["account", "socialaccount"]
    if not second_factor_lacks():
        labels.append("mfa")
    for label in labels:
        for model in apps.get_app_config(label).get_models():
            if admin.site.is_registered(model):
                admin.site.unregister(model)


undress()


class ClientForm(IssuedForm[Client]):
    """What an administrator enters of a client that cannot register itself."""

    class Meta:
        model = Client
        fields = ("name", "redirect_uris", "token_auth_method")
        help_texts = {
            "redirect_uris": "Where answers may be sent: one address on each line.",
            "token_auth_method": "How it proves itself when it asks for tokens.",
        }

    def _post_clean(self) -> None:
        """Not the model's own rules: the service has words for people."""
        if not self.errors:
            self.issue()

    def issue(self) -> None:
        """Enter the client."""
        said = {
            "client_name": self.cleaned_data["name"],
            "redirect_uris": self.cleaned_data["redirect_uris"].split(),
            "token_endpoint_auth_method": self.cleaned_data["token_auth_method"],
        }
        try:
            self.instance, self.secret = enter(kept(said), actor=self.actor)
        except RegistrationRefused as refused:
            field = "redirect_uris" if refused.code == "invalid_redirect_uri" else "token_auth_method"
            self.add_error(field, ValidationError(str(refused)))


@admin.register(Client)
class ClientAdmin(IssuedAdmin[Client]):
    """Clients. One is entered and switched off, never edited: people agreed to what they saw."""

    form = ClientForm
    list_display = ("shown_name", "host", "kind", "people", "created_at", "last_used", "state")
    list_display_links = ("shown_name",)
    list_filter = ("registration_source",)
    search_fields = ("name", "client_id", "redirect_uris")
    search_help_text = "Name, client id or address."
    change_form_template = "mcp_admin/oauth_client_form.html"
    entered_fields = ("name", "redirect_uris", "token_auth_method")
    issued_title = "Client entered"
    issued_template = "mcp_admin/oauth_client_entered.html"
    shown_fields = (
        "shown_name",
        "shown_id",
        "kind",
        "addresses",
        "token_auth_method",
        "network",
        "state",
        "created_at",
        "last_used",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Client]:
        """With the number of people who are connected by each."""
        live = Count("connections__user", filter=Q(connections__revoked_at=None), distinct=True)
        rows: QuerySet[Client] = super().get_queryset(request).annotate(people_connected=live)
        return rows

    def has_delete_permission(self, request: HttpRequest, obj: Client | None = None) -> bool:
        """Switching off keeps the record; unused ones go by themselves."""
        return False

    def has_switch_permission(self, request: HttpRequest) -> bool:
        """Switching a client off or on is its one change."""
        return request.user.has_perm("mcp_oauth.change_client")

    def issued_context(self, request: HttpRequest, row: Client, secret: str) -> dict[str, Any]:
        """The client."""
        return {"client": row}

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Whether there are buttons to switch it off and on."""
        return {"can_switch": self.has_switch_permission(request)}

    @object_button("disable", "switch")
    def disable_one(self, request: HttpRequest, client: Client) -> None:
        """Switch a client off; all its connections end."""
        disable(client, actor=request.user)
        self.message_user(
            request, f"{marked(client)} was switched off, its connections ended.", messages.SUCCESS
        )

    @object_button("enable", "switch")
    def enable_one(self, request: HttpRequest, client: Client) -> None:
        """Switch a client on."""
        enable(client, actor=request.user)
        self.message_user(request, f"{marked(client)} can be connected again.", messages.SUCCESS)

    shown_name = text_column("name", "name", ordering="name", empty="without a name")
    shown_id = text_column("client id", "client_id")

    @admin.display(description="answers go to")
    def host(self, client: Client) -> SafeString:
        """The first of its addresses."""
        return visible((client.redirect_uris.split() or [""])[0][:60])

    @admin.display(description="addresses")
    def addresses(self, client: Client) -> SafeString:
        """Where its answers may be sent."""
        return visible(client.redirect_uris.replace(" ", ", "))

    @admin.display(description="kind", ordering="registration_source")
    def kind(self, client: Client) -> SafeString:
        """How it was registered, which shows who vouches for its name."""
        words = KINDS.get(client.registration_source, "unknown")
        return badge(words, "good" if client.verified else "warn")

    @admin.display(description="people", ordering="people_connected")
    def people(self, client: Client) -> int:
        """How many are connected by it."""
        return int(getattr(client, "people_connected", 0))

    created_at = time_column("created", "created")
    last_used = time_column("last used", "last_used_at")

    @admin.display(description="state")
    def state(self, client: Client) -> SafeString:
        """On or off."""
        return badge("off", "bad") if client.disabled_at else badge("on", "good")


def state_of(connection: Connection) -> str:
    """``live``, ``over`` or ``ended``."""
    if connection.revoked_at is not None:
        return "ended"
    return "live" if connection.live else "over"


@admin.register(Connection)
class ConnectionAdmin(ReadOnlyAdmin[Connection]):
    """Connections: which person let which client connect. They are ended here, never made."""

    list_display = ("shown_client", "person", "scope", "created", "last_used", "state")
    list_display_links = ("shown_client",)
    search_fields = ("client__name", "client__client_id", "user__username")
    search_help_text = "Client or user."
    list_select_related = ("client", "user")
    actions = ("end_connections",)
    change_form_template = "mcp_admin/revocable_form.html"
    fields = (
        "shown_client",
        "person",
        "resource",
        "scope",
        "state",
        "end_reason",
        "created",
        "last_used",
        "ends",
    )

    def has_delete_permission(self, request: HttpRequest, obj: Connection | None = None) -> bool:
        """Not here: ending keeps the record. A connection may go together with its user."""
        return not self.is_on_own_pages(request) and request.user.has_perm("mcp_oauth.delete_connection")

    def has_end_permission(self, request: HttpRequest) -> bool:
        """Ending is the one change of a connection."""
        return request.user.has_perm("mcp_oauth.change_connection")

    @admin.action(description="End selected connections", permissions=["end"])
    def end_connections(self, request: HttpRequest, queryset: QuerySet[Connection]) -> None:
        """End each chosen connection."""
        live = [connection for connection in queryset.select_related("user", "client") if connection.live]
        for connection in live:
            end(connection, "ended by an operator", actor=request.user)
        self.message_user(request, f"Connections ended: {len(live)}.", messages.SUCCESS)

    @object_button("end", "end")
    def end_one(self, request: HttpRequest, connection: Connection) -> None:
        """End one connection."""
        end(connection, "ended by an operator", actor=request.user)
        self.message_user(request, "The connection was ended.", messages.SUCCESS)

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """The button to end it, for who may."""
        button = {"address": "admin:mcp_oauth_connection_end", "label": "End this connection"}
        return {"revoking": button if self.has_end_permission(request) else None}

    shown_client = text_column("client", "client", ordering="client__name")
    person = text_column("user", "user", ordering="user__username")
    created = time_column("connected", "created_at")
    last_used = time_column("last used", "last_used_at")
    ends = time_column("ends", "ends_at", sortable=False)

    @admin.display(description="state")
    def state(self, connection: Connection) -> SafeString:
        """Live, over or ended."""
        name = state_of(connection)
        return badge(name, {"live": "good", "over": "warn", "ended": "bad"}[name])
