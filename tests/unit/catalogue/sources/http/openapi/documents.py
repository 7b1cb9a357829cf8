"""Small OpenAPI documents for tests."""

from __future__ import annotations

import json
from typing import Any

from mcp_app.catalogue.sources.http.openapi.convert import Converter
from mcp_app.catalogue.sources.http.openapi.reading import Document, read

ADDRESS = "https://docs.example.com/specs/openapi.json"


def document(
    paths: dict[str, Any] | None = None, *, version: str = "3.0.3", url: str = ADDRESS, **members: Any
) -> Document:
    """Return a read document with the given paths and members of the root."""
    root = {
        "openapi": version,
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://api.example.com/v1"}],
        "paths": {"/x": {"get": {}}} if paths is None else paths,
        **members,
    }
    return read(json.dumps(root).encode(), url)


def swagger(paths: dict[str, Any], **members: Any) -> Document:
    """Return a read document of Swagger 2.0."""
    root = {"swagger": "2.0", "host": "api.example.com", "basePath": "/v1", "paths": paths, **members}
    return read(json.dumps(root).encode(), ADDRESS)


def converter(
    operation: dict[str, Any], *, method: str = "post", path: str = "/x", **members: Any
) -> Converter:
    """Return a converter of a document with one operation."""
    return Converter(document({path: {method: operation}}, **members))


def json_body(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """Return a request body of JSON."""
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def many(number: int) -> Document:
    """Return a document with ``number`` operations that share components."""
    paths = {
        f"/things/{each}/{{id}}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "post": {
                "operationId": f"things/update-{each}",
                "tags": [f"tag{each % 20}"],
                "summary": f"Update thing {each}",
                "requestBody": json_body({"$ref": f"#/components/schemas/Thing{each % 100}"}),
            },
        }
        for each in range(number)
    }
    schemas = {
        f"Thing{each}": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "nullable": True},
                "next": {"$ref": f"#/components/schemas/Part{each}"},
            },
        }
        for each in range(100)
    } | {
        f"Part{each}": {"type": "object", "properties": {"size": {"type": "integer"}}} for each in range(100)
    }
    return document(paths, components={"schemas": schemas})
