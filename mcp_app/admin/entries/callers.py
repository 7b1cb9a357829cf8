"""Owns the page that says who can use an entry, and of everybody else why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from mcp_app.admin.base import ModelAdmin
from mcp_app.auth.membership import group_of
from mcp_app.auth.permissions import permissions_of
from mcp_app.text import marked

PEOPLE_PER_PAGE: Final = 50
SEES_PEOPLE: Final = "auth.view_user"
Entry = Any


@dataclass(frozen=True, slots=True)
class Caller:
    """A person, whether they can use the entry, and why."""

    name: str
    can: bool
    why: str


class CallersPages(ModelAdmin[Any]):
    """The page of callers, for every kind of entry."""

    key_field: ClassVar[str]

    def get_urls(self) -> list[URLPattern]:
        """Its address before all others."""
        name = f"{self.opts.app_label}_{self.opts.model_name}_callers"
        view = self.admin_site.admin_view(self.callers_view)
        return [path("<path:object_id>/callers/", view, name=name), *super().get_urls()]

    def callers_url(self, request: HttpRequest, entry: Entry) -> str | None:
        """The page, for those who may see people."""
        return self.page_url("callers", entry) if request.user.has_perm(SEES_PEOPLE) else None

    def callers_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Everybody, a page at a time; ``?q=`` finds somebody."""
        if not request.user.has_perm(SEES_PEOPLE):
            raise PermissionDenied
        entry = self.object_to_view(request, object_id)
        if entry is None:
            return self.not_there(request, object_id)
        asked = request.GET.get("q", "").strip()[:150]
        model: Any = get_user_model()
        people = model._default_manager.order_by(model.USERNAME_FIELD)
        found = people.filter(**{f"{model.USERNAME_FIELD}__icontains": asked}) if asked else people
        page = Paginator(found, PEOPLE_PER_PAGE).get_page(request.GET.get("p"))
        obstacle, groups = obstacle_of(entry), groups_with(entry.permission)
        context = {
            **self.object_context(request, f"Who can use {marked(getattr(entry, self.key_field))}", entry),
            "entry_url": self.page_url("change", entry),
            "rule": rule_of(entry),
            "obstacle": obstacle,
            "groups": [marked(name) for name in groups],
            "asked": asked,
            "page": page,
            "callers": [_caller(person, entry, obstacle, groups) for person in page],
        }
        return TemplateResponse(request, "mcp_admin/callers.html", context)


def rule_of(entry: Entry) -> str:
    """Who may, in words."""
    if not entry.permission:
        return "every caller"
    group = group_of(entry.permission)
    if group is not None:
        return f"members of {marked(group.name)}"
    return f"those with the permission {marked(entry.permission)}"


def obstacle_of(entry: Entry) -> str:
    """Why nobody can use an entry at all; empty when some can."""
    base = getattr(entry, "preset_of", None)
    if entry.missing or (base is not None and base.missing):
        return "the code that defined it is not installed"
    return "" if entry.enabled else "it is disabled"


def groups_with(permission: str) -> list[str]:
    """The names of the groups that give a permission."""
    if not permission:
        return []
    label, _, codename = permission.partition(".")
    rows = Permission.objects.filter(content_type__app_label=label, codename=codename)
    return list(Group.objects.filter(permissions__in=rows).order_by("name").values_list("name", flat=True))


def _caller(person: Any, entry: Entry, obstacle: str, groups: list[str]) -> Caller:
    name = marked(person.get_username())
    if obstacle:
        return Caller(name, False, obstacle)
    if not person.is_active:
        return Caller(name, False, "the account is not active")
    if not entry.permission:
        return Caller(name, True, "every caller can")
    if getattr(person, "is_superuser", False):
        return Caller(name, True, "superusers have every permission")
    if entry.permission in permissions_of(person):
        own = person.groups.filter(Q(name__in=groups)).values_list("name", flat=True)
        return Caller(name, True, f"by the group {marked(', '.join(own))}" if own else "own permission")
    had_by = f"; these groups have it: {marked(', '.join(groups))}" if groups else ""
    return Caller(name, False, f"lacks {marked(entry.permission)}{had_by}")
