"""Admin pages of users and groups.

They add Unfold's style, removal of second factors, and group members to Django's standard pages. If a project
has registered its own pages, these stay unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django import forms
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.admin.widgets import AutocompleteSelectMultiple, RelatedFieldWidgetWrapper
from django.contrib.auth import get_permission_codename, get_user_model
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ValidationError
from django.db.models import Case, Count, QuerySet, When
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import HAS_UNFOLD, ModelAdmin, object_button
from mcp_app.admin.callers import limits as limit_tables
from mcp_app.admin.callers import tokens as token_tables
from mcp_app.admin.callers.links import pages_of_user, pages_to_limit
from mcp_app.admin.list_filters import ListedLookups, NamedList
from mcp_app.admin.markup import badge, with_window
from mcp_app.admin.offered import offer_to
from mcp_app.admin.widgets import is_useful
from mcp_app.auth.ended import EndedWork, of_person
from mcp_app.auth.membership import memberships
from mcp_app.auth.own_addresses import second_factor_lacks
from mcp_app.catalogue.access import holder_of, holder_of_group, may_ask
from mcp_app.execution.stored.approval_rules import waiting
from mcp_app.interface.text import marked
from mcp_app.limits.matching import Caller
from mcp_app.models.catalogue import ENTRY_KINDS
from mcp_app.oauth.second_factor.gate import has_factor

LISTED: tuple[str, ...] = ("username", "email", "first_name", "last_name", "is_staff")


# Larger groups are shown without a list of members, because a submitted form may contain at most a thousand
# values.
MOST_LISTED: Final = 200
LARGEST_KEY: Final = 2**63 - 1
# Replacement for submitted values that cannot be primary keys.
NO_KEY: Final = "?"


class MembersWidget(AutocompleteSelectMultiple):
    """An autocomplete field for users.

    It also submits the members that the page showed, so that members added or removed by others in the
    meantime are preserved.
    """

    shown = ""

    def build_attrs(self, base_attrs: Any, extra_attrs: Any = None) -> Any:
        """Return the attributes without Select2's clear button.

        One click on it would empty the field, and the list that Select2 builds must not contain a button.
        """
        return {**super().build_attrs(base_attrs, extra_attrs), "data-allow-clear": "false"}

    def optgroups(self, name: str, value: Any, attr: Any = None) -> Any:
        """Return the options without values that are not primary keys.

        The form's validation reports such values.
        """
        return super().optgroups(name, list(filter(_is_key, value)), attr)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        """Return the chosen primary keys, and remember the members that the page showed."""
        self.shown = data.get(f"{name}-shown", "")
        sent = super().value_from_datadict(data, files, name)
        # Django would query any value, which fails if the database cannot represent the value.
        return [value if _is_key(value) else NO_KEY for value in sent]

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        """Return the field with a hidden input that contains the members that the page shows."""
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
    """The form of a group, including its members."""

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
        """Add the members that the user added on the form, and remove those that the user removed."""
        shown = set(self.fields["members"].widget.shown.split())
        chosen = {str(user.pk): user for user in self.cleaned_data["members"]}
        members = self.instance.user_set
        members.add(*(user for key, user in chosen.items() if key not in shown))
        if gone := shown - chosen.keys():
            members.remove(*(user for user in members.all() if str(user.pk) in gone))


def _about_members(group: Group, number: int) -> SafeString:
    text = (
        "Type part of a name. Members have the permissions of the group and can use its "
        "tools, prompts and resources."
    )
    if not number:
        return format_html("{}", text)
    opts = get_user_model()._meta
    people = reverse(f"{admin.site.name}:{opts.app_label}_{opts.model_name}_changelist")
    named = "1 member" if number == 1 else f"{number:,} members"
    address = f"{people}?groups__id__exact={group.pk}"
    return format_html('{} <a class="mcp-link" href="{}">{}</a>', text, address, named)


class MembersAdmin(NamedList, ListedLookups, GroupAdmin):
    """Admin pages of groups. Only users who may change users can see the members."""

    list_display = ("name", "members")
    change_form_template = "mcp_admin/group_form.html"

    @admin.display(description="members", ordering="members")
    def members(self, group: Any) -> int:
        """Return the number of members."""
        return int(group.members)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Annotate each group with the number of its members."""
        return super().get_queryset(request).annotate(members=Count("user"))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Return ``GroupForm`` if the user may change users."""
        if _may_change_people(request.user):
            kwargs["form"] = GroupForm
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields, with the members above the folded list of all permissions."""
        members = ("members",) if _may_change_people(request.user) else ()
        return [
            (None, {"fields": ("name", *members)}),
            ("All permissions", {"fields": ("permissions",), "classes": ("collapse",)}),
        ]

    def formfield_for_manytomany(
        self, db_field: Any, request: HttpRequest | None = None, **kwargs: Any
    ) -> Any:
        """Name permissions in words, those of this server first."""
        return _in_words(super().formfield_for_manytomany(db_field, request, **kwargs))

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Add the form that limits the members, the entries that they are offered, and their lists."""
        group = self.get_object(request, unquote(object_id))
        more: dict[str, Any] = {}
        if group is not None:
            name = group.name
            more["pages"] = pages_to_limit(request.user, name, who="member", who_value=name)
        if group is not None and may_ask(request.user):
            holder = holder_of_group(group)
            more |= {"offer": offer_to(request, holder), "meter": token_tables.of_holder(request, holder)}
        return super().change_view(request, object_id, form_url, {**more, **(extra_context or {})})

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Add the entries that only members of the groups can use."""
        deleted, *rest = super().get_deleted_objects(objs, request)
        return [*_limited_to(list(objs)), *deleted], *rest

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save the related objects and the members of the group."""
        super().save_related(request, form, formsets, change)
        if isinstance(form, GroupForm):
            form.save_members()


def _limited_to(groups: list[Any]) -> Iterator[str]:
    """Yield a line for each kind of entry that is limited to the members of these groups."""
    permissions = [name for names in memberships(groups).values() for name in names]
    for kind in ENTRY_KINDS:
        if number := kind.objects.filter(permission__in=permissions).count():
            noun = kind._meta.verbose_name if number == 1 else kind._meta.verbose_name_plural
            limited = "is limited to these members" if number == 1 else "are limited to these members"
            then = "it" if number == 1 else "them"
            yield f"{number} {noun} {limited}. After the deletion, only superusers can use {then}."


def _in_words(field: Any) -> Any:
    """Name the choices of a permission field in words, those of this server first. Return the field."""
    if getattr(getattr(field, "queryset", None), "model", None) is not Permission:
        return field
    first = Case(When(content_type__app_label="mcp_app", then=0), default=1)
    kinds = ("content_type__app_label", "content_type__model", "codename")
    named = field.queryset.select_related("content_type")
    field.queryset = named.exclude(pk__in=_useless(named)).order_by(first, *kinds)
    field.label_from_instance = _permission_in_words
    return field


def _useless(permissions: QuerySet[Permission]) -> list[int]:
    """Return the ids of permissions without pages.

    Those that a user or a group has are not included, because saving a form without them would remove them.
    """
    hidden = [permission.pk for permission in permissions if not is_useful(permission)]
    relations = [each.name for each in Permission._meta.related_objects if each.many_to_many]
    unused = permissions.filter(pk__in=hidden, **dict.fromkeys(relations))
    return list(unused.values_list("pk", flat=True))


def _permission_in_words(permission: Permission) -> str:
    label = permission.content_type.app_label
    config = apps.app_configs.get(label)
    return marked(f"{config.verbose_name if config else label}: {permission.name}")


def _may_change_people(user: Any) -> bool:
    people = get_user_model()._meta
    may = user.has_perm(f"{people.app_label}.{get_permission_codename('change', people)}")
    return bool(may) and any(field.name == "groups" for field in people.many_to_many)


class FactorRemoval(ModelAdmin[Any]):
    """Admin pages of users with a button that removes a lost second factor.

    The button needs the same permission as changing a password.
    """

    audit_kind = "user"
    change_form_template = "mcp_admin/user_form.html"

    @admin.display(description="kind")
    def kind(self, user: Any) -> SafeString:
        """Return a badge: "user", or "service user" for a user who cannot log in."""
        is_machine = hasattr(user, "mcp_service_user")
        return badge("service user", "warn") if is_machine else badge("user", "good")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save the user.

        If the user was deactivated, show how many waiting calls were refused as a result.
        """
        asked = set(waiting().filter(of_person(obj.pk)).values_list("pk", flat=True)) if change else set()
        super().save_model(request, obj, form, change)
        refused = len(asked) - waiting().filter(pk__in=asked).count()
        if refused:
            self.message_user(request, str(EndedWork(calls=refused)), messages.SUCCESS)

    def has_second_factor_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may change users, which is also required for changing passwords."""
        return self.has_change_permission(request)

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Return the template context of a user's form.

        It contains the state of the second factor, the permission to remove it, and the links to the user's
        traffic, credentials and visible entries.
        """
        user = self.get_object(request, object_id)
        kept = user is not None and has_factor(user)
        removable = kept and not second_factor_lacks() and self.has_second_factor_permission(request)
        pages = [] if user is None else pages_of_user(request.user, user.get_username())
        fills = [] if user is None else limit_tables.of_caller(request, Caller(f"user:{user.pk}"))
        context = {"second_factor": kept, "removable": removable, "pages": pages, "fills": fills}
        if user is None or not may_ask(request.user):
            return context
        seen = reverse("mcp_person", args=[user.pk])
        holder = holder_of(user)
        meter = token_tables.of_holder(request, holder, principal=f"user:{user.pk}")
        return {**context, "seen_url": seen, "offer": offer_to(request, holder), "meter": meter}

    @object_button("second-factor", "second_factor")
    def remove_second_factor(self, request: HttpRequest, user: Any) -> None:
        """Remove the second factor of a user.

        At the next login, the password alone is enough. If the settings require a second factor, the user
        sets up a new one.
        """
        from mcp_app.oauth.second_factor import factors

        if factors.remove(user, actor=request.user):
            text = f"The second factor of {marked(user.get_username())} was removed."
            self.message_user(request, text, messages.SUCCESS)


class GroupsBesideUsers(ModelAdmin[Any]):
    """Admin pages of users with a link to the form for a new group, and a folded list of permissions."""

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Move the list of all permissions into a folded section at the end."""
        sets: list[Any] = []
        found = False
        for name, options in super().get_fieldsets(request, obj):
            fields = [field for field in options["fields"] if field != "user_permissions"]
            found = found or len(fields) < len(options["fields"])
            sets.append((name, {**options, "fields": fields}))
        if found:
            sets.append(("All permissions", {"fields": ("user_permissions",), "classes": ("collapse",)}))
        return sets

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Name permissions in words, those of this server first."""
        return _in_words(super().formfield_for_manytomany(db_field, request, **kwargs))

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Replace Unfold's menu with a link, because the menu cannot be reached with the keyboard."""
        field: Any = super().formfield_for_dbfield(db_field, request, **kwargs)
        widget = getattr(field, "widget", None)
        if db_field.name == "groups" and isinstance(widget, RelatedFieldWidgetWrapper):
            if widget.can_add_related:
                address = reverse(f"{self.admin_site.name}:auth_group_add")
                field.help_text = with_window(field.help_text, "New group", address, "groups")
            field.widget = widget.widget
        return field


def apply_skin() -> None:
    """Replace Django's standard pages of users and groups with the same pages in Unfold's style."""
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
    apply_skin()
