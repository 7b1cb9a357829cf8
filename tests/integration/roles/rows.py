"""Rows for the requests: one of each kind that a request can change."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.utils import timezone

from mcp_app.catalogue.changes.drafts import save_draft
from mcp_app.catalogue.changes.services import (
    save_entry,
    save_prompt,
    save_resource,
    save_tool_preset,
)
from mcp_app.catalogue.documents import storing
from mcp_app.catalogue.documents.importing import import_operations
from mcp_app.catalogue.sources.http.source import HTTP
from mcp_app.catalogue.toolsets.drafts import save_toolset_draft
from mcp_app.catalogue.toolsets.services import delete_toolset, save_toolset
from mcp_app.catalogue.upstreams.importing import import_items
from mcp_app.catalogue.upstreams.storing import packed as packed_tools
from mcp_app.catalogue.upstreams.storing import save_upstream
from mcp_app.credentials.services import save_credential
from mcp_app.limits.services import save_rule
from mcp_app.message_log.counts import error_groups
from mcp_app.models import (
    ApiDocument,
    AuditEvent,
    Call,
    CatalogueChange,
    Credential,
    Draft,
    ErrorGroup,
    ExternalIdentity,
    LimitRule,
    Message,
    Prompt,
    Resource,
    ResourceTemplate,
    SavedSearch,
    Tool,
    Toolset,
    Upstream,
    UpstreamClient,
    UserConnection,
)
from mcp_app.oauth.models import Client, Connection
from mcp_app.oauth.registration import create_client, metadata_of
from mcp_app.oauth.second_factor import factors
from tests.integration.roles.table import KINDS, OWN
from tests.samples.admin_seed import PASSWORD, Seed, call, seed

MODELS: dict[str, Any] = {
    "tool": Tool,
    "prompt": Prompt,
    "resource": Resource,
    "resourcetemplate": ResourceTemplate,
}


@dataclass(slots=True)
class Rows:
    """Rows of the requests.

    Of each kind: a deletable entry, a disabled entry with a draft, the draft, a draft of a new entry, a
    change to roll back, a deletion, a logged run.
    """

    seed: Seed
    entry: dict[str, Any] = field(default_factory=dict)
    off: dict[str, Any] = field(default_factory=dict)
    draft: dict[str, Draft] = field(default_factory=dict)
    change: dict[str, CatalogueChange] = field(default_factory=dict)
    gone: dict[str, CatalogueChange] = field(default_factory=dict)
    run: dict[str, Message] = field(default_factory=dict)
    event: AuditEvent = field(init=False)
    client: Client = field(init=False)
    connection: Connection = field(init=False)
    identity: ExternalIdentity = field(init=False)
    user: Any = field(init=False)
    root: Any = field(init=False)
    group: Group = field(init=False)
    error: ErrorGroup = field(init=False)
    search: SavedSearch = field(init=False)
    credential: Credential = field(init=False)
    http: Tool = field(init=False)
    document: ApiDocument = field(init=False)
    upstream: Upstream = field(init=False)
    user_connection: UserConnection = field(init=False)
    limit: LimitRule = field(init=False)
    toolset: Toolset = field(init=False)


def store() -> Rows:
    """Store all rows; needs an empty, migrated database."""
    rows = Rows(seed())
    users = get_user_model().objects
    rows.user = users.create_user("somebody", password=PASSWORD)
    factors.set_up(rows.user, "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", 1)
    rows.root = users.create_superuser("another-root", password=PASSWORD)
    rows.group = Group.objects.create(name="spare")
    _connection(rows)
    rows.identity = ExternalIdentity.objects.create(user=rows.root, issuer="https://id.example", subject="1")
    _entries(rows)
    _drafts(rows)
    _runs(rows)
    Call.objects.filter(pk=rows.seed.call.pk).update(arguments='{"text": "hi"}')
    rows.event = AuditEvent.objects.latest("pk")
    rows.error = _error(rows.seed.message)
    rows.search = SavedSearch.objects.create(user=rows.root, name="errors", text="status:error", shared=True)
    request = {"origin": "http://127.0.0.1:1", "method": "GET", "path": "/"}
    rows.http = save_entry(kind=Tool, actor=None, source=HTTP, name="web", request=request)
    rows.credential = save_credential(
        actor=None, name="shop", kind="bearer", secret={"token": "t"}, origins=["https://api.example"]
    )
    rows.document = _document()
    rows.upstream = _upstream()
    rows.user_connection = _user_connection(rows)
    rows.limit = save_rule(actor=None, name="calm", who="installation", rate=1_000_000)
    _toolsets(rows)
    return rows


def _toolsets(rows: Rows) -> None:
    """Store a toolset with two changes, the history of a deleted one, and drafts of two others."""
    for slug in ("deleted", "team"):
        row = save_toolset(actor=None, slug=slug, audience="everyone", title="Before")
    rows.toolset = save_toolset(actor=None, toolset=row, title="After")
    delete_toolset(toolset=Toolset.objects.get(slug="deleted"), actor=None)
    other = save_toolset(actor=None, slug="drafted", audience="everyone")
    rows.draft["toolset"] = save_toolset_draft(actor=None, toolset=other, title="Drafted")
    rows.draft["new-toolset"] = save_toolset_draft(actor=None, slug="next", audience="everyone")
    changes = CatalogueChange.objects.filter(kind="toolset")
    rows.change["toolset"] = changes.get(key="team", action="created")
    rows.gone["toolset"] = changes.get(key="deleted", action="deleted")


def _upstream() -> Upstream:
    """Return a server that cannot be reached, with a listed tool, and with a draft of another one."""
    row = save_upstream(actor=None, name="crm", url="http://127.0.0.1:1/mcp")
    listed = [{"name": name, "inputSchema": {"type": "object"}} for name in ("first", "second")]
    row.listed = packed_tools({"tools": listed})
    row.save()
    import_items(upstream=row, keys=["second"], actor=None)
    return row


def _user_connection(rows: Rows) -> UserConnection:
    """Return an account at the server, whose authorization server cannot be reached."""
    client = UpstreamClient.objects.create(
        upstream=rows.upstream, issuer="http://127.0.0.1:1", origin="registered", client_id="1"
    )
    now = timezone.now()
    return UserConnection.objects.create(
        user=rows.root, upstream=rows.upstream, client=client, connected_at=now, renewed_at=now, sealed="x"
    )


def _document() -> ApiDocument:
    """Return a document with an operation, and with a draft of another one."""
    paths = {f"/{name}": {"get": {"operationId": name}} for name in ("first", "second")}
    root = {"openapi": "3.1.0", "servers": [{"url": "https://api.example"}], "paths": paths}
    row = storing.receive(data=json.dumps(root).encode(), actor=None, name="shop")
    import_operations(row=row, keys=["GET /second"], actor=None)
    return row


def _error(message: Message) -> ErrorGroup:
    """Return an error group of one message."""
    errors = error_groups.Errors()
    message.outcome = "error"
    errors.add(message)
    noted = error_groups.Errors()
    noted.merge(errors)
    error_groups.write(noted)
    return ErrorGroup.objects.get()


def _connection(rows: Rows) -> None:
    rows.client, _ = create_client(
        metadata_of({"client_name": "c", "redirect_uris": ["https://a.example/"]}), actor=None
    )
    rows.connection = Connection.objects.create(
        user=rows.root,
        client=rows.client,
        resource="https://mcp.example/mcp",
        scope="mcp",
        redirect_uri="https://a.example/",
        ends_at=timezone.now() + timedelta(days=1),
    )


def _made(echo: Tool) -> dict[str, Any]:
    """Return the arguments of the services that create an entry of each kind."""
    return {
        "tool": {"name": "shout", "preset_of": echo, "fixed_arguments": {"text": "HI"}},
        "prompt": {"name": "hello", "template": "Hello"},
        "resource": {"uri": "notes://a", "name": "A", "text": "x"},
    }


SAVE: dict[str, Any] = {"tool": save_tool_preset, "prompt": save_prompt, "resource": save_resource}


def _entries(rows: Rows) -> None:
    for kind, values in _made(rows.seed.echo).items():
        rows.entry[kind] = SAVE[kind](actor=None, **values)
        rows.change[kind] = CatalogueChange.objects.latest("id")
        SAVE[kind](actor=None, entry=rows.entry[kind], title="Later")
        key = "uri" if kind == "resource" else "name"
        rows.off[kind] = SAVE[kind](actor=None, **{**values, key: f"{values[key]}-off", "enabled": False})
        brief = SAVE[kind](actor=None, **{**values, key: f"{values[key]}-gone"})
        brief.delete()
        made = CatalogueChange.objects.latest("id")
        rows.gone[kind] = _change(kind, made.key, made.after, None)
    template = rows.entry["resourcetemplate"] = rows.seed.template
    rows.off["resourcetemplate"] = ResourceTemplate.objects.create(
        uri_template="demo://off/{name}", name="off", source="code", enabled=False
    )
    state = {"source": "code", "title": "Before", "enabled": True}
    rows.change["resourcetemplate"] = _change("template", template.uri_template, None, state, template.pk)
    rows.gone["resourcetemplate"] = _change("template", "demo://gone/{name}", state, None)
    for kind, model in MODELS.items():
        model.objects.filter(pk=rows.entry[kind].pk).update(definition_hash="now", reviewed_hash="then")


def _change(kind: str, key: str, before: Any, after: Any, pk: int | None = None) -> CatalogueChange:
    action = "deleted" if after is None else "changed"
    return CatalogueChange.objects.create(
        revision=900, kind=kind, key=key, entry_id=pk, action=action, before=before, after=after
    )


def _drafts(rows: Rows) -> None:
    for kind in KINDS:
        rows.draft[kind] = save_draft(kind=MODELS[kind], actor=None, entry=rows.off[kind], title="Drafted")
    for kind, values in _made(rows.seed.echo).items():
        key = "uri" if kind == "resource" else "name"
        new = {**values, key: f"{values[key]}-new"}
        rows.draft[f"new-{kind}"] = save_draft(kind=MODELS[kind], actor=None, **new)


def _runs(rows: Rows) -> None:
    asked = {
        "tool": ("tools/call", {"name": rows.entry["tool"].name, "arguments": {}}),
        "prompt": ("prompts/get", {"name": rows.entry["prompt"].name, "arguments": {}}),
        "resource": ("resources/read", {"uri": rows.entry["resource"].uri}),
        "resourcetemplate": ("resources/read", {"uri": "demo://greeting/ada"}),
    }
    for number, (kind, (method, params)) in enumerate(asked.items(), 500):
        payload = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        rows.run[kind] = call(rows.seed.session, number, method=method, payload=payload)


assert set(SAVE) == set(OWN)
