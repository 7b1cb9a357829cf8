"""The admin page of users from an identity provider. It also shows the state of the provider."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.safestring import SafeString
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from mcp_app.admin.base import ReadOnlyAdmin
from mcp_app.admin.columns import text_column, time_column
from mcp_app.admin.identity.provider import login_state, provider_state, verdict_on
from mcp_app.admin.markup import badge, moment
from mcp_app.auth.api_keys import login_name
from mcp_app.auth.own_addresses import names_provider
from mcp_app.auth.permissions import PermissionMissing
from mcp_app.interface.text import visible
from mcp_app.models import ExternalIdentity

# The largest timestamp that datetime supports. A provider may send any number.
_LATEST: Final = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())


@admin.register(ExternalIdentity)
class ExternalIdentityAdmin(ReadOnlyAdmin[ExternalIdentity]):
    """Admin pages of the links between a provider's subjects and local users.

    Logins create the links. A link is deleted together with its user.
    """

    change_list_template = "mcp_admin/identities.html"
    list_display = ("subject_shown", "person", "state", "issuer_shown", "first_seen", "groups_told")
    list_display_links = ("subject_shown",)
    list_select_related = ("user",)
    list_filter = ("issuer",)
    search_help_text = "User, subject or issuer"
    fields = list_display

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the search fields, which depend on the name field of the user model."""
        return (login_name("user"), "subject", "issuer")

    def has_delete_permission(self, request: HttpRequest, obj: ExternalIdentity | None = None) -> bool:
        """Deny deletion on these pages, because the next login would create the link again.

        A link can still be deleted together with its user.
        """
        return not self.is_on_own_pages(request) and request.user.has_perm("mcp_app.delete_externalidentity")

    def has_test_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may test tokens. A test reveals why a token is refused."""
        return self.has_view_permission(request) and request.user.has_perm("mcp_app.run_doctor")

    def get_urls(self) -> list[URLPattern]:
        trying = sensitive_post_parameters("token")(self.try_token)
        name = "mcp_app_externalidentity_try_token"
        return [path("try-token/", self.admin_site.admin_view(trying), name=name), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list of users, with the provider's state above it."""
        more = {
            "provider": provider_state(),
            "login": login_state(),
            "can_try": self.has_test_permission(request),
        }
        return super().changelist_view(request, {**more, **(extra_context or {})})

    @sensitive_variables()
    def try_token(self, request: HttpRequest) -> HttpResponse:
        """Show the result of testing a token in this process.

        The token is not stored, and no user is created or changed.
        """
        if not self.has_test_permission(request):
            raise PermissionMissing("mcp_app.view_externalidentity", "mcp_app.run_doctor")
        if request.method != "POST" or not names_provider():
            return HttpResponseRedirect(self.page_url("changelist"))
        verdict = verdict_on(request.POST.get("token", "").strip())
        context = {**self.object_context(request, "Token test"), "verdict": verdict}
        return TemplateResponse(request, "mcp_admin/token_tried.html", context)

    subject_shown = text_column("subject", "subject", ordering="subject")
    issuer_shown = text_column("issuer", "issuer", ordering="issuer")
    person = text_column("user", "user", ordering="user")
    first_seen = time_column("first seen", "created_at")

    @admin.display(description="status")
    def state(self, identity: ExternalIdentity) -> SafeString:
        """Return a badge: "active", or "locked out" for a deactivated user."""
        return badge("active", "good") if identity.user.is_active else badge("locked out", "bad")

    @admin.display(description="groups sent by it", ordering="groups_at")
    def groups_told(self, identity: ExternalIdentity) -> SafeString:
        """Return the time of issue of the token from which the user's groups were last updated."""
        if identity.groups_at is None:
            return visible("never")
        return moment(datetime.fromtimestamp(max(0, min(identity.groups_at, _LATEST)), UTC))
