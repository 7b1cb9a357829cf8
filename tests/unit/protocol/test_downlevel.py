from __future__ import annotations

import copy
from typing import Any

import pytest

from mcp_app.protocol import downlevel
from mcp_app.protocol.versions import LEGACY, V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25
from tests.samples import published_schema
from tests.samples.published_schema import problems

ICONS = [{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}]
ANNOTATIONS = {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"}
EXTRAS = {"title": "Title", "_meta": {"example.com/x": 1}, "icons": ICONS}
TOOL = {
    "name": "t",
    "description": "d",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}, "$defs": {}, "allOf": []},
    "outputSchema": {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
    "annotations": {"title": "T", "readOnlyHint": True, "destructiveHint": False},
    "execution": {"taskSupport": "optional"},
    **EXTRAS,
}
PROMPT = {
    "name": "p",
    "description": "d",
    "arguments": [{"name": "a", "description": "d", "required": True, "title": "A"}],
    **EXTRAS,
}
RESOURCE = {
    "uri": "a:b",
    "name": "r",
    "description": "d",
    "mimeType": "text/plain",
    "size": 3,
    "annotations": ANNOTATIONS,
    **EXTRAS,
}
TEMPLATE = {
    "uriTemplate": "a:{b}",
    "name": "r",
    "description": "d",
    "mimeType": "text/plain",
    "annotations": ANNOTATIONS,
    **EXTRAS,
}
DEFINITIONS = [
    ("tool", "Tool", TOOL),
    ("prompt", "Prompt", PROMPT),
    ("resource", "Resource", RESOURCE),
    ("template", "ResourceTemplate", TEMPLATE),
]
CONTENTS = {"uri": "a:b", "mimeType": "text/plain", "text": "x", "_meta": {"example.com/x": 1}}
COMMON = {"annotations": ANNOTATIONS, "_meta": {"example.com/x": 1}}
BLOCKS = [
    {"type": "text", "text": "x", **COMMON},
    {"type": "image", "data": "AAAA", "mimeType": "image/png", **COMMON},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", **COMMON},
    {"type": "resource", "resource": CONTENTS, **COMMON},
    {"type": "resource_link", "uri": "a:b", "name": "r", "size": 1, "description": "d", **COMMON, **EXTRAS},
]
BLOCK_NAMES = {
    "text": "TextContent",
    "image": "ImageContent",
    "audio": "AudioContent",
    "resource": "EmbeddedResource",
    "resource_link": "ResourceLink",
}
CALL_RESULT = {
    "content": BLOCKS,
    "structuredContent": {"b": 1},
    "isError": False,
    "_meta": {"example.com/x": 1},
}
VERSIONS = pytest.mark.parametrize("version", LEGACY)


def test_schema_validator_reports_problems() -> None:
    assert problems(V2024_11_05, "Tool", {"name": 1, "inputSchema": {"type": "object"}})
    assert problems(V2025_11_25, "Tool", {"name": "t"})
    assert problems(V2024_11_05, "Tool", {"name": "t", "inputSchema": {"type": "object"}, "title": "x"})


@pytest.mark.requirement("GEN-01", "TOOL-02", "PROMPT-01", "RES-01", "TPL-01", "ICON-01")
@VERSIONS
@pytest.mark.parametrize(("kind", "name", "wire"), DEFINITIONS)
def test_definitions_have_only_published_members(
    version: str, kind: str, name: str, wire: dict[str, Any]
) -> None:
    before = copy.deepcopy(wire)
    cut = downlevel.definition(kind, wire, version)
    assert problems(version, name, cut) == []
    assert wire == before
    published = published_schema.definition(version, name)["properties"]
    assert cut is not None
    assert cut.keys() == wire.keys() & published.keys()


@pytest.mark.requirement("GEN-01")
@pytest.mark.parametrize(("kind", "name", "wire"), DEFINITIONS)
def test_newest_revision_gets_whole_definition(kind: str, name: str, wire: dict[str, Any]) -> None:
    assert downlevel.definition(kind, wire, V2025_11_25) == wire


@VERSIONS
def test_prompt_argument_titles_follow_schema(version: str) -> None:
    cut = downlevel.definition("prompt", PROMPT, version)
    assert cut is not None
    assert problems(version, "PromptArgument", cut["arguments"][0]) == []


@pytest.mark.requirement("ANN-01", "TOOL-15")
@VERSIONS
def test_annotation_dates_follow_revision(version: str) -> None:
    cut = downlevel.definition("resource", RESOURCE, version)
    assert cut is not None
    assert ("lastModified" in cut["annotations"]) is (version >= V2025_06_18)
    assert cut["annotations"]["priority"] == 0.5


@pytest.mark.requirement("TOOL-18")
@VERSIONS
@pytest.mark.parametrize("schema", [{"type": "array"}, {"anyOf": []}, {"type": ["object", "null"]}])
def test_non_object_output_schema_is_omitted(version: str, schema: dict[str, Any]) -> None:
    cut = downlevel.definition("tool", {**TOOL, "outputSchema": schema}, version)
    assert cut is not None
    assert "outputSchema" not in cut


@pytest.mark.requirement("SCHEMA-02")
@VERSIONS
def test_input_schema_keeps_every_keyword(version: str) -> None:
    cut = downlevel.definition("tool", TOOL, version)
    assert cut is not None
    assert cut["inputSchema"] == TOOL["inputSchema"]


@pytest.mark.requirement("TASK4-02", "TASKX-24")
@VERSIONS
def test_task_support_is_listed_in_2025_11_25_only(version: str) -> None:
    tool = {**TOOL, "execution": {"taskSupport": "required"}}
    (listed,) = downlevel.result("tools/list", {"tools": [tool]}, version)["tools"]
    assert listed.get("execution") == (tool["execution"] if version == V2025_11_25 else None)


@pytest.mark.requirement("GEN-01")
@VERSIONS
@pytest.mark.parametrize(
    ("method", "name", "result"),
    [
        ("tools/list", "ListToolsResult", {"tools": [TOOL], "nextCursor": "x"}),
        ("prompts/list", "ListPromptsResult", {"prompts": [PROMPT]}),
        ("resources/list", "ListResourcesResult", {"resources": [RESOURCE]}),
        ("resources/templates/list", "ListResourceTemplatesResult", {"resourceTemplates": [TEMPLATE]}),
        ("tools/call", "CallToolResult", CALL_RESULT),
        ("tools/call", "CallToolResult", {"content": []}),
        (
            "prompts/get",
            "GetPromptResult",
            {"description": "d", "messages": [{"role": "user", "content": block} for block in BLOCKS]},
        ),
        ("resources/read", "ReadResourceResult", {"contents": [CONTENTS, {"uri": "a:b", "blob": "AAAA"}]}),
        (
            "completion/complete",
            "CompleteResult",
            {"completion": {"values": ["a"], "total": 1, "hasMore": False}},
        ),
        ("ping", "EmptyResult", {}),
    ],
)
def test_results_have_only_published_members(
    version: str, method: str, name: str, result: dict[str, Any]
) -> None:
    before = copy.deepcopy(result)
    cut = downlevel.result(method, result, version)
    assert problems(version, name, cut) == []
    assert result == before
    if version == V2025_11_25:
        assert cut == result


@pytest.mark.requirement("TOOL-13", "GEN-01")
@VERSIONS
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block["type"])
def test_content_blocks_have_only_published_members(version: str, block: dict[str, Any]) -> None:
    cut = downlevel.block(block, version)
    assert problems(version, BLOCK_NAMES[cut["type"]], cut) == []
    assert ("lastModified" in cut.get("annotations", {})) is (version >= V2025_06_18)
    if cut["type"] == "resource":
        assert ("_meta" in cut["resource"]) is (version >= V2025_06_18)


@pytest.mark.requirement("TOOL-14")
@pytest.mark.parametrize(
    ("index", "version", "kind", "words"),
    [
        (2, V2024_11_05, "text", "audio/wav"),
        (2, V2025_03_26, "audio", ""),
        (4, V2024_11_05, "text", "Title: a:b"),
        (4, V2025_03_26, "text", "Title: a:b"),
        (4, V2025_06_18, "resource_link", ""),
    ],
)
def test_unsupported_content_blocks_become_text(index: int, version: str, kind: str, words: str) -> None:
    cut = downlevel.block(BLOCKS[index], version)
    assert cut["type"] == kind
    assert words in cut.get("text", "")


@pytest.mark.requirement("TOOL-18")
@VERSIONS
@pytest.mark.parametrize("value", [{"b": 1}, [1], 1, None])
def test_structured_content_is_sent_only_as_object(version: str, value: Any) -> None:
    cut = downlevel.result("tools/call", {"content": [], "structuredContent": value}, version)
    assert ("structuredContent" in cut) is (version >= V2025_06_18 and isinstance(value, dict))


@pytest.mark.requirement("LIFE-02", "GEN-01")
@VERSIONS
def test_initialize_result_matches_revision(version: str) -> None:
    info = {
        "name": "n",
        "version": "1",
        "title": "T",
        "description": "d",
        "icons": ICONS,
        "websiteUrl": "https://a",
    }
    capabilities = {"tools": {}, "completions": {}, "tasks": {}}
    result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
    cut = downlevel.result("initialize", result, version)
    assert problems(version, "InitializeResult", cut) == []
    assert problems(version, "Implementation", cut["serverInfo"]) == []
    assert problems(version, "ServerCapabilities", cut["capabilities"]) == []


def notification(method: str, params: dict[str, Any], version: str) -> dict[str, Any]:
    envelope = {"jsonrpc": "2.0"} if version >= V2025_11_25 else {}
    return {**envelope, "method": method, "params": params}


@pytest.mark.requirement("PROG-01", "GEN-01")
@VERSIONS
def test_progress_message_follows_revision(version: str) -> None:
    params = {"progressToken": 1, "progress": 0.5, "total": 1, "message": "m"}
    cut = downlevel.message("notifications/progress", params, version)
    assert cut is not None
    sent = notification("notifications/progress", cut, version)
    assert problems(version, "ProgressNotification", sent) == []
    assert ("message" in cut) is (version >= V2025_03_26)


@VERSIONS
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/message", {"level": "info", "data": 1}),
        ("notifications/cancelled", {"requestId": 1}),
        ("notifications/resources/updated", {"uri": "a:b"}),
        ("notifications/tools/list_changed", {}),
        ("roots/list", {}),
        ("ping", {}),
    ],
)
def test_other_messages_are_unchanged_in_every_revision(
    version: str, method: str, params: dict[str, Any]
) -> None:
    assert downlevel.message(method, params, version) == params


TITLED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
FORM = {
    "mode": "form",
    "message": "m",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "x", "title": "N", "maxLength": 5},
            "age": {"type": "integer", "default": 1, "minimum": 0},
            "sure": {"type": "boolean", "default": True},
            "plain": {"type": "string", "enum": ["r"], "default": "r"},
            "legacy": {"type": "string", "enum": ["r"], "enumNames": ["Red"]},
            "titled": {"type": "string", "oneOf": TITLED, "default": "r"},
        },
        "required": ["name"],
    },
}
MANY = {"type": "array", "items": {"type": "string", "enum": ["r"]}}
URL = {"mode": "url", "message": "m", "url": "https://example.com/", "elicitationId": "1"}


@pytest.mark.requirement("ELI-01", "ELI-04", "GEN-01")
def test_form_for_older_client_is_reduced_to_its_schema() -> None:
    before = copy.deepcopy(FORM)
    cut = downlevel.message("elicitation/create", FORM, V2025_06_18)
    assert cut is not None
    assert before == FORM
    assert problems(V2025_06_18, "ElicitRequest", {"method": "elicitation/create", "params": cut}) == []
    names = {"name": "StringSchema", "age": "NumberSchema", "sure": "BooleanSchema"}
    for name, member in cut["requestedSchema"]["properties"].items():
        assert problems(V2025_06_18, names.get(name, "EnumSchema"), member) == []
    titled = cut["requestedSchema"]["properties"]["titled"]
    assert titled == {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}
    assert cut["requestedSchema"]["properties"]["sure"]["default"] is True
    assert "mode" not in cut


@pytest.mark.requirement("ELI-01", "ELI-07")
@pytest.mark.parametrize("params", [FORM, URL])
def test_newest_revision_gets_elicitation_unchanged(params: dict[str, Any]) -> None:
    assert downlevel.message("elicitation/create", params, V2025_11_25) is params
    assert problems(V2025_11_25, "ElicitRequestParams", params) == []


SAMPLE = {"maxTokens": 5, "messages": [{"role": "user", "content": BLOCKS[:3]}], "temperature": 0.5}
TOOL_USE = {"type": "tool_use", "id": "1", "name": "t", "input": {}}


@pytest.mark.requirement("SAMP-01", "GEN-01")
@VERSIONS
def test_sampling_request_matches_revision(version: str) -> None:
    cut = downlevel.message("sampling/createMessage", SAMPLE, version)
    assert cut is not None
    envelope = {"jsonrpc": "2.0", "id": 1} if version >= V2025_11_25 else {}
    request = {**envelope, "method": "sampling/createMessage", "params": cut}
    assert problems(version, "CreateMessageRequest", request) == []
    if version < V2025_11_25:
        assert [message["role"] for message in cut["messages"]] == ["user"] * 3
        for message in cut["messages"]:
            assert problems(version, "SamplingMessage", message) == []


@pytest.mark.requirement("ELI-09")
@pytest.mark.parametrize(
    ("method", "params", "sent"),
    [
        ("notifications/elicitation/complete", {"elicitationId": "1"}, None),
        ("notifications/tasks/status", {}, None),
        ("elicitation/create", {"mode": "url", "elicitationId": "1"}, {"mode": "url"}),
        ("notifications/progress", {"progress": 1}, {"progress": 1}),
    ],
)
def test_handshake_era_features_are_dropped_for_2026_07_28(
    method: str, params: dict[str, Any], sent: dict[str, Any] | None
) -> None:
    assert downlevel.message(method, params, "2026-07-28") == sent


@pytest.mark.requirement("ELI-02", "ELI-04", "ELI-07", "SAMP-02", "CAP-02", "VER-10")
@pytest.mark.parametrize(
    ("method", "params", "version", "reason"),
    [
        ("elicitation/create", FORM, V2025_03_26, "does not exist"),
        ("elicitation/create", FORM, V2024_11_05, "does not exist"),
        ("elicitation/create", URL, V2025_06_18, "open a URL"),
        (
            "elicitation/create",
            {"message": "m", "requestedSchema": {"type": "object", "properties": {"many": MANY}}},
            V2025_06_18,
            "choice of several",
        ),
        ("notifications/elicitation/complete", {"elicitationId": "1"}, V2025_06_18, "does not exist"),
        ("notifications/tasks/status", {}, V2025_06_18, "does not exist"),
        ("sampling/createMessage", {**SAMPLE, "tools": []}, V2025_06_18, "sample with tools"),
        ("sampling/createMessage", {**SAMPLE, "toolChoice": {}}, V2024_11_05, "sample with tools"),
        (
            "sampling/createMessage",
            {"maxTokens": 1, "messages": [{"role": "assistant", "content": TOOL_USE}]},
            V2025_06_18,
            "sample with tools",
        ),
    ],
)
def test_unsupported_message_is_dropped_with_reason(
    method: str, params: dict[str, Any], version: str, reason: str
) -> None:
    assert downlevel.message(method, params, version) is None
    assert reason in downlevel.why_not(method, params, version)
    assert downlevel.message(method, params, V2025_11_25) is params
