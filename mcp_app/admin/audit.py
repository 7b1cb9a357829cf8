"""Owns the pages of the audit trail: a list to read and search, nothing to alter."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from mcp_app.admin.base import ReadOnlyAdmin
from mcp_app.admin.shown import json_block, moment
from mcp_app.models import AuditEvent
from mcp_app.text import visible


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin[AuditEvent]):
    """The audit trail (S21)."""

    list_display = ("when", "who", "what", "kind", "key")
    list_display_links = ("when",)
    list_filter = ("at", "action", "object_kind")
    search_fields = ("actor_name", "action", "object_key")
    search_help_text = "Person, action or object."
    fields = ("when", "who", "what", "kind", "key", "shown_detail")
    readonly_fields = fields
    actions = None

    @admin.display(description="when", ordering="id")
    def when(self, event: AuditEvent) -> SafeString:
        """When it happened."""
        return moment(event.at)

    @admin.display(description="who", ordering="actor_name")
    def who(self, event: AuditEvent) -> SafeString:
        """The name the actor had then."""
        return visible(event.actor_name or "-")

    @admin.display(description="action", ordering="action")
    def what(self, event: AuditEvent) -> SafeString:
        """What was done."""
        return visible(event.action)

    @admin.display(description="kind", ordering="object_kind")
    def kind(self, event: AuditEvent) -> SafeString:
        """The kind of thing it was done to."""
        return visible(event.object_kind or "-")

    @admin.display(description="object", ordering="object_key")
    def key(self, event: AuditEvent) -> SafeString:
        """The thing it was done to."""
        return visible(event.object_key or "-")

    @admin.display(description="detail")
    def shown_detail(self, event: AuditEvent) -> SafeString:
        """What else was recorded."""
        return json_block(event.detail)
