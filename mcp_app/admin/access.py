"""Admin pages of API keys: issue and revoke. A secret is shown once and stored only as a hash."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet, Value
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import Select, object_button
from mcp_app.admin.callers import limits as limit_tables
from mcp_app.admin.callers import tokens as token_tables
from mcp_app.admin.callers.links import CLIENTS_END, linked, pages_of, pages_to_limit, revoke_button
from mcp_app.admin.callers.use import use_of
from mcp_app.admin.columns import text_column, time_column
from mcp_app.admin.issued import IssuedAdmin, IssuedForm
from mcp_app.admin.list_filters import StateFilter, by_date
from mcp_app.admin.markup import badge, moment, with_window
from mcp_app.admin.widgets import ScopesField
from mcp_app.auth.api_keys import (
    ENDS_SOON,
    KEY_ENDS_WITHIN,
    NEVER_ENDS,
    USUAL_DAYS,
    ends_in,
    issue_api_key,
    key_states,
    keys_end_soon,
    login_name,
    replace_api_key,
    revoke_api_key,
    revoked_by,
    successors_of,
)
from mcp_app.auth.ended import EndedWork
from mcp_app.auth.permissions import PermissionMissing
from mcp_app.catalogue.access import holder_of_key, may_ask
from mcp_app.connect.address import connection_for
from mcp_app.connect.snippets import PASTED, snippets
from mcp_app.interface.links import may_view, user_address
from mcp_app.interface.text import marked, visible
from mcp_app.limits.matching import Caller
from mcp_app.models import ApiKey
from mcp_app.protocol.scopes import ADMIN, BASIC, MCP

MEANING = format_html(
    "What the key can do, within the permissions of its user. "
    "Every scope includes <code>{}</code>. <code>{}</code> includes all scopes.",
    MCP,
    ADMIN,
)
ABOUT_USERS = (
    "The key has this user's permissions. For an application, use a separate user without a password."
)
OLD_KEY_CHOICES = [("24h", "in 24 hours"), ("1h", "in 1 hour")]
# A key that has expired can only be replaced at once.
EXPIRED_CHOICES = [("now", "now")]
LIFETIMES = [*((str(days), f"in {days} days") for days in USUAL_DAYS), ("", "never")]


class ApiKeyForm(IssuedForm[ApiKey]):
    """The form of a new API key: user, name, scopes and expiry."""

    scopes = ScopesField(user="the key's user", initial=BASIC, help_text=MEANING)
    lifetime = forms.ChoiceField(
        choices=LIFETIMES,
        required=False,
        label="Expires",
        widget=Select(),
        initial="90",
        help_text=NEVER_ENDS,
    )

    class Meta:
        model = ApiKey
        fields = ("user", "name", "expires_at")
        labels = {"expires_at": "Custom date"}
        help_texts = {"expires_at": "Overrides the choice above."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "name" in self.fields:
            first = "name" if self.fields["user"].initial else "user"
            self.fields[first].widget.attrs["autofocus"] = True
        # Django's admin gives no label to the two inputs of a date and time field.
        parts = (
            getattr(self.fields["expires_at"].widget, "widgets", ()) if "expires_at" in self.fields else ()
        )
        for name, part in zip(("Expires: date", "Expires: time"), parts, strict=False):
            part.attrs["aria-label"] = name

    def clean_expires_at(self) -> datetime | None:
        """Return the expiry in the time zone of the page, even if the project sets USE_TZ to False."""
        found: datetime | None = self.cleaned_data["expires_at"]
        return timezone.make_aware(found) if found and timezone.is_naive(found) else found

    def issue(self) -> None:
        """Issue the key. If the service refuses, add its errors to the form."""
        said = dict(self.cleaned_data)
        days = said.pop("lifetime")
        if days and said["expires_at"] is None:
            said["expires_at"] = ends_in(int(days))
        try:
            self.instance, self.secret = issue_api_key(**said, actor=self.actor)
        except ValidationError as error:
            self.add_error(None, error)


def state_of(key: ApiKey) -> str:
    """Return ``active``, ``expired`` or ``revoked``."""
    if key.revoked_at is not None:
        return "revoked"
    return "active" if key.usable else "expired"


def list_states() -> dict[str, Q]:
    """Map each state of a key to its filter, with an additional entry for active keys that expire soon."""
    active, *others = key_states().items()
    return dict([active, (ENDS_SOON, keys_end_soon()), *others])


class KeyStateFilter(StateFilter):
    """List filter by state: active, expires soon, expired, revoked."""

    states = staticmethod(list_states)


@admin.register(ApiKey)
class ApiKeyAdmin(IssuedAdmin[ApiKey]):
    """Admin pages of API keys.

    Keys are issued and revoked but never edited. Revoked keys stay in the list.
    """

    audit_kind = "api_key"
    form = ApiKeyForm
    list_display = ("shown_name", "owner", "state", "expires", "last_used", "created", "shown_prefix")
    list_display_links = ("shown_name",)
    list_filter = (KeyStateFilter, ("created_at", by_date("creation date")))
    search_fields = ("name", "prefix", login_name("user"))
    search_help_text = "Name, prefix or user"
    list_select_related = ("user",)
    actions = ("revoke_keys",)
    change_form_template = "mcp_admin/revocable_form.html"
    entered_fields = ("user", "name", "scopes", "lifetime", "expires_at")
    issued_title = "API key added"
    issued_template = "mcp_admin/key_issued.html"
    shown_fields = (
        "shown_name",
        "owner",
        "shown_prefix",
        "shown_scopes",
        "state",
        "replaced_by",
        "created",
        "expires",
        "last_used",
        "revoked",
    )

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Hide the empty ones of the fields "revoked" and "replaced by"."""
        fields = super().get_fields(request, obj)
        if obj is None:
            return fields
        vars(obj)["successor"] = successors_of([obj]).get(obj.pk)
        empty = {"revoked": not obj.revoked_at, "replaced_by": vars(obj)["successor"] is None}
        return [name for name in fields if not empty.get(name)]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Attach the successor of each replaced key."""
        changelist: Any = super().get_changelist_instance(request)
        keys = list(changelist.result_list)
        successors = successors_of(keys)
        for key in keys:
            vars(key)["successor"] = successors.get(key.pk)
        changelist.result_list = keys
        return changelist

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """Deny deletion on the pages of keys, because revoking a key preserves its row as a record.

        A key can still be deleted together with its user.
        """
        return not self.is_on_own_pages(request) and super().has_delete_permission(request, obj)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.replace_view)
        return [path("<path:object_id>/replace/", view, name="mcp_app_apikey_replace"), *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        """Annotate each key with True if the user may open the pages of users."""
        opens = may_view(request.user, get_user_model()._meta.label_lower)
        return super().get_queryset(request).annotate(opens_user=Value(opens))

    def has_replace_permission(self, request: HttpRequest, key: ApiKey) -> bool:
        """Return True if the user may revoke the key and issue keys for its user."""
        may_issue = request.user.is_superuser or request.user.pk == key.user_id
        return may_issue and self.has_add_permission(request) and self.has_revoke_permission(request)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may change keys. Revoking is the only possible change."""
        return request.user.has_perm("mcp_app.change_apikey")

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Put the link to the form for a new user into the help text.

        Unfold's own link is in a menu that has no label.
        """
        field: Any = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "user" and isinstance(field.widget, RelatedFieldWidgetWrapper):
            may_add = field.widget.can_add_related
            field.widget = field.widget.widget
            field.help_text = _about_users(self.admin_site.name) if may_add else ABOUT_USERS
        return field

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Let superusers choose any active user, and other users only themselves.

        This is necessary because a key has the permissions of its user.
        """
        if db_field.name == "user":
            users = get_user_model()._default_manager.filter(is_active=True)
            everybody = request.user.is_superuser
            kwargs["queryset"] = users if everybody else users.filter(pk=request.user.pk or 0)
            kwargs["initial"] = None if everybody else request.user.pk
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def issued_context(self, request: HttpRequest, row: ApiKey, secret: str) -> dict[str, Any]:
        """Return the template context of the page that shows the secret.

        It contains the new key, client configurations with the secret, and the address to revoke the key.
        """
        return {
            "key": row,
            "facts": [("Scopes", self.shown_scopes(row)), ("Expires", self.expires(row))],
            "warning": "" if row.expires_at else NEVER_ENDS,
            "lines": snippets(connection_for(request, secret), *PASTED),
            "clients_end": CLIENTS_END,
            "revoke_url": self.page_url("revoke", row) if self.has_revoke_permission(request) else "",
        }

    @admin.action(description="Revoke selected keys", permissions=["revoke"])
    def revoke_keys(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """Revoke each selected key."""
        live = [key for key in queryset if key.revoked_at is None]
        work = sum((revoke_api_key(key=key, actor=request.user) for key in live), EndedWork())
        self.message_user(request, f"Keys revoked: {len(live)}. {work}".rstrip(), messages.SUCCESS)

    @object_button("revoke", "revoke")
    def revoke_one(self, request: HttpRequest, key: ApiKey) -> None:
        """Revoke one key."""
        work = revoke_api_key(key=key, actor=request.user)
        text = f"The key {marked(key.name)} was revoked. {work}".rstrip()
        self.message_user(request, text, messages.SUCCESS)

    def replace_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the form that replaces a key. After a POST, show the new key."""
        key = self.object_to_view(request, object_id)
        if key is None:
            return self.not_there(request, object_id)
        if not self.has_replace_permission(request, key):
            raise PermissionMissing("mcp_app.add_apikey", "mcp_app.change_apikey")
        problems: list[str] = []
        if request.method == "POST":
            asked = request.POST.get("old_key_ends", "")
            try:
                new, secret, work = replace_api_key(key=key, old_key_ends=asked, actor=request.user)
            except ValidationError as error:
                problems = error.messages
            else:
                return self.issued_page(request, new, secret, title="Key replaced", old=_about_old(key, work))
        context = {
            **self.object_context(request, f"Replace {marked(key.name)}", key),
            "key": key,
            "key_url": self.page_url("change", key),
            "choices": OLD_KEY_CHOICES if key.usable else EXPIRED_CHOICES,
            "may_revoke": key.usable,
            "problems": problems,
        }
        return TemplateResponse(request, "mcp_admin/key_replace.html", context)

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Return the buttons of a key's page, its other pages and its recent use.

        Each is included only if the current user has the permission for it.
        """
        key = self.get_object(request, object_id)
        if key is None:
            return {}
        principal = f"user:{key.user_id}/key:{key.pk}"
        replaceable = key.revoked_at is None and self.has_replace_permission(request, key)
        seen = f"{reverse('mcp_person', args=[key.user_id])}?key={key.pk}" if may_ask(request.user) else ""
        return {
            "revoking": revoke_button() if self.has_revoke_permission(request) else None,
            "replace_url": self.page_url("replace", key) if replaceable else "",
            "pages": [
                *pages_of(request.user, principal),
                *pages_to_limit(request.user, key.name, who="key", who_value=str(key.pk)),
            ],
            "use": use_of(request.user, principal),
            "meter": token_tables.of_holder(request, holder_of_key(key), principal=principal),
            "fills": limit_tables.of_caller(request, Caller.of(principal)),
            "seen_url": seen,
        }

    shown_name = text_column("name", "name", ordering="name")

    @admin.display(description="user", ordering=login_name("user"))
    def owner(self, key: ApiKey) -> SafeString:
        """Return the user, as a link if the reader may open the pages of users."""
        opens = getattr(key, "opens_user", False)
        return linked(str(key.user), user_address(key.user_id) if opens else None)

    @admin.display(description="prefix", ordering="prefix")
    def shown_prefix(self, key: ApiKey) -> SafeString:
        """Return the first characters of the secret, by which people recognize the key."""
        return visible(f"{key.prefix}…")

    shown_scopes = text_column("scopes", "scopes", empty="none")
    created = time_column("created", "created_at")
    expires = time_column("expires", "expires_at")
    last_used = time_column("last used", "last_used_at")

    @admin.display(description="revoked")
    def revoked(self, key: ApiKey) -> SafeString:
        """Return the time of the revocation, and the user who revoked if the audit trail knows it."""
        at, who = moment(key.revoked_at), revoked_by(key)
        return format_html("{} by {}", at, visible(who)) if who else at

    @admin.display(description="replaced by")
    def replaced_by(self, key: ApiKey) -> SafeString:
        """Return the key that replaced this one, as a link."""
        successor = vars(key)["successor"]
        return linked(str(successor), self.page_url("change", successor))

    @admin.display(description="status")
    def state(self, key: ApiKey) -> SafeString:
        """Return the key's state as a badge. A key that was replaced or expires soon has a second badge."""
        name = state_of(key)
        said = badge(name, {"active": "good", "expired": "warn", "revoked": "bad"}[name])
        if successor := vars(key).get("successor"):
            link = format_html(
                '<a class="mcp-link" href="{}">replaced</a>', self.page_url("change", successor)
            )
            return format_html('<div class="mcp-badges">{} {}</div>', said, link)
        soon = name == "active" and key.expires_at and key.expires_at <= ends_in(KEY_ENDS_WITHIN.days)
        return (
            format_html('<div class="mcp-badges">{}{}</div>', said, badge(ENDS_SOON, "warn"))
            if soon
            else said
        )


def _about_old(key: ApiKey, work: EndedWork) -> SafeString:
    """Return the sentence about the replaced key."""
    name = visible(f"{key.prefix}…")
    if key.usable:
        return format_html("The old key {} stays valid until {}.", name, moment(key.expires_at))
    return format_html("The old key {} is revoked. {}", name, work)


def _about_users(site: str) -> SafeString:
    opts = get_user_model()._meta
    address = reverse(f"{site}:{opts.app_label}_{opts.model_name}_add")
    return with_window(ABOUT_USERS, "New user", address, "user")
