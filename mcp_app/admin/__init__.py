"""Admin pages. They write to the database only through the services of the other packages."""

from django.apps import apps

from mcp_app.admin import access, audit, doctor, people
from mcp_app.admin.calls import approvals, call_list
from mcp_app.admin.documents import document_admin
from mcp_app.admin.entries import catalogue, drafts
from mcp_app.admin.identity import credentials, external
from mcp_app.admin.limits import limit_admin
from mcp_app.admin.toolsets import toolset_admin
from mcp_app.admin.traffic import messages, sessions
from mcp_app.admin.upstreams import connections, upstream_admin

if apps.is_installed("mcp_app.oauth"):
    from mcp_app.admin import oauth  # noqa: F401 - importing registers

__all__ = [
    "access",
    "approvals",
    "audit",
    "call_list",
    "catalogue",
    "connections",
    "credentials",
    "doctor",
    "document_admin",
    "drafts",
    "external",
    "limit_admin",
    "messages",
    "people",
    "sessions",
    "toolset_admin",
    "upstream_admin",
]
