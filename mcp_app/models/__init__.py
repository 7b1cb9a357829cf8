"""The stored models: catalogue, credentials, legacy sessions, message log, API keys and audit trail."""

from mcp_app.models.access import ApiKey, ExternalIdentity, OfferedPermission, ServiceUser
from mcp_app.models.api_document import ApiDocument
from mcp_app.models.audit import AuditEvent, audit, audit_each
from mcp_app.models.call import Approval, Call, KeyedCall, TaskWait
from mcp_app.models.catalogue import (
    ENTRY_KINDS,
    Prompt,
    Resource,
    ResourceTemplate,
    StoredSource,
    Tool,
    Toolset,
)
from mcp_app.models.credential import Credential
from mcp_app.models.draft import Draft
from mcp_app.models.errors import ErrorGroup, ErrorHour, Triage
from mcp_app.models.limit_rule import LimitRule, LimitUsage
from mcp_app.models.notification import NotificationChannel
from mcp_app.models.personal import SavedSearch, TimeZoneChoice
from mcp_app.models.result import ResultPage, StoredResult
from mcp_app.models.revision import CatalogueChange, CatalogueRevision
from mcp_app.models.rollup import CallerRollup, LogMinute, Rollup
from mcp_app.models.search_miss import SearchMiss
from mcp_app.models.session import Doctor, LogCursor, Message, Session
from mcp_app.models.upstream import Upstream, UpstreamClient, UserConnection

# Models whose rows make up the catalogue. Roles and catalogue files need permissions for each of them.
CATALOGUE_MODELS = (*ENTRY_KINDS, Toolset)

__all__ = [
    "CATALOGUE_MODELS",
    "ApiDocument",
    "ApiKey",
    "Approval",
    "AuditEvent",
    "Call",
    "CallerRollup",
    "CatalogueChange",
    "CatalogueRevision",
    "Credential",
    "Doctor",
    "Draft",
    "ErrorGroup",
    "ErrorHour",
    "ExternalIdentity",
    "KeyedCall",
    "LimitRule",
    "LimitUsage",
    "LogCursor",
    "LogMinute",
    "Message",
    "NotificationChannel",
    "OfferedPermission",
    "Prompt",
    "Resource",
    "ResourceTemplate",
    "ResultPage",
    "Rollup",
    "SavedSearch",
    "SearchMiss",
    "ServiceUser",
    "Session",
    "StoredResult",
    "StoredSource",
    "TaskWait",
    "TimeZoneChoice",
    "Tool",
    "Toolset",
    "Triage",
    "Upstream",
    "UpstreamClient",
    "UserConnection",
    "audit",
    "audit_each",
]
