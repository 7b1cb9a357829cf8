"""The list of a kind of entries: its columns, and the use of tools in the last week."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from mcp_app.admin.columns import time_column
from mcp_app.admin.entries.switch import SwitchUndo, switch_button
from mcp_app.admin.markup import badge, relative
from mcp_app.catalogue.access import EVERYONE, all_holders_in_words, permission_of
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.catalogue.sources.precedence import overlaid
from mcp_app.database import clock
from mcp_app.interface.text import visible
from mcp_app.message_log.counts.usage import Usage, usage_of
from mcp_app.models import Draft

Entry = Any
# The message log counts the calls of tools by name, but not the use of prompts and resources.
COUNTED = "tool"


class EntryList(SwitchUndo):
    """The columns of the list of entries, and the data that they share."""

    key_field: ClassVar[str]

    def get_list_display(self, request: HttpRequest) -> Any:
        """Return the columns. Those about calls are for users who may view messages."""
        counted = ("calls", "errors", "last_call") if self._counts(request) else ()
        return (
            "key",
            "shown_title",
            self._switch_column(request),
            *counted,
            "shown_permission",
            "updated",
            *(("bench",) if self.has_try_permission(request) else ()),  # type: ignore[attr-defined]
        )

    def _counts(self, request: HttpRequest) -> bool:
        return self.kind == COUNTED and request.user.has_perm("mcp_app.view_message")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Annotate each entry with ``has_draft``."""
        waits = Draft.objects.filter(kind=self.kind, entry_id=OuterRef("pk"))
        entries: QuerySet[Any] = super().get_queryset(request).annotate(has_draft=Exists(waits))
        return entries

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Attach the use of tools and their callers, and find the facts that are equal in all rows."""
        changelist: Any = super().get_changelist_instance(request)
        entries = list(changelist.result_list)
        if self._counts(request):
            used = usage_of([entry.name for entry in entries], clock.utcnow())
            for entry in changelist.result_list:
                vars(entry)["usage"] = used.get(entry.name)
        words = all_holders_in_words({permission_of(entry) for entry in entries})
        for entry in entries:
            vars(entry)["who"] = words[permission_of(entry)]
        changelist.same = _same(entries)
        return changelist

    def _switch_column(self, request: HttpRequest) -> Callable[[Entry], SafeString]:
        may_switch: bool = self.has_switch_permission(request)  # type: ignore[attr-defined]  # Of the subclass.

        @admin.display(description="enabled", ordering="enabled")
        def enabled_switch(entry: Entry) -> SafeString:
            if not may_switch:
                return badge("on" if entry.enabled else "off", "good" if entry.enabled else "plain")
            return switch_button(entry, self.with_filters(request, self.page_url("switch", entry)))

        return enabled_switch

    @admin.display(description="name")
    def key(self, entry: Entry) -> SafeString:
        """Return the name that clients use."""
        return visible(getattr(entry, self.key_field))

    @admin.display(description="title", ordering="title")
    def shown_title(self, entry: Entry) -> SafeString:
        """Return the title that clients see, with badges for approval and for the source."""
        base = source_of(entry).base_of(entry)
        waits = any(_in_force(row).get("needs_approval") for row in (entry, base) if row is not None)
        return format_html(
            '<span class="mcp-badges">{} {} <span class="mcp-source">{}</span></span>',
            visible(_in_force(entry).get("title") or "–"),
            badge("approval", "info") if waits else "",
            self.shown_source(entry),
        )

    @admin.display(description="calls (7 days)")
    def calls(self, entry: Entry) -> SafeString:
        """Return the number of calls in the last week as a link to their figures."""
        used = _usage(entry)
        if used is None:
            return _none()
        asked = urlencode({"tool": entry.name, "range": "week"})
        return _number(used.calls, f"{reverse('admin:mcp_app_message_figures')}?{asked}")

    @admin.display(description="issues (7 days)")
    def errors(self, entry: Entry) -> SafeString:
        """Return the numbers of failed and of refused calls in the last week as links to their messages."""
        used = _usage(entry)
        counts = [] if used is None else [("failed", used.failed), ("refused", used.refused)]
        shown = [_outcome(entry, word, number) for word, number in counts if number]
        return format_html_join(" · ", "{}", ((each,) for each in shown)) if shown else _none()

    @admin.display(description="last call")
    def last_call(self, entry: Entry) -> SafeString:
        """Return the time of the last call in the last week."""
        used = _usage(entry)
        return _none() if used is None else relative(used.last)

    @admin.display(description="source", ordering="source")
    def shown_source(self, entry: Entry) -> SafeString:
        """Return badges: source, changed or missing definition, and pending draft."""
        source = source_of(entry)
        return format_html(
            "{}{}{}{}",
            badge(source.variety or source.label, source.tone),
            format_html(" {}", badge("changed", "warn")) if entry.drifted else "",
            format_html(" {}", badge("missing", "bad")) if entry.missing else "",
            format_html(" {}", badge("draft", "warn")) if getattr(entry, "has_draft", False) else "",
        )

    @admin.display(description="who can use it", ordering="permission")
    def shown_permission(self, entry: Entry) -> SafeString:
        """Return a phrase that describes who may use the entry."""
        if not permission_of(entry):
            return format_html('<span class="mcp-dim">{}</span>', EVERYONE)
        return visible(vars(entry)["who"])

    @admin.display(description="try")
    def bench(self, entry: Entry) -> SafeString:
        """Return a link to the test bench of the entry."""
        return format_html('<a class="mcp-link" href="{}">Try…</a>', self.page_url("try", entry))

    updated = time_column("updated", "updated_at")


def _same(entries: list[Entry]) -> list[str]:
    """Return ``permission`` if every caller may use all entries, and ``source`` if all have one source.

    Entries that need attention keep their badges.
    """
    sources = {source_of(entry).variety or source_of(entry).label for entry in entries}
    flagged = any(entry.drifted or entry.missing or entry.has_draft for entry in entries)
    same = {
        "permission": not any(permission_of(entry) for entry in entries),
        "source": len(sources) == 1 and not flagged,
    }
    return [name for name, alike in same.items() if alike]


def _in_force(entry: Entry) -> dict[str, Any]:
    return overlaid(source_of(entry).in_force(entry), entry)


def _usage(entry: Entry) -> Usage | None:
    found: Usage | None = vars(entry).get("usage")
    return found


def _number(number: int, address: str) -> SafeString:
    return format_html('<a class="mcp-link" href="{}">{}</a>', address, f"{number:,}")


def _outcome(entry: Entry, word: str, number: int) -> SafeString:
    asked = urlencode({"q": f"status:{word} since:7d", "target": entry.name})
    address = f"{reverse('admin:mcp_app_message_changelist')}?{asked}"
    return format_html('<a class="mcp-link" href="{}">{} {}</a>', address, f"{number:,}", word)


def _none() -> SafeString:
    return format_html('<span class="mcp-dim">{}</span>', "–")
