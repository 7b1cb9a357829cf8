"""Owns giving Django's own user and group pages the skin; on a user's page a lost second factor is removed.

A project's own pages are left alone.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from mcp_app.admin.base import HAS_UNFOLD, ModelAdmin, object_button
from mcp_app.admin.markup import badge
from mcp_app.auth.reasons import may_ask
from mcp_app.auth.site import second_factor_lacks
from mcp_app.oauth.second_factor.gate import has_factor
from mcp_app.text import marked

LISTED: tuple[str, ...] = ("username", "email", "first_name", "last_name", "is_staff")


class FactorRemoval(ModelAdmin[Any]):
    """Whoever may set somebody's password may also take their second factor away: devices get lost."""

    change_form_template = "mcp_admin/user_form.html"

    @admin.display(description="kind")
    def kind(self, user: Any) -> SafeString:
        """A person, or a machine's own user, who cannot log in."""
        is_machine = hasattr(user, "mcp_service_user")
        return badge("service user", "warn") if is_machine else badge("person", "good")

    def has_second_factor_permission(self, request: HttpRequest) -> bool:
        """As for the password."""
        return self.has_change_permission(request)

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Whether there is one, and the button for who may."""
        user = self.get_object(request, object_id)
        kept = user is not None and has_factor(user)
        removable = kept and not second_factor_lacks() and self.has_second_factor_permission(request)
        seen = reverse("mcp_person", args=[user.pk]) if user is not None and may_ask(request.user) else ""
        return {"second_factor": kept, "removable": removable, "seen_url": seen}

    @object_button("second-factor", "second_factor")
    def remove_second_factor(self, request: HttpRequest, user: Any) -> None:
        """Have the next login need the password alone, or another device set up where one is required."""
        from mcp_app.oauth.second_factor import factors

        if factors.remove(user, actor=request.user):
            text = f"The second factor of {marked(user.get_username())} was removed."
            self.message_user(request, text, messages.SUCCESS)


def dress() -> None:
    """Replace the stock pages by the same pages in Unfold's skin."""
    from unfold.admin import ModelAdmin as UnfoldAdmin
    from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

    media = type("Media", (), {"js": ("mcp_app/admin.js", "mcp_app/keys.js")})
    skinned_user = type(
        "UserAdmin",
        (FactorRemoval, UserAdmin, UnfoldAdmin),
        {
            "list_display": (*LISTED, "kind"),
            "list_select_related": ("mcp_service_user",),
            "form": UserChangeForm,
            "add_form": UserCreationForm,
            "change_password_form": AdminPasswordChangeForm,
        },
    )
    skinned_group = type("GroupAdmin", (GroupAdmin, UnfoldAdmin), {"Media": media})
    for model, stock, skinned in (
        (get_user_model(), UserAdmin, skinned_user),
        (Group, GroupAdmin, skinned_group),
    ):
        if type(admin.site._registry.get(model)) is stock:
            admin.site.unregister(model)
            admin.site.register(model, skinned)


if HAS_UNFOLD:
    dress()
