"""Admin pages of the audit trail: a read-only list with a search."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from mcp_app.admin.base import ReadOnlyAdmin
from mcp_app.admin.columns import json_column, text_column
from mcp_app.admin.markup import moment
from mcp_app.models import AuditEvent


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin[AuditEvent]):
    """Pages of the audit trail (S21)."""

    list_display = ("when", "who", "what", "kind", "key")
    list_display_links = ("when",)
    list_filter = ("at", "action", "object_kind")
    search_fields = ("actor_name", "action", "object_key")
    search_help_text = "User, action or object."
    fields = ("when", "who", "what", "kind", "key", "shown_detail")
    readonly_fields = fields
    actions = None

    @admin.display(description="when", ordering="id")
    def when(self, event: AuditEvent) -> SafeString:
        """Return the time of the event."""
        return moment(event.at)

    who = text_column("who", "actor_name", ordering="actor_name", empty="-")
    what = text_column("action", "action", ordering="action")
    kind = text_column("kind", "object_kind", ordering="object_kind", empty="-")
    key = text_column("object", "object_key", ordering="object_key", empty="-")
    shown_detail = json_column("detail", "detail")
