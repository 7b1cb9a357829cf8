"""Admin pages of the audit trail: a read-only list with a search, which shows actions in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.contrib import admin
from django.contrib.admin.models import ADDITION, DELETION, LogEntry
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from mcp_app.admin.base import ReadOnlyAdmin
from mcp_app.admin.columns import json_column, text_column
from mcp_app.admin.list_filters import by_date, trail_url
from mcp_app.admin.markup import moment
from mcp_app.interface.text import marked, visible
from mcp_app.models import AuditEvent
from mcp_app.models.catalogue import ENTRY_KINDS

# The kinds of objects that replace the word "entry" in the words of an action.
KINDS: Final = frozenset({*(kind.KIND for kind in ENTRY_KINDS), "toolset"})
# The stored code of each action, which the API and exports contain, with the words for pages.
WORDS: Final = {
    "api_key.issue": "API key added",
    "api_key.replace": "API key replaced",
    "api_key.revoke": "API key revoked",
    "bench.run_as": "test bench used as another user",
    "call.approve": "call approved",
    "call.expire": "approval expired",
    "call.refuse": "call refused",
    "call.retry": "call retried",
    "call.start": "call started",
    "call.stop": "call cancelled",
    "catalogue.accepted": "new definition accepted",
    "catalogue.changed": "entry changed",
    "catalogue.created": "entry added",
    "catalogue.deleted": "entry deleted",
    "catalogue.disabled": "entry disabled",
    "catalogue.draft_discarded": "draft discarded",
    "catalogue.draft_saved": "draft saved",
    "catalogue.enabled": "entry enabled",
    "catalogue.imported": "catalogue imported",
    "catalogue.mirrored": "catalogue loaded from code",
    "catalogue.permission_set": "who can use an entry changed",
    "catalogue.published": "draft published",
    "catalogue.rolled_back": "entry rolled back",
    "credential.changed": "credential changed",
    "credential.created": "credential added",
    "credential.deleted": "credential deleted",
    "document.changed": "settings of an OpenAPI document changed",
    "document.deleted": "OpenAPI document deleted",
    "document.imported": "OpenAPI drafts saved",
    "document.newer": "new version of an OpenAPI document received",
    "document.received": "OpenAPI document imported",
    "document.updated": "tools of an OpenAPI document updated",
    "error.assign": "error assigned",
    "error.mute": "error muted",
    "error.reopen": "error reopened",
    "error.resolve": "error resolved",
    "http_tool.tried": "HTTP request tested",
    "identity.create": "user added by identity provider",
    "identity.groups": "groups set by identity provider",
    "identity.link": "user linked to identity provider",
    "notification.choose": "notifications changed",
    "oauth.allow": "app allowed",
    "oauth.client_change": "OAuth client changed",
    "oauth.client_disable": "OAuth client disabled",
    "oauth.client_enable": "OAuth client enabled",
    "oauth.client_enter": "OAuth client added",
    "oauth.client_register": "OAuth client registered",
    "oauth.code_reused": "OAuth code used twice",
    "oauth.deny": "app denied",
    "oauth.end": "OAuth connection ended",
    "oauth.machine_connect": "service user connected",
    "oauth.machine_enter": "OAuth client with service user added",
    "oauth.machine_refused": "login of a service user refused",
    "oauth.refresh_reused": "OAuth refresh token used twice",
    "oauth.scope_refused": "missing scope",
    "request.stop": "request cancelled",
    "search.share": "saved search shared",
    "search.unshare": "saved search no longer shared",
    "second_factor.lock": "second factor locked",
    "second_factor.new_codes": "recovery codes replaced",
    "second_factor.recover": "recovery code used",
    "second_factor.remove": "second factor removed",
    "second_factor.set_up": "second factor set up",
    "service_user.login_refused": "login of a service user refused",
    "session.end": "session ended",
    "upstream.created": "upstream server added",
    "upstream.changed": "upstream server changed",
    "upstream.deleted": "upstream server deleted",
    "limit.created": "limit added",
    "limit.changed": "limit changed",
    "limit.deleted": "limit deleted",
    "limit.reset": "limit reset",
    "upstream.refreshed": "lists of an upstream server read",
    "upstream.connection_made": "account connected",
    "upstream.connection_ended": "account disconnected",
    "upstream.connection_failed": "connection of an account failed",
}

MOST_RECENT: Final = 10
# The applications whose changes are in the audit trail.
AUDITED: Final = ("mcp_app", "mcp_oauth")
DONE: Final = {ADDITION: "added", DELETION: "deleted"}

# Kinds of objects whose stored name is a code.
KIND_WORDS: Final = {
    "api_key": "API key",
    "connection": "OAuth connection",
    "document": "OpenAPI document",
    "oauth_client": "OAuth client",
    "search": "saved search",
    "template": "resource template",
    "upstream": "upstream server",
}


def in_words(action: str, kind: str = "") -> str:
    """Return an action in words. Unknown codes, such as those of a project, are shown as stored.

    ``kind`` is the kind of the entry that a change of the catalogue is about.
    """
    words = WORDS.get(action, action)
    if action.startswith("catalogue.") and kind in KINDS:
        name = KIND_WORDS.get(kind, kind)
        words = words.replace("an entry", f"a {name}").replace("entry", name)
    return words


def words_of(event: AuditEvent, kind: str = "") -> str:
    """Return the action of an event in words, as ``in_words`` does.

    A deleted entry that was restored had no values that changed.
    """
    if event.action == "catalogue.rolled_back" and event.detail.get("changed") == []:
        return f"deleted {KIND_WORDS.get(kind, kind) if kind in KINDS else 'entry'} restored"
    return in_words(event.action, kind)


def name_of(event: AuditEvent) -> str:
    """Return the name of the object of an event.

    The id of a call has the name of its tool in front. An error is stored by its digest and shown by its
    title.
    """
    tool = event.detail.get("tool")
    if not isinstance(tool, str):
        return event.object_key
    if event.object_kind == "call":
        return f"{tool}: {event.object_key}"
    if event.object_kind == "error":
        return ": ".join(filter(None, (tool, str(event.detail.get("error") or ""))))
    return event.object_key


class RecentAction(NamedTuple):
    """An action of a user: words, the name of the object, the address of a page about it or "", the time."""

    words: str
    name: str
    url: str
    at: datetime


def recent_actions(user: Any) -> list[RecentAction]:
    """Return the latest actions of a user, from the audit trail.

    Changes of other applications, such as those of users and groups, come from Django's own log, because the
    trail does not have them.
    """
    may_view = user.has_perm("mcp_app.view_auditevent")
    found = [
        RecentAction(
            capfirst(words_of(event, event.object_kind)),
            name_of(event),
            reverse("admin:mcp_app_auditevent_change", args=[event.pk]) if may_view else "",
            event.at,
        )
        for event in AuditEvent.objects.filter(actor=user)[:MOST_RECENT]
    ]
    logged = LogEntry.objects.filter(user=user).exclude(content_type__app_label__in=AUDITED)
    for entry in logged.select_related("content_type").order_by("-pk")[:MOST_RECENT]:
        kind = str(entry.content_type.name) if entry.content_type else "object"
        url = "" if entry.is_deletion() else entry.get_admin_url() or ""
        verb = DONE.get(entry.action_flag, "changed")
        found.append(RecentAction(capfirst(f"{kind} {verb}"), entry.object_repr, url, entry.action_time))
    return sorted(found, key=lambda each: each.at, reverse=True)[:MOST_RECENT]


class ActionFilter(admin.AllValuesFieldListFilter):
    """List filter by action, in words."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Replace the codes of Django's choices by words."""
        for choice in super().choices(changelist):
            yield {**choice, "display": in_words(str(choice["display"]))}


class KindFilter(admin.AllValuesFieldListFilter):
    """List filter by the kind of the object, in words."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.title = "kind"

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Replace the stored names of Django's choices by words."""
        for choice in super().choices(changelist):
            name = str(choice["display"])
            yield {**choice, "display": KIND_WORDS.get(name, name)}


class ObjectFilter(admin.SimpleListFilter):
    """List filter by one object, such as "user:ada". Only links choose it."""

    title, parameter_name = "object", "object"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = self.used_parameters.get("object")
        return [(chosen, marked(chosen.partition(":")[2])[:80])] if chosen else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEvent]) -> QuerySet[AuditEvent]:
        kind, _, key = (self.value() or "").partition(":")
        return queryset.filter(object_kind=kind, object_key=key) if key else queryset


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin[AuditEvent]):
    """Pages of the audit trail (S21)."""

    list_display = ("when", "who", "what", "kind", "key")
    list_display_links = ("when",)
    list_filter = (
        ObjectFilter,
        ("at", by_date("time")),
        ("action", ActionFilter),
        ("object_kind", KindFilter),
    )
    search_fields = ("actor_name", "action", "object_key")
    search_help_text = "User, object or action"
    fields = ("when", "who", "what", "kind", "key", "shown_detail")
    readonly_fields = fields
    actions = None

    def title_of(self, row: AuditEvent) -> str:
        """Return the action in words, with the name of the object."""
        words, name = words_of(row, row.object_kind), name_of(row)
        return marked(f"{words[:1].upper()}{words[1:]}{f': {name}' if name else ''}")

    @admin.display(description="when", ordering="id")
    def when(self, event: AuditEvent) -> SafeString:
        """Return the time of the event."""
        return moment(event.at)

    @admin.display(description="action", ordering="action")
    def what(self, event: AuditEvent) -> SafeString:
        """Return the action in the words of the filter, with its code as tooltip. The kind has a column."""
        words = words_of(event)
        return format_html('<span title="{}">{}</span>', marked(event.action), visible(words))

    who = text_column("user", "actor_name", ordering="actor_name", empty="–")

    @admin.display(description="kind", ordering="object_kind")
    def kind(self, event: AuditEvent) -> SafeString:
        """Return the kind of the object in words."""
        return visible(KIND_WORDS.get(event.object_kind, event.object_kind) or "–")

    @admin.display(description="object", ordering="object_key")
    def key(self, event: AuditEvent) -> SafeString:
        """Return the name of the object."""
        return visible(name_of(event) or "–")

    shown_detail = json_column("detail", "detail")

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Redirect to the events about the object, because events never change."""
        event = self.object_to_view(request, object_id)
        if event is None:
            return self.not_there(request, object_id)
        return HttpResponseRedirect(trail_url(event.object_kind, event.object_key))
