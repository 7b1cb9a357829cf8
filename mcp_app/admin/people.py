"""Owns giving Django's own user and group pages the skin; a project's own pages are left alone."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group

from mcp_app.admin.base import HAS_UNFOLD


def dress() -> None:
    """Replace the stock pages by the same pages in Unfold's skin."""
    from unfold.admin import ModelAdmin as UnfoldAdmin
    from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

    media = type("Media", (), {"js": ("mcp_app/admin.js",)})
    skinned_user = type(
        "UserAdmin",
        (UserAdmin, UnfoldAdmin),
        {
            "form": UserChangeForm,
            "add_form": UserCreationForm,
            "change_password_form": AdminPasswordChangeForm,
            "Media": media,
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
