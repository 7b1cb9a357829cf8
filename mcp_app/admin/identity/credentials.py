"""Admin pages of credentials for other servers. A stored secret is never shown."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from mcp_app.admin.base import ModelAdmin, ModelForm, Select, Textarea
from mcp_app.admin.columns import text_column, time_column
from mcp_app.admin.markup import badge, moment
from mcp_app.credentials.kinds import PARTS, PLACES
from mcp_app.credentials.services import (
    delete_credential,
    is_readable,
    save_credential,
    tools_with,
    upstreams_with,
)
from mcp_app.interface.text import counted, marked, visible
from mcp_app.models import Credential

Kind = Credential.Kind


class _SecretLines(Textarea):
    """Lines that are never shown, like the content of a password input, even if the form was refused."""

    def format_value(self, value: Any) -> str:
        return ""


# Labels, examples and inputs of the parts of secrets. Only inputs of the form are here, never stored values.
_ENTERED: dict[str, tuple[str, str, type[forms.Widget]]] = {
    "token": ("Token", "Sent as Authorization: Bearer …", forms.PasswordInput),
    "username": ("Username", "", forms.TextInput),
    "password": ("Password", "", forms.PasswordInput),
    "value": ("API key", "", forms.PasswordInput),
    "headers": ("Headers", "One per line, such as X-API-Key: 123.", _SecretLines),
    "client_id": ("Client id", "", forms.TextInput),
    "client_secret": ("Client secret", "", forms.PasswordInput),
}
_INPUT = "vTextField mcp-input"
_ABOUT: dict[str, str] = {
    Kind.BEARER: "Sends a fixed token.",
    Kind.BASIC: "Sends a user name and a password with every request (HTTP Basic).",
    Kind.API_KEY: "Sends a key in a header, the query or a cookie.",
    Kind.HEADERS: "Sends fixed headers.",
    Kind.CLIENT_CREDENTIALS: "Gets a token from the token URL. All callers share it.",
    Kind.OAUTH_CLIENT: "Identifies this server when users connect their accounts at upstream servers.",
    Kind.TOKEN_EXCHANGE: "Swaps the login token of each caller for a token of an upstream server.",
}
_KEPT = "Stored encrypted and never shown. Leave it empty to keep the stored secret."
_KEY_LOST = "The secret cannot be decrypted, because the key has changed. Enter it again."
_NEW = "Stored encrypted and never shown again."
IN_USE = "A credential in use cannot be deleted."
USED_SHOWN = 20


class LinesField(forms.CharField):
    """A list of texts, one a line."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=Textarea({"rows": 3, "spellcheck": "false"}), **kwargs)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        """Return the lines that are not empty."""
        return [line.strip() for line in (super().clean(value) or "").splitlines() if line.strip()]


class CredentialForm(ModelForm[Credential]):
    """The form of a credential of one kind. Its last step is the service that writes."""

    actor: ClassVar[Any] = None
    kind: ClassVar[str] = Kind.BEARER

    origins = LinesField(
        label="Servers",
        help_text="The only servers that receive the secret, one per line, such as https://api.example.com.",
    )
    place = forms.ChoiceField(
        label="Sent in", choices=[(each, each) for each in PLACES], required=False, widget=Select()
    )
    place_name = forms.CharField(
        label="Name there",
        required=False,
        max_length=100,
        widget=forms.TextInput({"class": _INPUT}),
        help_text="Of the header, query parameter or cookie, such as X-API-Key or api_key.",
    )
    lead = forms.CharField(
        label="Prefix",
        required=False,
        max_length=50,
        strip=False,
        widget=forms.TextInput({"class": _INPUT}),
        help_text="A word before the key, such as Token.",
    )

    class Meta:
        model = Credential
        fields = ("name", "origins", "token_url", "scopes", "resource", "audience", "expires_at")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.chosen = self.instance.kind or self.kind
        for part in PARTS[self.chosen]:
            self.fields[part] = self._part(part)
        if not self.instance._state.adding:
            placement = self.instance.placement
            kept = {"place": "in", "place_name": "name", "lead": "prefix"}
            self.initial.update({field: placement.get(name) for field, name in kept.items()})
        elif "name" in self.fields:
            self.fields["name"].widget.attrs["autofocus"] = True

        # Django's admin gives no label to the two inputs of a date and time field.
        times = self.fields["expires_at"].widget if "expires_at" in self.fields else None
        for name, each in zip(
            ("Expires: date", "Expires: time"), getattr(times, "widgets", ()), strict=False
        ):
            each.attrs["aria-label"] = name

    def _part(self, part: str) -> forms.CharField:
        label, example, widget = _ENTERED[part]
        is_new = self.instance._state.adding
        attrs = {"autocomplete": "new-password", "spellcheck": "false"}
        if widget is not _SecretLines:
            attrs["class"] = _INPUT
        text = f"{example} {_NEW if is_new else _KEPT}".strip()
        return forms.CharField(label=label, help_text=text, required=False, strip=False, widget=widget(attrs))

    def clean_lead(self) -> str:
        """Return the prefix. Browsers and templates may drop a space at the end, so one is added."""
        prefix = str(self.cleaned_data.get("lead") or "")
        return f"{prefix.strip()} " if prefix.strip() else ""

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # Django's own forms extend the same hook.
        if not self.errors:
            self._write()

    def _write(self) -> None:
        given = self.cleaned_data
        names = ("origins", "token_url", "scopes", "resource", "audience", "expires_at")
        values = {name: given[name] for name in names if name in given}
        if self.chosen == Kind.API_KEY:
            values["placement"] = {
                "in": given.get("place") or "header",
                "name": given.get("place_name", ""),
                "prefix": given.get("lead", ""),
            }
        is_new = self.instance._state.adding
        row = None if is_new else Credential.objects.get(pk=self.instance.pk)
        try:
            secret = self._secret()
            name = given.get("name") if is_new else None
            self.instance = save_credential(
                actor=self.actor, credential=row, secret=secret, name=name, kind=self.chosen, **values
            )
        except ValidationError as error:
            self._complain(error)

    def _secret(self) -> dict[str, Any] | None:
        """Return the entered secret, or None if nothing was entered."""
        parts = {part: self.cleaned_data.get(part) or "" for part in PARTS[self.chosen]}
        if not any(parts.values()):
            return None
        if self.chosen == Kind.HEADERS:
            return {"headers": _headers(parts["headers"])}
        return parts

    def _complain(self, error: ValidationError) -> None:
        first = next(part for part in PARTS[self.chosen])
        place = {"secret": first, "placement": "place_name"}
        for name, problems in error.message_dict.items():
            field = place.get(name, name)
            self.add_error(field if field in self.fields else None, problems)

    def save(self, commit: bool = True) -> Credential:
        """Return the row, which has been written during validation."""
        return self.instance

    def save_m2m(self) -> None:
        """Do nothing, because credentials have no many-to-many fields."""


def _headers(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, mark, value = line.partition(":")
        if not mark:
            raise ValidationError({"secret": ["Write each header as name: value."]})
        found[name.strip()] = value.strip()
    return found


def _is_used(row: Credential) -> bool:
    return tools_with(row.name).exists() or upstreams_with(row.name).exists()


def _links(noun: str, rows: QuerySet[Any]) -> SafeString | str:
    """Return the number of rows with links to their pages, or "" if there are none."""
    number, view = rows.count(), f"admin:{rows.model._meta.label_lower.replace('.', '_')}_change"
    if not number:
        return ""
    links = [(reverse(view, args=[row.pk]), marked(row.name)) for row in rows.order_by("name")[:USED_SHOWN]]
    shown = format_html_join(", ", '<a href="{}">{}</a>', links)
    more = ", …" if number > USED_SHOWN else ""
    return format_html("{} ({}{})", counted(number, noun), shown, more)


@admin.register(Credential)
class CredentialAdmin(ModelAdmin[Credential]):
    """Admin pages of credentials."""

    audit_kind = "credential"
    form = CredentialForm
    list_display = ("key", "shown_kind", "shown_origins", "shown_use", "last_used", "shown_state")
    list_display_links = ("key",)
    list_filter = ("kind",)
    search_fields = ("name",)
    search_help_text = "Name"
    change_form_template = "mcp_admin/credential_form.html"
    add_form_template = "mcp_admin/credential_form.html"
    facts = ("shown_kind", "used_by", "last_used", "shown_state", "rotated", "updated")

    def get_fieldsets(self, request: HttpRequest, obj: Credential | None = None) -> Any:
        """Return the fields of the kind, and the facts of a stored credential."""
        kind = self._kind(request, obj)
        if obj is not None and not self.has_change_permission(request, obj):
            return [(None, {"fields": ("name", "shown_origins", "expires_at", *self.facts)})]
        if kind in (Kind.CLIENT_CREDENTIALS, Kind.TOKEN_EXCHANGE):
            secret = ("token_url", *PARTS[kind], "scopes", "resource", "audience")
        elif kind == Kind.OAUTH_CLIENT:
            secret = (*PARTS[kind], "scopes")
        else:
            secret = (*PARTS[kind], *(("place", "place_name", "lead") if kind == Kind.API_KEY else ()))
        sets = [(None, {"fields": ("name", "origins")}), ("Secret", {"fields": (*secret, "expires_at")})]
        return sets if obj is None else [*sets, ("Use", {"fields": self.facts})]

    def get_readonly_fields(self, request: HttpRequest, obj: Credential | None = None) -> Any:
        """Make the name of an existing credential read-only, because tools refer to it."""
        return () if obj is None else ("name", *self.facts, "shown_origins")

    def get_form(
        self, request: HttpRequest, obj: Credential | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Return the form class of the kind. The user is attached to it as ``actor``."""
        kind = self._kind(request, obj)
        model_fields = ("name", "origins", "token_url", "scopes", "resource", "audience", "expires_at")
        names = [name for _, each in self.get_fieldsets(request, obj) for name in each["fields"]]
        kwargs["fields"] = [name for name in names if name in model_fields]
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        for name in {"place", "place_name", "lead"} - set(names):
            form.base_fields.pop(name, None)
        return type("BoundCredentialForm", (form,), {"actor": request.user, "kind": kind})

    def _kind(self, request: HttpRequest, obj: Credential | None) -> str:
        if obj is not None:
            return obj.kind
        asked = request.GET.get("kind", "")
        return asked if asked in PARTS else Kind.BEARER

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return no bulk actions: credentials are changed and deleted one by one."""
        return {}

    def has_delete_permission(self, request: HttpRequest, obj: Credential | None = None) -> bool:
        """Deny deletion while tools or upstream servers use the credential."""
        may = super().has_delete_permission(request, obj)
        return may and (obj is None or not _is_used(obj))

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Redirect to the page of a credential in use, which names its users."""
        row = self.get_object(request, unquote(object_id))
        if row is not None and super().has_delete_permission(request, row) and _is_used(row):
            self.message_user(request, IN_USE, messages.ERROR)
            return HttpResponseRedirect(self.page_url("change", row))
        return super().delete_view(request, object_id, extra_context)

    def save_model(self, request: HttpRequest, obj: Credential, form: Any, change: bool) -> None:
        """Do nothing, because the form has already written the row through its service."""

    def delete_model(self, request: HttpRequest, obj: Credential) -> None:
        delete_credential(credential=obj, actor=request.user)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the form, with links to the forms of the other kinds."""
        chosen = self._kind(request, None)
        kinds = [
            {"label": label, "url": f"?{urlencode({'kind': kind})}", "chosen": kind == chosen}
            for kind, label in Kind.choices
        ]
        return super().add_view(
            request, form_url, {"kinds": kinds, "about": _ABOUT[chosen], **(extra_context or {})}
        )

    key = text_column("name", "name", ordering="name")
    shown_origins = text_column("servers", "origin_list")
    last_used = time_column("last used", "last_used_at")
    rotated = time_column("secret entered", "rotated_at")
    updated = time_column("updated", "updated_at")

    @admin.display(description="kind", ordering="kind")
    def shown_kind(self, row: Credential) -> str:
        """Return the kind."""
        return row.get_kind_display()

    @admin.display(description="used by")
    def shown_use(self, row: Credential) -> str:
        """Return the numbers of tools and upstream servers that use the credential."""
        tools, servers = tools_with(row.name).count(), upstreams_with(row.name).count()
        return counted(tools, "tool") + (f", {counted(servers, 'server')}" if servers else "")

    @admin.display(description="used by")
    def used_by(self, row: Credential) -> SafeString | str:
        """Return links to the tools and upstream servers that use the credential."""
        used = [_links("tool", tools_with(row.name)), _links("upstream server", upstreams_with(row.name))]
        parts = [(part,) for part in used if part]
        if not parts:
            return "no tool or upstream server"
        return format_html("{}. {}", format_html_join(", ", "{}", parts), IN_USE)

    @admin.display(description="status")
    def shown_state(self, row: Credential) -> SafeString:
        """Return the state: active, expired, without its key, or the last error with its time."""
        if row.is_expired:
            return badge("expired", "bad")
        if not is_readable(row):
            return format_html("{} {}", badge("needs attention", "bad"), _KEY_LOST)
        if not row.last_error:
            return badge("active", "good")
        return format_html(
            "<div>{} {} {}</div>", badge("failed", "bad"), visible(row.last_error), moment(row.last_error_at)
        )
