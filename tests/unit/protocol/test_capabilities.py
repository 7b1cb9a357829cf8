from __future__ import annotations

from typing import Any

import pytest

from mcp_app.protocol.capabilities import (
    MAX_EXTENSIONS,
    MAX_SETTINGS_BYTES,
    ClientCapabilities,
    declared_extensions,
    declares,
    known,
    server_capabilities,
)
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.versions import (
    LEGACY,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
)
from tests.samples.published_schema import problems

NOTHING = dict.fromkeys(
    ("tools", "prompts", "resources", "subscribe", "completions", "logging", "list_changed"), False
)


@pytest.mark.requirement("CAP-01", "CAP-06")
@pytest.mark.parametrize(
    ("offered", "declared"),
    [
        ({}, {}),
        ({"tools": True}, {"tools": {}}),
        ({"tools": True, "list_changed": True}, {"tools": {"listChanged": True}}),
        ({"resources": True, "subscribe": True}, {"resources": {"subscribe": True}}),
        ({"subscribe": True}, {}),
        (
            {"prompts": True, "logging": True, "completions": True},
            {"prompts": {}, "logging": {}, "completions": {}},
        ),
    ],
)
def test_server_capabilities_match_offered_features(
    offered: dict[str, bool], declared: dict[str, Any]
) -> None:
    assert server_capabilities(V2025_11_25, **{**NOTHING, **offered}) == declared


@pytest.mark.requirement("COMP-01", "CAP-01")
@pytest.mark.parametrize("version", LEGACY)
def test_server_capabilities_match_published_schema(version: str) -> None:
    declared = server_capabilities(version, **dict.fromkeys(NOTHING, True))
    assert problems(version, "ServerCapabilities", declared) == []
    assert ("completions" in declared) is (version != V2024_11_05)


@pytest.mark.requirement("CAP-02", "ELI-02")
@pytest.mark.parametrize(
    ("declared", "fields"),
    [
        ({}, set()),
        ({"tools": {}, "x": 1}, set()),
        ({"roots": {"listChanged": True}}, {"roots"}),
        ({"roots": None}, set()),
        ({"sampling": {}}, {"sampling"}),
        ({"sampling": {"tools": {}}}, {"sampling", "sampling_tools"}),
        ({"sampling": {"context": {}}}, {"sampling", "sampling_context"}),
        ({"elicitation": {}}, {"elicitation_form"}),
        ({"elicitation": {"form": {}}}, {"elicitation_form"}),
        ({"elicitation": {"url": {}}}, {"elicitation_url"}),
        ({"elicitation": {"form": {}, "url": {}}}, {"elicitation_form", "elicitation_url"}),
    ],
)
def test_client_capabilities_are_parsed(declared: dict[str, Any], fields: set[str]) -> None:
    assert ClientCapabilities.parse(declared) == ClientCapabilities(**dict.fromkeys(fields, True))


@pytest.mark.requirement("VER-10")
@pytest.mark.parametrize(
    ("version", "fields"),
    [
        (V2024_11_05, {"sampling", "sampling_context"}),
        (V2025_03_26, {"sampling", "sampling_context"}),
        (V2025_06_18, {"sampling", "sampling_context", "elicitation_form"}),
        (V2025_11_25, {"sampling", "sampling_tools", "elicitation_url"}),
    ],
)
def test_capabilities_unknown_to_revision_are_dropped(version: str, fields: set[str]) -> None:
    declared = {"sampling": {"tools": {}}, "elicitation": {"url": {}}}
    assert ClientCapabilities.parse(declared, version) == ClientCapabilities(**dict.fromkeys(fields, True))


@pytest.mark.parametrize(
    "declared",
    [
        None,
        [],
        "x",
        {"roots": True},
        {"sampling": []},
        {"sampling": {"tools": 1}},
        {"elicitation": {"url": 1}},
    ],
)
def test_capabilities_of_wrong_type_are_rejected(declared: Any) -> None:
    with pytest.raises(InvalidParams, match="must be an object"):
        ClientCapabilities.parse(declared)


UI = "io.modelcontextprotocol/ui"
PAGES = {"mimeTypes": ["text/html;profile=mcp-app"]}
ODD = {"nested": {"enabled": False, "limit": 0}, "values": ["a", 2, None]}


@pytest.mark.requirement("CAP-05", "DLG-000-12")
@pytest.mark.parametrize(
    ("capabilities", "older", "newest"),
    [
        ({"extensions": {UI: PAGES, "a/b": ODD}}, {UI: PAGES, "a/b": ODD}, {UI: PAGES, "a/b": ODD}),
        ({"experimental": {UI: PAGES}}, {UI: PAGES}, {}),
        ({"extensions": {"a/b": {}}, "experimental": {UI: PAGES}}, {"a/b": {}, UI: PAGES}, {"a/b": {}}),
        # One id in both members: the value in `extensions` replaces the other.
        ({"extensions": {UI: {}}, "experimental": {UI: PAGES}}, {UI: {}}, {UI: {}}),
        ({"extensions": {UI: PAGES}, "experimental": {UI: {"x": 1}}}, {UI: PAGES}, {UI: PAGES}),
        # A value other than an object declares nothing.
        ({"extensions": {UI: None}, "experimental": {UI: PAGES}}, {UI: PAGES}, {}),
        ({"extensions": [UI], "experimental": None}, {}, {}),
        ({"extensions": {UI: True, "a" * 129: {}}}, {}, {}),
    ],
)
def test_extensions_are_read_with_settings_per_revision(
    capabilities: dict[str, Any], older: dict[str, Any], newest: dict[str, Any]
) -> None:
    kept = known(capabilities)
    for version, declared in [*dict.fromkeys(LEGACY, older).items(), (V2026_07_28, newest)]:
        assert declared_extensions(kept, version) == declared
        for extension in (UI, "a/b"):
            assert declares(kept, extension, version) is (extension in declared)


def test_extension_settings_are_bounded() -> None:
    large = {"x": "y" * MAX_SETTINGS_BYTES}
    half = {"x": "y" * (MAX_SETTINGS_BYTES // 2)}
    declared = {"a/large": large, "a/one": half, "a/two": half, "a/small": PAGES}
    kept = {"a/large": {}, "a/one": half, "a/two": {}, "a/small": PAGES}
    assert known({"extensions": declared, "experimental": declared}) == {
        "extensions": kept,
        "experimental": kept,
    }
    many = {f"a/{number}": {} for number in range(MAX_EXTENSIONS + 5)}
    assert len(known({"extensions": many})["extensions"]) == MAX_EXTENSIONS
