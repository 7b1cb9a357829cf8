"""Data of the page on which operations of a document are chosen."""

from __future__ import annotations

import json
from typing import Any, Final

from django.http import HttpRequest

from mcp_app.admin.documents.forms import OWN_SERVER, read_selection, values_of
from mcp_app.catalogue.documents import storing
from mcp_app.catalogue.documents.importing import waiting_drafts_of
from mcp_app.catalogue.documents.packing import unpacked_survey
from mcp_app.catalogue.documents.tools import drafts_of, tools_of
from mcp_app.catalogue.schemas.client_rules import RULES
from mcp_app.catalogue.sources.http.openapi.servers import Server, origin_of, servers_of
from mcp_app.catalogue.sources.http.openapi.survey import FEW, MANY_TOKENS, SurveyedOperation
from mcp_app.credentials.services import USE
from mcp_app.interface.text import marked
from mcp_app.models import ApiDocument, Credential

_RECURSION: Final = next(rule for rule in RULES if rule.id == "recursion")


def context_of(request: HttpRequest, row: ApiDocument) -> dict[str, Any]:
    """Return the template context of a document's page. A refused form keeps its values."""
    context: dict[str, Any] = {"row": row, "few": FEW, "tools": tools_of(row)}
    context["waiting"] = len(waiting_drafts_of(row, request.user))
    if row.content is None:
        return context
    document = storing.document_of(row)
    servers = servers_of(document)
    urls = [each.url for each in servers]
    chosen = row.server or next((each.url for each in servers if not each.problem), "")
    own = chosen if chosen not in urls else ""
    picked, credentials = OWN_SERVER if own or not chosen else chosen, row.credentials
    entered: dict[str, Any] = {}
    if request.method == "POST":
        picked, own = request.POST.get("server", picked), request.POST.get("own_server", own)
        credentials = chosen_credentials(request)
        selection = read_selection(request.POST.get("selection", "")) or {}
        entered = {"selection": json.dumps(selection), "plain_http": "plain_http" in request.POST}
        entered["content_types"] = json.dumps(read_selection(request.POST.get("content_types", "")) or {})
    converter = storing.converter_of(row, document)
    used = {name for each in unpacked_survey(row.survey) for name in each.security}
    return {
        **context,
        "servers": [
            {"server": each, "variables": _variables(request, number, each)}
            for number, each in enumerate(servers)
        ],
        "entered": entered,
        "chosen_server": picked,
        "own_server": own,
        "own_value": OWN_SERVER,
        "schemes": [
            {"scheme": scheme, "chosen": credentials.get(name, ""), "used": name in used}
            for name, scheme in converter.schemes.items()
        ],
        "credentials": _credentials(request, origin_of(chosen) if chosen else ""),
    }


def _variables(request: HttpRequest, number: int, server: Server) -> list[dict[str, Any]]:
    """Return the variables of a server with their field names and values."""
    given = values_of(request.POST, number, server)
    return [
        {
            "variable": each,
            "field": f"variable:{number}:{each.name}",
            "value": given.get(each.name) or each.default,
        }
        for each in server.variables
    ]


def operations_of(row: ApiDocument) -> dict[str, Any]:
    """Return the operations for the script of the page, or the progress while the document is read."""
    if row.state == ApiDocument.State.READING:
        return {"state": row.state, "progress": row.progress}
    operations = unpacked_survey(row.survey)
    tools, drafts = tools_of(row), drafts_of(row)
    return {
        "state": row.state,
        "problem": row.problem,
        "few": FEW,
        "many_tokens": MANY_TOKENS,
        "operations": [_shown(each, each.key in tools, each.key in drafts) for each in operations],
    }


def _shown(operation: SurveyedOperation, is_tool: bool, is_draft: bool) -> dict[str, Any]:
    notes = [*operation.notes]
    if operation.recursive:
        notes.append(f"A type contains itself: refused by {_RECURSION.clients}")
    return {
        "key": operation.key,
        "method": operation.method,
        "title": marked(operation.key),
        "path": marked(operation.path),
        "id": marked(operation.operation_id),
        "name": operation.name,
        "tags": [marked(tag) for tag in operation.tags],
        "summary": marked(operation.summary),
        "deprecated": operation.deprecated,
        "body": marked(operation.body),
        "bodies": [[kind, marked(kind)] for kind in operation.bodies],
        "security": [marked(name) for name in operation.security],
        "tokens": operation.tokens,
        "refused": marked(operation.refused),
        "notes": [marked(note) for note in notes],
        "state": "tool" if is_tool else "draft" if is_draft else "",
    }


def chosen(request: HttpRequest, server: str) -> dict[str, Any]:
    """Return the choices to store. Users who may not see credentials leave those of others unchanged."""
    own = {"credentials": chosen_credentials(request)} if request.user.has_perm(USE) else {}
    return {"server": server, **own}


def chosen_credentials(request: HttpRequest) -> dict[str, str]:
    """Return the submitted credentials by security scheme, as far as the user may see them."""
    known = {str(each["name"]) for each in _credentials(request, "")}
    given = {name: str(value) for name, value in request.POST.items() if name.startswith("credential:")}
    return {name.removeprefix("credential:"): value for name, value in given.items() if value in known}


def _credentials(request: HttpRequest, origin: str) -> list[dict[str, Any]]:
    """Return the credentials that the user may see, those for the chosen server first."""
    if not request.user.has_perm(USE):
        return []
    rows = Credential.objects.order_by("name")
    found = [
        {"name": row.name, "kind": row.get_kind_display(), "fits": origin in row.origins} for row in rows
    ]
    return sorted(found, key=lambda each: not each["fits"])
