"""Owns the pages of API keys: issue, show the secret once, revoke; the secret is never stored or logged."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString

from mcp_app import database_clock
from mcp_app.admin.base import ModelAdmin, ModelForm, ObjectView
from mcp_app.admin.shown import badge, moment
from mcp_app.auth.services import issue_api_key, login_name, revoke_api_key
from mcp_app.connect.address import connection_for
from mcp_app.connect.snippets import PASTED, snippets
from mcp_app.models import ApiKey
from mcp_app.text import marked, visible


class ApiKeyForm(ModelForm[ApiKey]):
    """The key's user, name and expiry."""

    actor: Any = None
    secret: str = ""

    class Meta:
        model = ApiKey
        fields = ("user", "name", "expires_at")

    def _post_clean(self) -> None:
        """The last step of validation is the service, whose complaints stand beside their fields."""
        super()._post_clean()  # type: ignore[misc]  # Django's own forms extend the same hook.
        if not self.errors:
            try:
                self.instance, self.secret = issue_api_key(**self.cleaned_data, actor=self.actor)
            except ValidationError as error:
                self.add_error(None, error)

    def save(self, commit: bool = True) -> ApiKey:
        """The key that validation has issued through the service."""
        return self.instance

    def save_m2m(self) -> None:
        """A key has no related rows."""


def state_of(key: ApiKey) -> str:
    """``active``, ``expired`` or ``revoked``."""
    if key.revoked_at is not None:
        return "revoked"
    return "active" if key.usable else "expired"


class StateFilter(admin.SimpleListFilter):
    """Active, expired, revoked."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The three states."""
        return [("active", "active"), ("expired", "expired"), ("revoked", "revoked")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        """Only keys in the chosen state."""
        now = database_clock.utcnow()
        match self.value():
            case "active":
                return queryset.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)
            case "expired":
                return queryset.filter(revoked_at=None, expires_at__lte=now)
            case "revoked":
                return queryset.exclude(revoked_at=None)
        return queryset


@admin.register(ApiKey)
class ApiKeyAdmin(ModelAdmin[ApiKey]):
    """API keys. A key is issued and revoked, never edited; revoked keys stay as a record."""

    form = ApiKeyForm
    list_display = ("shown_name", "owner", "shown_prefix", "created", "expires", "last_used", "state")
    list_display_links = ("shown_name",)
    list_filter = (StateFilter, "created_at")
    search_fields = ("name", "prefix", login_name("user"))
    search_help_text = "Name, prefix or user."
    list_select_related = ("user",)
    actions = ("revoke_keys",)
    change_form_template = "mcp_admin/key_form.html"
    shown_fields = ("shown_name", "owner", "shown_prefix", "state", "created", "expires", "last_used")

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """A key is never edited."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """Not here: revoking keeps the record. A key may go together with its user."""
        match = request.resolver_match
        if match is not None and f"_{self.opts.model_name}_" in (match.url_name or ""):
            return False
        return super().has_delete_permission(request, obj)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Revoking is the one change of a key."""
        return request.user.has_perm("mcp_app.change_apikey")

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        """Three fields to issue a key; facts afterwards."""
        return self.shown_fields if obj else ("user", "name", "expires_at")

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        """Everything about an issued key."""
        return self.shown_fields if obj else ()

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """A key has its user's permissions, so only superusers issue keys for others."""
        if db_field.name == "user":
            users = get_user_model()._default_manager.filter(is_active=True)
            kwargs["queryset"] = users if request.user.is_superuser else users.filter(pk=request.user.pk or 0)
            kwargs["initial"] = request.user.pk
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The form, knowing who asks."""
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.actor = request.user
        return form

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        """Nothing: the form has issued the key through the service."""

    def response_add(
        self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        """The one page that shows the secret; it is kept nowhere, so it cannot be shown again."""
        secret = obj.issued_secret  # type: ignore[attr-defined]  # Lives as long as this request.
        context = {
            **self.object_context(request, "API key issued"),
            "key": obj,
            "secret": secret,
            "lines": snippets(connection_for(request, secret), *PASTED),
        }
        response = TemplateResponse(request, "mcp_admin/key_issued.html", context)
        response.headers["Cache-Control"] = "no-store"
        return response

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> ApiKey:
        """Issue the key and carry its secret to the answer of this very request."""
        key: ApiKey = form.save()
        key.issued_secret = form.secret  # type: ignore[attr-defined]
        return key

    @admin.action(description="Revoke selected keys", permissions=["revoke"])
    def revoke_keys(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """Revoke each chosen key."""
        live = [key for key in queryset if key.revoked_at is None]
        for key in live:
            revoke_api_key(key=key, actor=request.user)
        self.message_user(request, f"Keys revoked: {len(live)}.", messages.SUCCESS)

    def object_buttons(self) -> dict[str, ObjectView]:
        """The button of a key's page."""
        return {"revoke": self.revoke_one}

    def revoke_one(self, request: HttpRequest, key: ApiKey) -> None:
        """Revoke one key."""
        if not self.has_revoke_permission(request):
            raise PermissionDenied
        revoke_api_key(key=key, actor=request.user)
        self.message_user(request, f"The key {marked(key.name)} was revoked.", messages.SUCCESS)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The form; whatever is pressed leads to the secret, so there is one button."""
        one = {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().add_view(request, form_url, {**one, **(extra_context or {})})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The facts of a key, with a button to revoke it."""
        can_revoke = self.has_revoke_permission(request)
        return super().change_view(
            request, object_id, form_url, {"can_revoke": can_revoke, **(extra_context or {})}
        )

    @admin.display(description="name", ordering="name")
    def shown_name(self, key: ApiKey) -> SafeString:
        """What the key is called."""
        return visible(key.name)

    @admin.display(description="user", ordering=login_name("user"))
    def owner(self, key: ApiKey) -> SafeString:
        """Whose rights it carries."""
        return visible(key.user)

    @admin.display(description="prefix", ordering="prefix")
    def shown_prefix(self, key: ApiKey) -> SafeString:
        """The first characters of the secret, to recognise it by."""
        return visible(f"{key.prefix}…")

    @admin.display(description="created", ordering="created_at")
    def created(self, key: ApiKey) -> SafeString:
        """When it was issued."""
        return moment(key.created_at)

    @admin.display(description="expires", ordering="expires_at")
    def expires(self, key: ApiKey) -> SafeString:
        """Until when it works."""
        return moment(key.expires_at)

    @admin.display(description="last used", ordering="last_used_at")
    def last_used(self, key: ApiKey) -> SafeString:
        """When it was last accepted."""
        return moment(key.last_used_at)

    @admin.display(description="state")
    def state(self, key: ApiKey) -> SafeString:
        """Active, expired or revoked."""
        name = state_of(key)
        return badge(name, {"active": "good", "expired": "warn", "revoked": "bad"}[name])
