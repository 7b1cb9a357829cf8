"""References to other documents of the same origin are followed, and no others (INT-23)."""

from __future__ import annotations

import pytest

from mcp_app.catalogue.sources.http.openapi import external
from mcp_app.catalogue.sources.http.openapi.convert import Converter
from mcp_app.catalogue.sources.http.openapi.survey import survey
from tests.unit.catalogue.sources.http.openapi.documents import document, json_body

SHARED = "https://docs.example.com/specs/shared.yaml"
MORE = "https://docs.example.com/more.yaml"


def body(reference: str) -> dict[str, object]:
    return {"post": {"requestBody": json_body({"type": "object", "properties": {"a": {"$ref": reference}}})}}


PATHS = {
    "/near": body("shared.yaml#/Size"),
    "/own": body("#/components/schemas/Own"),
    "/far": body("https://elsewhere.example/x.yaml#/Size"),
    "/file": body("file:///etc/passwd"),
    "/other-port": body("https://docs.example.com:8443/x.yaml"),
}
OWN = {"schemas": {"Own": {"type": "string"}}}


@pytest.mark.requirement("INT-23")
def test_only_documents_of_the_same_origin_are_wanted() -> None:
    assert external.wanted(document(PATHS, components=OWN)) == [SHARED]
    assert external.wanted(document(PATHS, components=OWN, url="")) == []


@pytest.mark.requirement("INT-23")
def test_joined_documents_are_followed_in_both_directions() -> None:
    found = external.joined(
        document(PATHS, components=OWN),
        {SHARED: {"Size": {"type": "object", "properties": {
            "back": {"$ref": "openapi.json#/components/schemas/Own"},
            "self": {"$ref": "#/Deep"}, "more": {"$ref": "../more.yaml#/X"}}}, "Deep": {"type": "integer"}}},
    )  # fmt: skip
    assert external.wanted(found) == [MORE]
    found = external.joined(found, {MORE: {"X": {"type": "boolean"}}})
    made = Converter(found)
    refused = {each.key: each.refused for each in survey(made) if each.refused}
    assert refused.keys() == {"POST /far", "POST /file", "POST /other-port"}
    definitions = made.tool("POST /near").input_schema["$defs"]
    kinds = {each.get("type") for each in definitions.values()}
    assert kinds == {"object", "string", "integer", "boolean"}


def test_endless_references_between_documents_are_refused() -> None:
    found = external.joined(document({"/x": body("shared.yaml#/A")}), {SHARED: {"A": {"$ref": "#/A"}}})
    assert external.wanted(found) == []
    assert "leads nowhere" in survey(Converter(found))[0].refused
