"""Admin pages of OAuth clients (add, disable, enable) and of connections (end)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from django import forms
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import Count, Q, QuerySet, Value
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from mcp_app.admin.base import ReadOnlyAdmin, Select, Textarea, object_button, revoking
from mcp_app.admin.callers import limits as limit_tables
from mcp_app.admin.callers import oauth_tokens
from mcp_app.admin.callers.links import linked, pages_of, pages_to_limit
from mcp_app.admin.callers.use import use_of
from mcp_app.admin.columns import text_column, time_column
from mcp_app.admin.issued import IssuedAdmin, IssuedForm
from mcp_app.admin.markup import badge
from mcp_app.admin.widgets import ScopesField
from mcp_app.auth.api_keys import login_name
from mcp_app.auth.own_addresses import company_login_lacks, origin, resource, second_factor_lacks
from mcp_app.interface.links import connections_page, may_view, user_address
from mcp_app.interface.text import marked, visible
from mcp_app.limits.matching import Caller
from mcp_app.oauth.connections import disable, enable, end, end_each, principal_key
from mcp_app.oauth.machines.assertions import METHOD
from mcp_app.oauth.machines.registration import PERMISSION, WITH_SECRET, Machine, create_machine
from mcp_app.oauth.models import Client, Connection
from mcp_app.oauth.registration import RegistrationRefused, create_client, metadata_of
from mcp_app.protocol.scopes import BASIC

KINDS = {
    "manual": "added here",
    "dcr": "registered itself",
    "cimd": "described by the document at its client id",
}


def undress() -> None:
    """Unregister the admin pages of the libraries.

    They would show empty tables, or let users edit rows that only services may write.
    """
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


PEOPLE, MACHINE = "people", "machine"
WHO = [
    (PEOPLE, "the user who logs in"),
    (MACHINE, "a new service user (for a machine without a browser)"),
]


class ClientForm(IssuedForm[Client]):
    """The form of a new client, for clients that cannot register themselves."""

    who = forms.ChoiceField(choices=WHO, initial=PEOPLE, required=False, label="Acts as", widget=Select())
    scopes = ScopesField(
        user="its service user",
        initial=BASIC,
        required=False,
        help_text="Its tokens never have more scopes than these.",
    )

    class Meta:
        model = Client
        fields = ("name", "redirect_uris", "token_auth_method", "jwks", "jwks_uri")
        widgets: ClassVar[Any] = {
            "redirect_uris": Textarea(attrs={"rows": 4, "spellcheck": "false"}),
            "jwks": Textarea(attrs={"rows": 6, "spellcheck": "false"}),
        }
        labels: ClassVar[Any] = {"jwks": "Public keys", "jwks_uri": "URL of public keys"}
        help_texts: ClassVar[Any] = {
            "redirect_uris": "Where users return after login, one URI per line. A service user needs none.",
            "token_auth_method": "How the client identifies itself when it requests tokens.",
            "jwks": "For authentication with a private key: the public key as PEM, or a JWK set.",
            "jwks_uri": "Instead of public keys: the https URL of the JWK set.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "name" in self.fields:
            self.fields["name"].required = True
        who: Any = self.fields.get("who")
        if who is not None and not self.actor.has_perm(PERMISSION):
            who.choices = WHO[:1]

    def _post_clean(self) -> None:
        """Issue the client without the model's own validation, because the service has clearer messages."""
        if not self.errors:
            self.issue()

    def issue(self) -> None:
        """Create the client. If the service refuses, add its errors to the form."""
        if self.cleaned_data["who"] == MACHINE:
            self._issue_machine()
            return
        if not self.cleaned_data["redirect_uris"].strip():
            self.add_error("redirect_uris", ValidationError("Enter at least one redirect URI."))
            return
        said = {
            "client_name": self.cleaned_data["name"],
            "redirect_uris": self.cleaned_data["redirect_uris"].split(),
            "token_endpoint_auth_method": self.cleaned_data["token_auth_method"],
        }
        try:
            self.instance, self.secret = create_client(metadata_of(said), actor=self.actor)
        except RegistrationRefused as refused:
            field = "redirect_uris" if refused.code == "invalid_redirect_uri" else "token_auth_method"
            self.add_error(field, ValidationError(str(refused)))

    def _issue_machine(self) -> None:
        said = self.cleaned_data
        keys = said["jwks"].strip(), said["jwks_uri"].strip()
        machine = Machine(said["name"], said["token_auth_method"], said["scopes"], *keys)
        try:
            self.instance, self.secret = create_machine(machine, actor=self.actor)
        except ValidationError as error:
            self.add_error(None, error)


class KindFilter(admin.ChoicesFieldListFilter):
    """List filter by kind, in the words of the list."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = "kind"

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Replace the labels of the stored choices by the words of the list."""
        words = {label: KINDS.get(name, label) for name, label in self.field.flatchoices}
        for choice in super().choices(changelist):
            yield {**choice, "display": words.get(choice["display"], choice["display"])}


@admin.register(Client)
class ClientAdmin(IssuedAdmin[Client]):
    """Admin pages of clients.

    Clients are added, disabled and enabled but never edited, because people consented to the client as they
    saw it.
    """

    audit_kind = "oauth_client"
    form = ClientForm
    list_display = ("shown_name", "host", "kind", "people", "created_at", "last_used", "state")
    list_display_links = ("shown_name",)
    list_filter = (("registration_source", KindFilter),)
    search_fields = ("name", "client_id", "redirect_uris")
    search_help_text = "Name, client id or address"
    change_form_template = "mcp_admin/oauth_client_form.html"
    entered_fields = ("name", "who", "token_auth_method", "redirect_uris")
    machine_fields = ("scopes", "jwks", "jwks_uri")
    issued_title = "OAuth client added"
    issued_template = "mcp_admin/oauth_client_entered.html"
    shown_fields = (
        "shown_name",
        "shown_id",
        "kind",
        "service_user",
        "shown_scopes",
        "addresses",
        "token_auth_method",
        "shown_keys",
        "shown_network",
        "state",
        "created_at",
        "last_used",
    )

    def audit_key(self, row: Client) -> str:
        """Return the name of a row in the audit trail."""
        return str(row.client_id)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Client]:
        """Annotate each client with the number of people who have connected it."""
        live = Count("connections__user", filter=Q(connections__revoked_at=None), distinct=True)
        rows: QuerySet[Client] = super().get_queryset(request).annotate(people_connected=live)
        return rows

    def has_delete_permission(self, request: HttpRequest, obj: Client | None = None) -> bool:
        """Return False. Clients are disabled instead of deleted, which preserves a record.

        Unused clients are deleted automatically.
        """
        return False

    def has_switch_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may change clients. Enabling and disabling are the only changes."""
        return request.user.has_perm("mcp_oauth.change_client")

    def get_fieldsets(self, request: HttpRequest, obj: Client | None = None) -> Any:
        """Return the fieldsets. The fields of a machine are in a separate fieldset."""
        if obj is not None:
            return [(None, {"fields": self.get_fields(request, obj)})]
        allowed = request.user.has_perm(PERMISSION)
        machines = [("For a service user", {"fields": self.machine_fields})] if allowed else []
        return [(None, {"fields": self.entered_fields}), *machines]

    def issued_context(self, request: HttpRequest, row: Client, secret: str) -> dict[str, Any]:
        """Return the client, and the data that a machine needs to request its first token."""
        by_secret = row.is_machine and row.token_auth_method in WITH_SECRET
        return {
            "client": row,
            "issuer": origin(request.get_host()),
            "resource": resource(request.get_host()),
            "by_secret": by_secret,
            "by_key": row.is_machine and row.token_auth_method == METHOD,
        }

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        client = self.get_object(request, object_id)
        pages = []
        if client is not None and (connections := connections_page(request.user, q=client.client_id)):
            pages.append(("OAuth connections", connections))
        if client is not None:
            pages += pages_to_limit(request.user, client.name, who="client", who_value=str(client.pk))
        meter = oauth_tokens.of_client(request, client) if client is not None else None
        known = Caller("", client=str(client.pk)) if client is not None else None
        return {
            "can_switch": self.has_switch_permission(request),
            "pages": pages,
            "meter": meter,
            "fills": limit_tables.of_caller(request, known) if known is not None else [],
        }

    @object_button("disable", "switch")
    def disable_one(self, request: HttpRequest, client: Client) -> None:
        """Disable a client and end its connections."""
        work = disable(client, actor=request.user)
        text = f"{marked(client)} was disabled and its connections were ended. {work}".rstrip()
        self.message_user(request, text, messages.SUCCESS)

    @object_button("enable", "switch")
    def enable_one(self, request: HttpRequest, client: Client) -> None:
        """Enable a client."""
        enable(client, actor=request.user)
        self.message_user(request, f"{marked(client)} was enabled.", messages.SUCCESS)

    shown_name = text_column("name", "name", ordering="name", empty="(no name)")
    shown_id = text_column("client id", "client_id")

    @admin.display(description="redirect URI")
    def host(self, client: Client) -> SafeString:
        """Return the first redirect URI."""
        return visible((client.redirect_uris.split() or ["–"])[0][:60])

    @admin.display(description="redirect URIs")
    def addresses(self, client: Client) -> SafeString:
        """Return all redirect URIs."""
        return visible(client.redirect_uris.replace(" ", ", ") or "–")

    shown_scopes = text_column("scopes", "scope", empty="as allowed by each user")

    @admin.display(description="service user")
    def service_user(self, client: Client) -> SafeString:
        """Return the service user of a machine."""
        if not client.is_machine:
            return visible("none: each user logs in")
        return visible(client.service_user or "deleted: the client gets no tokens")

    @admin.display(description="public keys")
    def shown_keys(self, client: Client) -> SafeString:
        """Return the address of a machine's public keys, or the keys themselves."""
        return visible(client.jwks_uri or client.jwks or "none")

    shown_network = text_column("registered from", "network", empty="not recorded")

    @admin.display(description="kind", ordering="registration_source")
    def kind(self, client: Client) -> SafeString:
        """Return the origin of the client as a badge. It shows how trustworthy the client's name is."""
        if client.is_machine:
            return badge("machine", "good")
        words = KINDS.get(client.registration_source, "unknown")
        return badge(words, "good" if client.verified else "warn")

    @admin.display(description="users", ordering="people_connected")
    def people(self, client: Client) -> int:
        """Return the number of people who have connected the client."""
        return int(getattr(client, "people_connected", 0))

    created_at = time_column("created", "created")
    last_used = time_column("last used", "last_used_at")

    @admin.display(description="status")
    def state(self, client: Client) -> SafeString:
        """Return "enabled" or "disabled" as a badge."""
        return badge("disabled", "bad") if client.disabled_at else badge("enabled", "good")


def state_of(connection: Connection) -> str:
    """Return ``active``, ``expired`` or ``ended`` (revoked)."""
    if connection.revoked_at is not None:
        return "ended"
    return "active" if connection.live else "expired"


@admin.register(Connection)
class ConnectionAdmin(ReadOnlyAdmin[Connection]):
    """Admin pages of connections, each of a person and a client. Connections can be ended but not edited."""

    audit_kind = "connection"
    list_display = ("shown_client", "person", "scopes", "created", "last_used", "state")
    list_display_links = ("shown_client",)
    search_fields = ("client__name", "client__client_id", login_name("user"))
    search_help_text = "Client or user"
    list_select_related = ("client", "user")
    actions = ("end_connections",)
    change_form_template = "mcp_admin/revocable_form.html"
    fields = (
        "linked_client",
        "person",
        "resource",
        "scopes",
        "state",
        "end_reason",
        "created",
        "last_used",
        "ends",
    )

    def audit_key(self, row: Connection) -> str:
        """Return the name of a row in the audit trail."""
        return str(row.pk)

    def has_delete_permission(self, request: HttpRequest, obj: Connection | None = None) -> bool:
        """Deny deletion on the pages of connections, because ending one preserves its row as a record.

        A connection can still be deleted together with its user.
        """
        return not self.is_on_own_pages(request) and request.user.has_perm("mcp_oauth.delete_connection")

    def has_end_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may change connections. Ending a connection is the only change."""
        return request.user.has_perm("mcp_oauth.change_connection")

    @admin.action(description="End selected connections", permissions=["end"])
    def end_connections(self, request: HttpRequest, queryset: QuerySet[Connection]) -> None:
        """End each selected connection."""
        live = [connection for connection in queryset.select_related("user", "client") if connection.live]
        work = end_each(live, "ended by an administrator", actor=request.user)
        self.message_user(request, f"OAuth connections ended: {len(live)}. {work}".rstrip(), messages.SUCCESS)

    @object_button("end", "end")
    def end_one(self, request: HttpRequest, connection: Connection) -> None:
        """End one connection."""
        work = end(connection, "ended by an administrator", actor=request.user)
        self.message_user(request, f"OAuth connection ended. {work}".rstrip(), messages.SUCCESS)

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Return the connection's pages and recent use, and the button that ends it, if permitted."""
        then = "Its tokens stop working at once. The user must allow the app again."
        button = revoking("admin:mcp_oauth_connection_end", "End", "connection", then)
        connection = self.get_object(request, object_id)
        if connection is None:
            return {}
        principal = principal_key(connection)
        return {
            "revoking": button if self.has_end_permission(request) else None,
            "pages": pages_of(request.user, principal),
            "use": use_of(request.user, principal),
            "meter": oauth_tokens.of_connection(request, connection),
            "fills": limit_tables.of_caller(request, Caller.of(principal)),
        }

    def get_queryset(self, request: HttpRequest) -> QuerySet[Connection]:
        """Annotate each connection with True if the user may open the pages of users and of clients."""
        user, client = (
            Value(may_view(request.user, model))
            for model in (get_user_model()._meta.label_lower, Client._meta.label_lower)
        )
        rows: QuerySet[Connection] = super().get_queryset(request)
        return rows.annotate(opens_user=user, opens_client=client)

    shown_client = text_column("client", "client", ordering="client__name")

    @admin.display(description="client")
    def linked_client(self, connection: Connection) -> SafeString:
        """Return the client, as a link if the reader may open the pages of clients."""
        opens = getattr(connection, "opens_client", False)
        url = reverse("admin:mcp_oauth_client_change", args=[connection.client_id]) if opens else None
        return linked(str(connection.client), url)

    @admin.display(description="user", ordering=login_name("user"))
    def person(self, connection: Connection) -> SafeString:
        """Return the user, as a link if the reader may open the pages of users."""
        opens = getattr(connection, "opens_user", False)
        return linked(str(connection.user), user_address(connection.user_id) if opens else None)

    created = time_column("connected", "created_at")
    last_used = time_column("last used", "last_used_at")
    scopes = text_column("scopes", "scope")
    ends = time_column("ends", "ends_at", sortable=False)

    @admin.display(description="status")
    def state(self, connection: Connection) -> SafeString:
        """Return the state as a badge."""
        name = state_of(connection)
        return badge(name, {"active": "good", "expired": "warn", "ended": "bad"}[name])
