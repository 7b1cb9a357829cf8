"""The URLs of the API. A project includes this module."""

from __future__ import annotations

from django.urls import path, re_path
from rest_framework.routers import SimpleRouter

from mcp_app.api.calls import CallViews
from mcp_app.api.documents.views import DocumentViews
from mcp_app.api.entries import PromptViews, ResourceViews, TemplateViews, ToolViews
from mcp_app.api.keys import AuditViews, CredentialViews, KeyViews
from mcp_app.api.limits.views import LimitViews, OwnUsage
from mcp_app.api.log.errors import ErrorViews
from mcp_app.api.log.messages import MessageViews
from mcp_app.api.schema import Docs, Nothing, Root, Schema
from mcp_app.api.sessions import SessionViews
from mcp_app.api.toolsets.views import ToolsetViews
from mcp_app.api.transfer import Export, Import
from mcp_app.api.upstreams.views import OwnConnection, OwnConnections, UpstreamViews

app_name = "mcp_api"

router = SimpleRouter(use_regex_path=False)
router.register("tools", ToolViews, "tools")
router.register("prompts", PromptViews, "prompts")
router.register("resources", ResourceViews, "resources")
router.register("templates", TemplateViews, "templates")
router.register("sessions", SessionViews, "sessions")
router.register("messages", MessageViews, "messages")
router.register("errors", ErrorViews, "errors")
router.register("calls", CallViews, "calls")
router.register("keys", KeyViews, "keys")
router.register("credentials", CredentialViews, "credentials")
router.register("documents", DocumentViews, "documents")
router.register("upstreams", UpstreamViews, "upstreams")
router.register("limits", LimitViews, "limits")
router.register("toolsets", ToolsetViews, "toolsets")
router.register("audit", AuditViews, "audit")

urlpatterns = [
    path("", Root.as_view(), name="root"),
    path("schema/", Schema.as_view(), name="schema"),
    path("docs/", Docs.as_view(), name="docs"),
    path("usage/", OwnUsage.as_view(), name="usage"),
    path("connections/", OwnConnections.as_view(), name="connections"),
    path("connections/<slug:server>/", OwnConnection.as_view(), name="connection"),
    path("catalogue/export/", Export.as_view(), name="catalogue-export"),
    path("catalogue/import/", Import.as_view(), name="catalogue-import"),
    *router.urls,
    re_path(r"^.*$", Nothing.as_view(), name="nothing"),
]
