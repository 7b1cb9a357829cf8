"""Tool results: content blocks and structured content, in the form of each revision."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import pytest

from tests.conformance.fixture.samples import PIXEL, SILENCE
from tests.integration.features.conversation import Client

MARKS = {"audience": ["user", "assistant"], "priority": 0.5}
CHANGED = {"lastModified": "2025-11-25T12:00:00Z"}


@pytest.mark.requirement("TOOL-13", "TOOL-14", "TOOL-15", "ANN-01", "RES-14")
def test_every_kind_of_block_has_the_form_of_the_revision(client: Client) -> None:
    marks = MARKS if client.version == "2025-03-26" else MARKS | CHANGED
    text, image, audio, inside, inside_bytes, link = client.use("every_block").result["content"]
    assert text == {"type": "text", "text": "words", "annotations": marks}
    assert (image["mimeType"], b64decode(image["data"], validate=True)) == ("image/png", PIXEL)
    assert (audio["mimeType"], b64decode(audio["data"], validate=True)) == ("audio/wav", SILENCE)
    assert inside["resource"] == {"uri": "doc://inside", "mimeType": "text/plain", "text": "inside"}
    assert inside_bytes["resource"]["blob"] == b64encode(b"\x00\xff").decode() == "AP8="
    assert all(block["annotations"] == marks for block in (image, audio, inside))
    if client.version == "2025-03-26":
        assert link == {"type": "text", "text": "A text: doc://text"}
    else:
        assert link == {
            "type": "resource_link", "uri": "doc://text", "name": "text", "title": "A text",
            "description": "Read it.", "mimeType": "text/plain", "size": 4, "annotations": marks,
        }  # fmt: skip


@pytest.mark.requirement("TOOL-13")
def test_result_of_none_has_one_text_block(client: Client) -> None:
    assert client.use("no_content").result == {"content": [{"type": "text", "text": "null"}]}


WEATHER = {"city": "Bern", "degrees": 21.5}
STRUCTURES: list[tuple[str, dict[str, Any], bool]] = [
    ("model_result", WEATHER, True),
    ("dataclass_result", {"x": 1, "y": 2}, True),
    ("typed_dict_result", {"title": "Alpenrose", "seconds": 180}, True),
    ("mapping_result", {"a": 1}, True),
    ("list_result", {"result": [1, 2, 3]}, True),
    ("number_result", {"result": 7}, True),
    ("models_result", {"result": [WEATHER]}, True),
    ("array_schema", {"result": [4, 5]}, True),
    ("unknown_mapping", {"said": False}, False),
]


@pytest.mark.requirement("TOOL-16", "TOOL-17", "TOOL-18")
@pytest.mark.parametrize(("tool", "value", "declared"), STRUCTURES, ids=[name for name, _, _ in STRUCTURES])
def test_structured_result_is_an_object_and_also_text(
    tool: str, value: dict[str, Any], declared: bool, client: Client
) -> None:
    said = client.use(tool)
    assert json.loads(said.text) == value
    entry = client.entry("tools/list", tool)
    if client.version == "2025-03-26":
        assert "structuredContent" not in said.result
        assert "outputSchema" not in entry
    else:
        assert said.result["structuredContent"] == value
        assert ("outputSchema" in entry) == declared
        assert entry.get("outputSchema", {"type": "object"})["type"] == "object"


@pytest.mark.requirement("TOOL-18")
def test_undeclared_list_result_is_text_only(client: Client) -> None:
    said = client.use("unknown_list")
    assert json.loads(said.text) == [1, "two", None]
    assert "structuredContent" not in said.result


@pytest.mark.requirement("TOOL-16")
@pytest.mark.parametrize("tool", ["wrong_structure", "missing_structure"])
def test_structured_content_that_violates_its_schema_is_never_sent(tool: str, client: Client) -> None:
    said = client.use(tool)
    assert said.failed
    assert "output schema" in said.text
    assert "structuredContent" not in said.result


@pytest.mark.requirement("TOOL-16")
def test_failed_tool_needs_no_structured_content(client: Client) -> None:
    said = client.use("failed_structure")
    assert (said.failed, said.text) == (True, "it went wrong")


def test_result_may_have_metadata(client: Client) -> None:
    said = client.use("with_metadata")
    assert said.text == "told"
    assert said.result["_meta"] == {"example.com/trace": "1"}


@pytest.mark.requirement("TOOL-02", "TOOL-19", "TITLE-01", "ICON-01")
def test_tool_is_listed_with_the_members_of_the_revision(client: Client) -> None:
    entry = client.entry("tools/list", "dressed")
    hints = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    since = {
        "title": "2025-06-18",
        "_meta": "2025-06-18",
        "outputSchema": "2025-06-18",
        "icons": "2025-11-25",
    }
    assert entry["annotations"].items() >= hints.items()
    assert {name for name in since if name in entry} == {
        name for name, version in since.items() if version <= str(client.version)
    }
    assert entry.get("title", "A dressed tool") == "A dressed tool"
    assert entry.get("_meta", {}) in ({}, {"example.com/colour": "green"})


@pytest.mark.requirement("TOOL-19")
def test_tool_without_hints_has_no_annotations(client: Client) -> None:
    assert "annotations" not in client.entry("tools/list", "plain_text")
