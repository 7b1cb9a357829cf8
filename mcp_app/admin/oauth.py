"""Owns the pages of OAuth: clients (switch off, enter by hand) and connections (end)."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString

from mcp_app.admin.base import ModelAdmin, ModelForm, ObjectView, ReadOnlyAdmin
from mcp_app.admin.shown import badge, moment
from mcp_app.oauth.connections import disable, enable, end
from mcp_app.oauth.models import Client, Connection
from mcp_app.oauth.registration import RegistrationRefused, enter, kept
from mcp_app.text import marked, visible

KINDS = {"manual": "entered here", "dcr": "registered itself", "cimd": "published document"}


def undress() -> None:
    """Take the library's own pages away: they show empty tables, and edit what is not to be edited."""
    for label in ("oauth2_provider", "mcp_oauth"):
        for model in apps.get_app_config(label).get_models():
            if admin.site.is_registered(model):
                admin.site.unregister(model)


undress()


class ClientForm(ModelForm[Client]):
    """What an administrator enters of a client that cannot register itself."""

    actor: Any = None
    secret: str = ""

    class Meta:
        model = Client
        fields = ("name", "redirect_uris", "token_auth_method")
        help_texts = {
            "redirect_uris": "Where answers may be sent: one address on each line.",
            "token_auth_method": "How it proves itself when it asks for tokens.",
        }

    def _post_clean(self) -> None:
        """The last step of validation is the service, whose complaints stand beside their fields."""
        if self.errors:
            return
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

    def save(self, commit: bool = True) -> Client:
        """The client that validation has entered through the service."""
        return self.instance

    def save_m2m(self) -> None:
        """A client has no related rows of its own."""


@admin.register(Client)
class ClientAdmin(ModelAdmin[Client]):
    """Clients. One is entered and switched off, never edited: people agreed to what they saw."""

    form = ClientForm
    list_display = ("shown_name", "host", "kind", "people", "created_at", "last_used", "state")
    list_display_links = ("shown_name",)
    list_filter = ("registration_source",)
    search_fields = ("name", "client_id", "redirect_uris")
    search_help_text = "Name, client id or address."
    change_form_template = "mcp_admin/oauth_client_form.html"
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

    def has_change_permission(self, request: HttpRequest, obj: Client | None = None) -> bool:
        """A client is never edited."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Client | None = None) -> bool:
        """Switching off keeps the record; unused ones go by themselves."""
        return False

    def may_switch(self, request: HttpRequest) -> bool:
        """Switching a client off or on is its one change."""
        return request.user.has_perm("mcp_oauth.change_client")

    def get_fields(self, request: HttpRequest, obj: Client | None = None) -> Any:
        """Three fields to enter a client; facts afterwards."""
        return self.shown_fields if obj else ("name", "redirect_uris", "token_auth_method")

    def get_readonly_fields(self, request: HttpRequest, obj: Client | None = None) -> Any:
        """Everything about a client that is there."""
        return self.shown_fields if obj else ()

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The form, knowing who asks."""
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.actor = request.user
        return form

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Client:
        """Enter the client and carry its secret to the answer of this very request."""
        client: Client = form.save()
        client.issued_secret = form.secret
        return client

    def save_model(self, request: HttpRequest, obj: Client, form: Any, change: bool) -> None:
        """Nothing: the form has entered the client through the service."""

    def response_add(
        self, request: HttpRequest, obj: Client, post_url_continue: str | None = None
    ) -> HttpResponse:
        """The one page that shows the secret."""
        secret = obj.issued_secret
        context = {**self.object_context(request, "Client entered"), "client": obj, "secret": secret}
        response = TemplateResponse(request, "mcp_admin/oauth_client_entered.html", context)
        response.headers["Cache-Control"] = "no-store"
        return response

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The form; whatever is pressed leads to the client's id, so there is one button."""
        one = {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().add_view(request, form_url, {**one, **(extra_context or {})})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The facts of a client, with a button to switch it off or on."""
        more = {"can_switch": self.may_switch(request), **(extra_context or {})}
        return super().change_view(request, object_id, form_url, more)

    def object_buttons(self) -> dict[str, ObjectView]:
        """The buttons of a client's page."""
        return {"disable": self.disable_one, "enable": self.enable_one}

    def disable_one(self, request: HttpRequest, client: Client) -> None:
        """Switch a client off; all its connections end."""
        self._check(request)
        disable(client, actor=request.user)
        self.message_user(
            request, f"{marked(client)} was switched off, its connections ended.", messages.SUCCESS
        )

    def enable_one(self, request: HttpRequest, client: Client) -> None:
        """Switch a client on."""
        self._check(request)
        enable(client, actor=request.user)
        self.message_user(request, f"{marked(client)} can be connected again.", messages.SUCCESS)

    def _check(self, request: HttpRequest) -> None:
        if not self.may_switch(request):
            raise PermissionDenied

    @admin.display(description="name", ordering="name")
    def shown_name(self, client: Client) -> SafeString:
        """What it calls itself."""
        return visible(client.name or "without a name")

    @admin.display(description="client id")
    def shown_id(self, client: Client) -> SafeString:
        """How it names itself to this server."""
        return visible(client.client_id)

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

    @admin.display(description="created", ordering="created")
    def created_at(self, client: Client) -> SafeString:
        """When it came."""
        return moment(client.created)

    @admin.display(description="last used", ordering="last_used_at")
    def last_used(self, client: Client) -> SafeString:
        """When a token of it was last accepted."""
        return moment(client.last_used_at)

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
    change_form_template = "mcp_admin/oauth_connection_form.html"
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
        match = request.resolver_match
        if match is not None and f"_{self.opts.model_name}_" in (match.url_name or ""):
            return False
        return request.user.has_perm("mcp_oauth.delete_connection")

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

    def object_buttons(self) -> dict[str, ObjectView]:
        """The button of a connection's page."""
        return {"end": self.end_one}

    def end_one(self, request: HttpRequest, connection: Connection) -> None:
        """End one connection."""
        if not self.has_end_permission(request):
            raise PermissionDenied
        end(connection, "ended by an operator", actor=request.user)
        self.message_user(request, "The connection was ended.", messages.SUCCESS)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The facts of a connection, with a button to end it."""
        more = {"can_end": self.has_end_permission(request), **(extra_context or {})}
        return super().change_view(request, object_id, form_url, more)

    @admin.display(description="client", ordering="client__name")
    def shown_client(self, connection: Connection) -> SafeString:
        """The client's name for itself."""
        return visible(connection.client)

    @admin.display(description="user", ordering="user__username")
    def person(self, connection: Connection) -> SafeString:
        """Whose rights it carries."""
        return visible(connection.user)

    @admin.display(description="connected", ordering="created_at")
    def created(self, connection: Connection) -> SafeString:
        """When the person agreed."""
        return moment(connection.created_at)

    @admin.display(description="last used", ordering="last_used_at")
    def last_used(self, connection: Connection) -> SafeString:
        """When a token of it was last accepted."""
        return moment(connection.last_used_at)

    @admin.display(description="ends")
    def ends(self, connection: Connection) -> SafeString:
        """When the person has to agree again at the latest."""
        return moment(connection.ends_at)

    @admin.display(description="state")
    def state(self, connection: Connection) -> SafeString:
        """Live, over or ended."""
        name = state_of(connection)
        return badge(name, {"live": "good", "over": "warn", "ended": "bad"}[name])
