"""Schemas of tools as listed and applied, and icons."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_app.catalogue.definitions.decorators import tool
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.schemas import validation
from mcp_app.catalogue.snapshots import snapshot_loader
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.protocol.messages.server import Server
from tests.integration.features.catalogue_app.values import EVERY_KEYWORD, ICON, SEVENTH_DRAFT
from tests.integration.features.conversation import Client


def function(**arguments: Any) -> str:
    return json.dumps(arguments)


@pytest.mark.requirement("SCHEMA-02")
@pytest.mark.parametrize(
    ("name", "schema"), [("every_keyword", EVERY_KEYWORD), ("seventh_draft", SEVENTH_DRAFT)]
)
def test_every_schema_keyword_is_listed_unchanged(name: str, schema: dict[str, Any], client: Client) -> None:
    assert client.entry("tools/list", name)["inputSchema"] == schema


@pytest.mark.requirement("SCHEMA-01", "SCHEMA-02")
@pytest.mark.parametrize(
    ("name", "arguments", "fits"),
    [
        ("every_keyword", {"way": "phone", "phone": "123"}, True),
        ("every_keyword", {"way": "phone", "phone": "12a"}, False),
        ("every_keyword", {"way": "phone", "place": {"city": "Bern"}}, False),
        ("every_keyword", {"way": "post", "place": {"city": "Bern"}}, True),
        ("every_keyword", {"way": "post", "place": {"city": 5}}, False),
        ("every_keyword", {"way": "post", "phone": "123"}, False),
        ("every_keyword", {}, False),
        ("every_keyword", {"phone": "1", "place": {}, "more": 1}, False),
        ("seventh_draft", {"pair": [1, "one"]}, True),
        ("seventh_draft", {"pair": ["one", 1]}, False),
        ("seventh_draft", {"pair": [0, "zero"]}, False),
    ],
)
def test_every_schema_keyword_is_applied_in_its_dialect(
    name: str, arguments: dict[str, Any], fits: bool, client: Client
) -> None:
    said = client.use(name, **arguments)
    if fits:
        assert json.loads(said.text) == arguments
    elif client.version == "2025-11-25":
        assert said.failed
    else:
        assert said.error["code"] == -32602


@pytest.mark.requirement("SCHEMA-01", "SCHEMA-03")
@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "https://example.com/my-dialect", "type": "object"},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}},
        {"type": "object", "properties": {"a": {"type": "text"}}},
        {"type": "object", "properties": []},
    ],
)
def test_schema_with_unknown_dialect_or_external_reference_is_refused(
    schema: dict[str, Any],
) -> None:
    with registry.isolated(), pytest.raises(DefinitionError):
        tool(input_schema=schema)(function)


@pytest.mark.requirement("SCHEMA-05")
def test_validators_are_compiled_once_per_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    with registry.isolated():
        tool(input_schema=EVERY_KEYWORD)(function)
        revision, following = snapshot_loader.from_code(), snapshot_loader.from_code()

    def forbidden(schema: dict[str, Any]) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr(validation, "compile_schema", forbidden)
    everybody, someone = [
        CatalogueView(revision, permissions, Server("tests", "1")).tool("function")
        for permissions in (frozenset[str](), frozenset({"library.burn"}))
    ]
    assert everybody is someone is not None
    for arguments, fits in (({"way": "phone", "phone": "123"}, True), ({}, False)) * 2:
        assert (someone.check(arguments) is None) == fits
    assert following.tools["function"].input is not someone.input


@pytest.mark.requirement("ICON-01")
def test_icons_are_listed_since_2025_11_25(client: Client) -> None:
    icon = {"src": ICON, "mimeType": "image/png", "sizes": ["48x48"]}
    entry = client.entry("tools/list", "dressed")
    assert entry.get("icons") == ([icon] if client.version == "2025-11-25" else None)


@pytest.mark.requirement("ICON-02")
@pytest.mark.parametrize(
    "src",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "ftp://example.com/i.png",
        "ws://example.com/i",
        "i.png",
        "",
    ],
)
def test_icon_with_a_forbidden_scheme_is_refused(src: str) -> None:
    with registry.isolated(), pytest.raises(DefinitionError):
        tool(icons=[{"src": src}])(lambda: "x")
