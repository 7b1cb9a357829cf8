"""Tools of a document: their values, and the parts that show a change of the document.

The request of an imported tool has the document's name, and a digest of each part as the document had it. A
part that differs from its digest was changed by an administrator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from mcp_app.catalogue.definitions.tags import MAX_TAGS, tags_of
from mcp_app.catalogue.sources.http.openapi.convert import ConvertedTool
from mcp_app.models import ApiDocument, Draft, Tool

# The members of a request that an operation determines. Administrators choose the others.
DETERMINED: Final = ("origin", "method", "path", "parameters", "body", "aliases")
TEXTS: Final = ("title", "description")
# Parts whose values from administrators stay when the document changes.
KEPT: Final = (*TEXTS, "tags")
# The note of a draft begins with this and the document's name.
UPDATE_OF: Final = "Update of"
PARTS: Final = (*KEPT, "request", "input_schema", "annotations")


def tools_of(row: ApiDocument) -> dict[str, Tool]:
    """Return the tools imported from a document by operation key."""
    found = Tool.objects.filter(request__document__name=row.name)
    return {str(request_of(tool).get("operation")): tool for tool in found}


def drafts_of(row: ApiDocument) -> dict[str, Draft]:
    """Return the drafts of new tools of a document by operation key."""
    found = Draft.objects.filter(kind=Tool.KIND, entry_id=None, values__request__document__name=row.name)
    return {str(draft.values["request"].get("operation")): draft for draft in found}


def changed_drafts_of(row: ApiDocument) -> dict[str, Draft]:
    """Return the drafts of changes that were accepted from updates of a document, by operation key."""
    tools = {tool.pk: key for key, tool in tools_of(row).items()}
    note = f"{UPDATE_OF} {row.name}: "
    found = Draft.objects.filter(kind=Tool.KIND, entry_id__in=tools, note__startswith=note)
    return {tools[draft.entry_id]: draft for draft in found if draft.entry_id is not None}


def request_of(tool: Tool) -> dict[str, Any]:
    """Return the stored request of a tool."""
    return dict(tool.request or {})


def content_type_of(tool: Tool) -> str:
    """Return the content type of the body that a tool sends, or ""."""
    body = request_of(tool).get("body")
    return str(body.get("content_type", "")) if isinstance(body, dict) else ""


def values_of(row: ApiDocument, tool: ConvertedTool) -> dict[str, Any]:
    """Return the values of the columns of a new tool."""
    return {
        "title": tool.title,
        "description": tool.description,
        "tags": _tags(tool),
        "request": {**tool.request, "document": {"name": row.name, "parts": digests(parts_of(tool))}},
        "input_schema": tool.input_schema,
        "annotations": tool.annotations,
    }


def parts_of(tool: ConvertedTool) -> dict[str, Any]:
    """Return the parts of a converted operation."""
    return {
        "title": tool.title,
        "description": tool.description,
        "tags": _tags(tool),
        "request": determined(tool.request),
        "input_schema": tool.input_schema,
        "annotations": tool.annotations,
    }


def parts_in(tool: Tool) -> dict[str, Any]:
    """Return the parts of a stored tool."""
    return {
        "title": tool.title,
        "description": tool.description,
        "tags": tool.tags,
        "request": determined(request_of(tool)),
        "input_schema": tool.input_schema,
        "annotations": tool.annotations,
    }


def known_digests(tool: Tool) -> dict[str, str]:
    """Return the digests of a tool's parts as the document had them when they were last accepted."""
    document = request_of(tool).get("document")
    parts = document.get("parts") if isinstance(document, dict) else None
    # Earlier versions imported tools without tags.
    return {"tags": digest([]), **parts} if isinstance(parts, dict) else {}


def _tags(tool: ConvertedTool) -> list[str]:
    return tags_of(tool.tags)[:MAX_TAGS]


def determined(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a request that an operation determines."""
    return {name: request[name] for name in DETERMINED if name in request}


def digests(parts: Mapping[str, Any]) -> dict[str, str]:
    """Return a short digest of each part."""
    return {name: digest(value) for name, value in parts.items()}


def digest(value: Any) -> str:
    """Return a short digest of a JSON value, independent of the order of members."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
