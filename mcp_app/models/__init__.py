"""What is stored: the catalogue, legacy sessions, the message log, API keys and the audit trail."""

from mcp_app.models.access import ApiKey
from mcp_app.models.audit import AuditEvent, audit
from mcp_app.models.call import Call
from mcp_app.models.catalogue import Prompt, Resource, ResourceTemplate, Source, Tool
from mcp_app.models.draft import Draft
from mcp_app.models.revision import CatalogueChange, CatalogueRevision
from mcp_app.models.session import LogCursor, Message, Session

__all__ = [
    "ApiKey",
    "AuditEvent",
    "Call",
    "CatalogueChange",
    "CatalogueRevision",
    "Draft",
    "LogCursor",
    "Message",
    "Prompt",
    "Resource",
    "ResourceTemplate",
    "Session",
    "Source",
    "Tool",
    "audit",
]
