"""Pages of users and groups: Django's stock pages in Unfold's style, second factor removal, group members.

A project's own pages of users and groups are not replaced.
"""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AutocompleteSelectMultiple, RelatedFieldWidgetWrapper
from django.contrib.auth import get_permission_codename, get_user_model
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import HAS_UNFOLD, ModelAdmin, object_button
from mcp_app.admin.list_filters import ListedLookups
from mcp_app.admin.markup import badge, with_window
from mcp_app.auth.ended import EndedWork, of_person
from mcp_app.auth.own_addresses import second_factor_lacks
from mcp_app.catalogue.access import may_ask
from mcp_app.execution.stored.approval_rules import waiting
from mcp_app.interface.text import marked
from mcp_app.oauth.second_factor.gate import has_factor

LISTED: tuple[str, ...] = ("username", "email", "first_name", "last_name", "is_staff")


# Larger groups have no list of members: forms are limited to a thousand values.
MOST_LISTED: Final = 200
LARGEST_KEY: Final = 2**63 - 1
# Replaces submitted values that cannot be a key.
NO_KEY: Final = "?"


class MembersWidget(AutocompleteSelectMultiple):
    """An autocomplete of people that also submits the members shown, to preserve concurrent changes."""

    shown = ""

    def build_attrs(self, base_attrs: Any, extra_attrs: Any = None) -> Any:
        """Remove the clear button: one press empties the field, and Select2's list may not contain it."""
        return {**super().build_attrs(base_attrs, extra_attrs), "data-allow-clear": "false"}

    def optgroups(self, name: str, value: Any, attr: Any = None) -> Any:
        """Drop values that are not keys; form validation reports them."""
        return super().optgroups(name, list(filter(_is_key, value)), attr)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        """Return the chosen keys, and store the keys that the page showed."""
        self.shown = data.get(f"{name}-shown", "")
        sent = super().value_from_datadict(data, files, name)
        # Django would query any value, and fail on values that the database cannot hold.
        return [value if _is_key(value) else NO_KEY for value in sent]

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        """Add a hidden input with the members that the page shows."""
        field = super().render(name, value, attrs, renderer)
        return format_html('{}<input type="hidden" name="{}-shown" value="{}">', field, name, self.shown)


def _is_key(value: Any) -> bool:
    key: Any = get_user_model()._meta.pk
    try:
        found = key.clean(value, None)
    except ValidationError:
        return False
    return not isinstance(found, int) or abs(found) <= LARGEST_KEY


class GroupForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's class is not generic where it runs.
    """The form of a group with its members."""

    members: Any = forms.ModelMultipleChoiceField(queryset=None, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        users: Any = get_user_model()
        link = users._meta.get_field("groups")
        to_user = link.remote_field.through._meta.get_field(link.m2m_field_name())
        field: Any = self.fields["members"]
        field.widget = widget = MembersWidget(to_user, admin.site)
        field.queryset = users._default_manager.all()
        field.widget.choices = field.choices
        number = self.instance.user_set.count() if self.instance.pk else 0
        if 0 < number <= MOST_LISTED:
            field.initial = list(self.instance.user_set.values_list("pk", flat=True))
            widget.shown = " ".join(map(str, field.initial))
        elif number:
            field.label = "Add members"
        field.help_text = _about_members(self.instance, number)

    def save_members(self) -> None:
        """Add and remove the members that the user added and removed on the form."""
        shown = set(self.fields["members"].widget.shown.split())
        chosen = {str(user.pk): user for user in self.cleaned_data["members"]}
        members = self.instance.user_set
        members.add(*(user for key, user in chosen.items() if key not in shown))
        if gone := shown - chosen.keys():
            members.remove(*(user for user in members.all() if str(user.pk) in gone))


def _about_members(group: Group, number: int) -> SafeString:
    text = "Type a part of a name. Members have the permissions of the group, and see what is offered to it."
    if not number:
        return format_html("{}", text)
    opts = get_user_model()._meta
    people = reverse(f"{admin.site.name}:{opts.app_label}_{opts.model_name}_changelist")
    named = "1 member" if number == 1 else f"{number:,} members"
    address = f"{people}?groups__id__exact={group.pk}"
    return format_html('{} <a class="mcp-link" href="{}">{}</a>', text, address, named)


class MembersAdmin(ListedLookups, GroupAdmin):
    """Pages of groups. Only users who may change people see members."""

    list_display = ("name", "members")

    @admin.display(description="members", ordering="members")
    def members(self, group: Any) -> int:
        """Return the number of members."""
        return int(group.members)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Annotate the number of members of each group."""
        return super().get_queryset(request).annotate(members=Count("user"))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Use ``GroupForm`` if the user may change people."""
        if _may_change_people(request.user):
            kwargs["form"] = GroupForm
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Show members above permissions."""
        return ("name", *(("members",) if _may_change_people(request.user) else ()), "permissions")

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save the members as well."""
        super().save_related(request, form, formsets, change)
        if isinstance(form, GroupForm):
            form.save_members()


def _may_change_people(user: Any) -> bool:
    people = get_user_model()._meta
    may = user.has_perm(f"{people.app_label}.{get_permission_codename('change', people)}")
    return bool(may) and any(field.name == "groups" for field in people.many_to_many)


class FactorRemoval(ModelAdmin[Any]):
    """Pages of users with a button that removes a lost second factor.

    The permission is the same as for changing a password.
    """

    change_form_template = "mcp_admin/user_form.html"

    @admin.display(description="kind")
    def kind(self, user: Any) -> SafeString:
        """Return a badge: a person, or a service user that cannot log in."""
        is_machine = hasattr(user, "mcp_service_user")
        return badge("service user", "warn") if is_machine else badge("person", "good")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save the user and report how many waiting calls were refused by a deactivation."""
        asked = set(waiting().filter(of_person(obj.pk)).values_list("pk", flat=True)) if change else set()
        super().save_model(request, obj, form, change)
        refused = len(asked) - waiting().filter(pk__in=asked).count()
        if refused:
            self.message_user(request, str(EndedWork(calls=refused)), messages.SUCCESS)

    def has_second_factor_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may change users, as for passwords."""
        return self.has_change_permission(request)

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Return the state of the second factor, whether it is removable, and a link to visible entries."""
        user = self.get_object(request, object_id)
        kept = user is not None and has_factor(user)
        removable = kept and not second_factor_lacks() and self.has_second_factor_permission(request)
        seen = reverse("mcp_person", args=[user.pk]) if user is not None and may_ask(request.user) else ""
        return {"second_factor": kept, "removable": removable, "seen_url": seen}

    @object_button("second-factor", "second_factor")
    def remove_second_factor(self, request: HttpRequest, user: Any) -> None:
        """Remove the user's second factor.

        The next login needs only the password, or a new device if one is required.
        """
        from mcp_app.oauth.second_factor import factors

        if factors.remove(user, actor=request.user):
            text = f"The second factor of {marked(user.get_username())} was removed."
            self.message_user(request, text, messages.SUCCESS)


class GroupsBesideUsers(ModelAdmin[Any]):
    """Pages of users with a link to add a group that is reachable by keyboard."""

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Replace Unfold's menu by a link: keyboards cannot reach the menu."""
        field: Any = super().formfield_for_dbfield(db_field, request, **kwargs)
        widget = getattr(field, "widget", None)
        if db_field.name == "groups" and isinstance(widget, RelatedFieldWidgetWrapper):
            if widget.can_add_related:
                address = reverse(f"{self.admin_site.name}:auth_group_add")
                field.help_text = with_window(field.help_text, "New group", address, "groups")
            field.widget = widget.widget
        return field


def dress() -> None:
    """Replace Django's stock pages with the same pages in Unfold's style."""
    from unfold.admin import ModelAdmin as UnfoldAdmin
    from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

    files = {"js": ("mcp_app/admin.js", "mcp_app/keys.js"), "css": {"all": ("mcp_app/admin.css",)}}
    media = type("Media", (), files)
    skinned_user = type(
        "UserAdmin",
        (FactorRemoval, GroupsBesideUsers, UserAdmin, UnfoldAdmin),
        {
            "list_display": (*LISTED, "kind"),
            "list_select_related": ("mcp_service_user",),
            "form": UserChangeForm,
            "add_form": UserCreationForm,
            "change_password_form": AdminPasswordChangeForm,
        },
    )
    skinned_group = type(
        "GroupAdmin", (MembersAdmin, UnfoldAdmin), {"Media": media, "compressed_fields": False}
    )
    for model, stock, skinned in (
        (get_user_model(), UserAdmin, skinned_user),
        (Group, GroupAdmin, skinned_group),
    ):
        if type(admin.site._registry.get(model)) is stock:
            admin.site.unregister(model)
            admin.site.register(model, skinned)


if HAS_UNFOLD:
    dress()
