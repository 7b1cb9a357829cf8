"""The survey lists all operations of large documents with sizes and problems (INT-21, INT-29)."""

from __future__ import annotations

import pytest

from mcp_app.catalogue.sources.http.openapi.convert import Converter
from mcp_app.catalogue.sources.http.openapi.survey import proposed, survey
from tests.unit.catalogue.sources.http.openapi.documents import document, many


@pytest.mark.requirement("INT-20", "INT-21")
def test_thousand_operations_are_surveyed_and_converted() -> None:
    made = Converter(many(1_000), prefix="big")
    seen: list[tuple[int, int]] = []
    found = survey(made, lambda done, total: seen.append((done, total)))
    assert len(found) == 1_000
    assert not [each.refused for each in found if each.refused]
    assert seen == [(number, 1_000) for number in range(0, 1_000, 100)]
    assert proposed(found) == []
    tools = [made.tool(each.key) for each in found[:100]]
    assert [tool.size for tool in tools] == [each.size for each in found[:100]]
    assert all(set(tool.input_schema["$defs"]) == {f"Part{number}"} for number, tool in enumerate(tools))


@pytest.mark.requirement("INT-20")
def test_one_bad_operation_never_stops_the_survey() -> None:
    paths = {
        "/good": {"get": {"operationId": "same", "tags": ["a", "a", 7], "summary": " Two\nlines "}},
        "/bad": {
            "get": {"operationId": "same", "parameters": [{"$ref": "#/no"}]},
            "put": {"deprecated": True},
        },
        "/off": {"post": {"x-speakeasy-mcp": {"disabled": True}}},
    }
    found = {each.key: each for each in survey(Converter(document(paths)))}
    assert "leads nowhere (#/paths/~1bad/get/parameters/0)" in found["GET /bad"].refused
    assert found["GET /bad"].size == 0
    assert found["GET /good"].notes == ("Another operation has the id 'same' as well",)
    assert found["GET /good"].summary == "Two lines"
    assert found["GET /good"].tokens > 0
    assert proposed(list(found.values())) == ["GET /good"]


def test_recursive_arguments_are_marked() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}}
    found = Converter(
        document({"/x": {"post": {"requestBody": body}}}, components={"schemas": {"Node": node}})
    )
    assert survey(found)[0].recursive
