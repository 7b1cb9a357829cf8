"""The page that lists which users can use an entry and explains why the other users cannot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.paginator import Paginator
from django.db.models import Prefetch, QuerySet, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import ModelAdmin
from mcp_app.admin.markup import with_window
from mcp_app.admin.timeline import refusals_of
from mcp_app.auth.permissions import PermissionMissing, holders_of, may_view_people, people_permission
from mcp_app.auth.principal_names import name_of
from mcp_app.catalogue.access import (
    Giver,
    Holder,
    givers_of,
    holders_in_words,
    obstacle_of,
    permission_of,
    verdict,
)
from mcp_app.database import clock
from mcp_app.interface.text import marked
from mcp_app.message_log.counts.refusals import RefusalCount

PEOPLE_PER_PAGE: Final = 50
RECENT: Final = timedelta(days=1)
Entry = Any
HELP: Final = "Users without access do not see it."


@dataclass(frozen=True, slots=True)
class Caller:
    """A user on the page of callers.

    ``can`` is True if the user can use the entry, and ``why`` is the reason.
    """

    key: str
    name: str
    can: bool
    why: str


class CallersPages(ModelAdmin[Any]):
    """The page of callers, for every kind of entry."""

    kind: ClassVar[str]
    key_field: ClassVar[str]

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_callers"
        view = self.admin_site.admin_view(self.callers_view)
        return [path("<path:object_id>/callers/", view, name=name), *super().get_urls()]

    def callers_url(self, request: HttpRequest, entry: Entry) -> str | None:
        """Return the address of the page of callers, or None if the user may not view people."""
        return self.page_url("callers", entry) if may_view_people(request.user) else None

    def callers_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """List all users on numbered pages. ``?q=`` searches by user name."""
        if not may_view_people(request.user):
            raise PermissionMissing(people_permission())
        entry = self.object_to_view(request, object_id)
        if entry is None:
            return self.not_there(request, object_id)
        asked = request.GET.get("q", "").strip()[:150]
        page = Paginator(people_named(asked), PEOPLE_PER_PAGE).get_page(request.GET.get("p"))
        permission = permission_of(entry)
        givers = givers_of([permission])[permission]
        context = {
            **self.object_context(request, f"Who can use {marked(getattr(entry, self.key_field))}", entry),
            "entry_url": self.page_url("change", entry),
            "entry_name": marked(getattr(entry, self.key_field)),
            "rule": rule_of(entry),
            "obstacle": obstacle_of(entry),
            "asked": asked,
            "page": page,
            "callers": _callers([*page], entry, self.kind, givers),
            "refusals": self._refusals(request, entry),
        }
        return TemplateResponse(request, "mcp_admin/callers.html", context)

    def _refusals(self, request: HttpRequest, entry: Entry) -> list[tuple[RefusalCount, str]]:
        """Return the number of refused calls of a tool in the last day, by refusal code.

        The list is empty for other entries, and if the user may not read the message log.
        """
        if self.kind != "tool" or not request.user.has_perm("mcp_app.view_message"):
            return []
        return refusals_of(clock.utcnow() - RECENT, tool=entry.name)


def rule_of(entry: Entry) -> str:
    """Return a phrase that describes who may use an entry."""
    return holders_in_words(permission_of(entry))


def about_permission(request: HttpRequest) -> SafeString:
    """Return the help text of the permission field. It has a link to add a group if the user may do so."""
    if not (admin.site.is_registered(Group) and request.user.has_perm("auth.add_group")):
        return format_html("{}", HELP)
    return with_window(HELP, "New group", reverse(f"{admin.site.name}:auth_group_add"), "permission")


def people_named(asked: str) -> QuerySet[Any]:
    """Return all users, or those whose user name contains ``asked``."""
    model: Any = get_user_model()
    people: QuerySet[Any] = model._default_manager.order_by(model.USERNAME_FIELD).select_related(
        "mcp_service_user"
    )
    return people.filter(**{f"{model.USERNAME_FIELD}__icontains": asked}) if asked else people


def _callers(people: list[Any], entry: Entry, kind: str, givers: list[Giver]) -> list[Caller]:
    """Return a ``Caller`` for each person. The number of queries does not depend on the number of people."""
    obstacle = obstacle_of(entry)
    permission = permission_of(entry)
    holders = holders_of(permission, people) if permission and not obstacle else set()
    if holders and givers and hasattr(get_user_model(), "groups"):
        giving = Group.objects.filter(pk__in=[giver.key for giver in givers]).order_by("name")
        prefetch_related_objects(people, Prefetch("groups", giving, to_attr="giving_groups"))
    found = [verdict(entry, kind, _holder(person, entry, holders), givers) for person in people]
    return [
        Caller(str(person.pk), marked(name_of(person)), *each)
        for person, each in zip(people, found, strict=True)
    ]


def _holder(person: Any, entry: Entry, holders: set[Any]) -> Holder:
    """Return a person in the form that ``verdict`` expects.

    Of the person's permissions, it contains only the entry's permission.
    """
    is_superuser = bool(getattr(person, "is_superuser", False))
    return Holder(
        {permission_of(entry)} if is_superuser or person.pk in holders else (),
        "" if person.is_active else "the account is not active",
        is_superuser,
        groups={group.pk for group in getattr(person, "giving_groups", ())},
    )
