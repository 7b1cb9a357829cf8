"""Hostile rows of other servers, of toolsets and of limits.

Rows of other servers are OpenAPI documents, HTTP tools, credentials and upstream servers.
"""

from __future__ import annotations

import json
from typing import Any

from django.utils import timezone

from mcp_app.catalogue.changes import drafts
from mcp_app.catalogue.documents import importing, storing
from mcp_app.catalogue.sources.upstream.kinds import TOOLS, Item
from mcp_app.catalogue.toolsets.services import delete_toolset, save_toolset
from mcp_app.catalogue.upstreams.entries import changed_columns, tools_of
from mcp_app.catalogue.upstreams.importing import import_items
from mcp_app.catalogue.upstreams.storing import packed
from mcp_app.credentials.services import save_credential
from mcp_app.models import (
    ApiDocument,
    CatalogueChange,
    Credential,
    LimitRule,
    Tool,
    Toolset,
    Upstream,
    UpstreamClient,
    UserConnection,
)
from tests.browser.corpus.planted import planted, planted_schema

NAME = "corpus"
_SERVER = "https://api.example.com/v1"


def fill(root: Any) -> None:
    """Create the rows, each with changes that wait for a decision."""
    _credential(root)
    _documents(root)
    _upstream(root)
    _toolsets(root)
    # A tool or a user that was renamed; names of new limits are checked.
    LimitRule.objects.create(
        name=NAME,
        who=LimitRule.Who.USER,
        who_value=planted("limit.user", 150),
        what=LimitRule.What.TOOL,
        what_value=planted("limit.tool", 200),
        rate=5,
    )


def keys() -> dict[str, Any]:
    """Return the keys of the rows by a short name."""
    return {
        "credential": Credential.objects.get(name=NAME).pk,
        "credential_unused": Credential.objects.get(name="unused").pk,
        "document": ApiDocument.objects.get(name=NAME).pk,
        "document_failed": ApiDocument.objects.get(name="failed").pk,
        "upstream_server": Upstream.objects.get(name=NAME).pk,
        "user_connection": UserConnection.objects.get().pk,
        "limit": LimitRule.objects.get(name=NAME).pk,
        "toolset": Toolset.objects.get(slug=NAME).pk,
        "toolset_change": CatalogueChange.objects.filter(kind="toolset", key=NAME).earliest("id").pk,
        "toolset_deleted": CatalogueChange.objects.get(kind="toolset", action="deleted").pk,
        "tool_http": Tool.objects.get(name=f"{NAME}_get").pk,
        "tool_proxied": Tool.objects.get(request__upstream=NAME).pk,
    }


def _credential(root: Any) -> None:
    row = save_credential(
        actor=root,
        name=NAME,
        kind=Credential.Kind.CLIENT_CREDENTIALS,
        secret={"client_id": planted("credential.client"), "client_secret": planted("credential.secret")},
        origins=[_SERVER.removesuffix("/v1")],
        token_url="https://login.example.com/token",
        audience=planted("credential.audience", 400),
    )
    origins = ["https://other.example.com"]
    save_credential(actor=root, name="unused", kind="bearer", secret={"token": "t"}, origins=origins)
    # A fault that the server of the tokens explained.
    error = {"last_error": planted("credential.error", 300), "last_error_at": timezone.now()}
    Credential.objects.filter(pk=row.pk).update(**error)


def _document(**get: Any) -> bytes:
    words = {name: planted(f"operation.{name}") for name in ("summary", "description")}
    place = {"name": "order", "in": "query", "description": planted("operation.parameter")}
    schema = {"type": "string", "default": planted("operation.default", 300)}
    operation = {
        "operationId": "get",
        "tags": [planted("operation.tag", 200)],
        "parameters": [{**place, "schema": schema}],
        "security": [{planted("document.scheme", 120): []}],
        **words,
        **get,
    }
    refused = {"operationId": planted("operation.id", 200), "summary": planted("operation.refused")}
    refused["parameters"] = [{"name": planted("operation.header", 100), "in": "elsewhere"}]  # type: ignore[assignment]
    scheme = {"type": "http", "scheme": "bearer", "description": planted("document.scheme_words")}
    document = {
        "openapi": "3.1.0",
        "info": {"title": planted("document.title", 190), "description": planted("document.description")},
        "servers": [{"url": _SERVER, "description": planted("document.server")}],
        "paths": {"/orders": {"get": operation}, "/others": {"get": refused}},
        "components": {"securitySchemes": {planted("document.scheme", 120): scheme}},
    }
    return json.dumps(document).encode()


def _documents(root: Any) -> None:
    row = storing.receive(data=_document(), actor=root, name=NAME, prefix=NAME)
    importing.import_operations(row=row, keys=["GET /orders"], actor=root, publish=True)
    storing.receive_newer(row=row, data=_document(summary=planted("operation.changed")), actor=root)
    ApiDocument.objects.create(
        name="failed",
        title=planted("document.failed", 200),
        state=ApiDocument.State.FAILED,
        problem=planted("document.problem", 500),
        url="https://docs.example.com/" + planted("document.url", 300),
    )


def _account(row: Upstream, root: Any) -> None:
    issuer = "https://login.example.com/" + planted("account.issuer", 300)
    client = UpstreamClient.objects.create(upstream=row, issuer=issuer, origin="registered", client_id="1")
    UserConnection.objects.create(
        user=root,
        upstream=row,
        client=client,
        problem=planted("account.problem", 300),
        scope=planted("account.scope", 300),
        connected_at=timezone.now(),
        renewed_at=timezone.now(),
    )


def _upstream(root: Any) -> None:
    first = {
        "name": "search",
        "title": planted("remote.title", 200),
        "description": planted("remote.description"),
        "inputSchema": planted_schema("remote"),
    }
    further = {**first, "name": "further", "description": planted("remote.unpublished")}
    others = {
        "instructions": planted("remote.instructions"),
        "prompts": [{"name": "ask", "description": planted("remote.prompt")}],
        "resources": [
            {"uri": "javascript:window.pwned=32", "name": "r", "description": planted("remote.resource")}
        ],
        "resourceTemplates": [
            {"uriTemplate": "up://{x}", "name": "t", "description": planted("remote.template")}
        ],
    }
    row = Upstream.objects.create(
        name=NAME,
        url="https://mcp.example.com/mcp",
        prefix="far",
        title=planted("remote.server", 200),
        version="2025-11-25",
        listed=packed({"tools": [first, further], **others}),
        listed_at=timezone.now(),
    )
    _account(row, root)
    import_items(upstream=row, keys=["search"], actor=root, publish=True)
    (tool,) = tools_of(row).values()
    changed = {**first, "description": planted("remote.changed")}
    row.listed = packed({"tools": [changed, further], **others})
    row.save()
    values = changed_columns(row, tool, Item(TOOLS, changed))
    drafts.save_draft(kind=Tool, actor=None, entry=tool, note=planted("remote.note", 400), **values)


def _toolsets(root: Any) -> None:
    words = {"title": planted("member.title", 200), "description": planted("member.description")}
    values = {
        "title": planted("toolset.title", 200),
        "instructions": planted("toolset.instructions"),
        "audience": Toolset.Audience.EVERYONE,
        "members": [{"kind": "tool", "key": "echo", **words}],
    }
    row = save_toolset(actor=root, slug=NAME, why=planted("toolset.why", 400), **values)
    save_toolset(actor=root, toolset=row, enabled=False)
    delete_toolset(toolset=save_toolset(actor=root, slug="gone", **values), actor=root)
