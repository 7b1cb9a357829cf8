"""The survey lists all operations of large documents with sizes and problems (INT-21, INT-29)."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any, Final

import pytest

from mcp_app.catalogue.sources.http.openapi.convert import Converter
from mcp_app.catalogue.sources.http.openapi.external import joined, wanted
from mcp_app.catalogue.sources.http.openapi.names import argument_names, digits
from mcp_app.catalogue.sources.http.openapi.reading import read
from mcp_app.catalogue.sources.http.openapi.schemas import Converted, Schemas
from mcp_app.catalogue.sources.http.openapi.servers import origin_of, servers_of
from mcp_app.catalogue.sources.http.openapi.survey import survey
from tests.unit.catalogue.sources.http.openapi.documents import ADDRESS, document, json_body, many, swagger

# For a document of 0.4 MB.
MOST_MEMORY: Final = 16 * 1024 * 1024


@pytest.mark.requirement("INT-20", "INT-21")
def test_thousand_operations_are_surveyed_and_converted() -> None:
    made = Converter(many(1_000), prefix="big")
    seen: list[tuple[int, int]] = []
    found = survey(made, lambda done, total: seen.append((done, total)))
    assert len(found) == 1_000
    assert not [each.refused for each in found if each.refused]
    assert seen == [(number, 1_000) for number in range(0, 1_000, 100)]
    tools = [made.tool(each.key) for each in found[:100]]
    assert [tool.size for tool in tools] == [each.size for each in found[:100]]
    assert all(set(tool.input_schema["$defs"]) == {f"Part{number}"} for number, tool in enumerate(tools))


@pytest.mark.requirement("INT-21")
def test_survey_and_conversion_take_bounded_memory() -> None:
    data = json.dumps(many(1_000).root).encode()
    tracemalloc.start()
    try:
        made = Converter(read(data), prefix="big")
        for each in survey(made)[:100]:
            made.tool(each.key)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY


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


def test_recursive_arguments_are_marked() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}}
    found = Converter(
        document({"/x": {"post": {"requestBody": body}}}, components={"schemas": {"Node": node}})
    )
    assert survey(found)[0].recursive


@pytest.mark.requirement("INT-20")
@pytest.mark.parametrize(
    "members",
    [
        {"operationId": {}},
        {"operationId": []},
        {"parameters": [{"name": "x", "in": {}}]},
        {"parameters": [{"name": "x", "in": []}]},
        {"parameters": [{"$ref": f"#/paths/~1x/get/parameters/{'1' * 5_000}"}]},
        {"parameters": [{"$ref": "https://[/x.json"}]},
        {"parameters": [{"$ref": "https://docs.example.com:99999/x.json"}]},
        {"servers": [{"url": "https://["}]},
        {"servers": [{"url": "https://{x}", "variables": {"x": {"default": "[]"}}}]},
    ],
)
def test_malformed_operation_is_reported(members: dict[str, Any]) -> None:
    found = document({"/x": {"get": members}, "/y": {"get": {}}})
    assert wanted(found) == []
    assert (
        joined(found, {"https://docs.example.com/specs/other.json": {}}).places.keys() == found.places.keys()
    )
    assert [each.key for each in survey(Converter(found))] == ["GET /x", "GET /y"]


@pytest.mark.requirement("INT-20")
@pytest.mark.parametrize("address", ["https://[", "https://a:b", "[1]", "//"])
def test_malformed_server_is_reported(address: str) -> None:
    for found in (document(servers=[{"url": address}]), swagger({"/x": {"get": {}}}, basePath=[address])):
        assert [each.key for each in survey(Converter(found))] == ["GET /x"]
        assert [each.origin for each in servers_of(found) if not each.problem] in ([], [origin_of(ADDRESS)])


@pytest.mark.requirement("INT-24")
def test_argument_gets_a_name_if_all_its_usual_names_are_taken() -> None:
    taken = ["a_b", "a_b__query", f"a_b__query_{digits('a b')}", "a b"]
    names = argument_names([(name, "query") for name in taken])
    assert names == [*taken[:3], f"a_b__query_{digits('a b')}_2"]


class CountingSchemas(Schemas):
    """Schemas that count how often a component is read."""

    reads = 0

    def component(self, pointer: str) -> Converted:
        self.reads += 1
        return super().component(pointer)


@pytest.mark.requirement("INT-21")
def test_component_is_examined_for_recursion_once_for_all_operations() -> None:
    number, operations = 30, 20
    schemas = {
        f"C{each}": {
            "properties": {"next": {"$ref": f"#/components/schemas/C{each + 1}"}} if each < number - 1 else {}
        }
        for each in range(number)
    }
    body = {"requestBody": json_body({"properties": {"a": {"$ref": "#/components/schemas/C0"}}})}
    paths = {f"/x/{each}": {"post": body} for each in range(operations)}
    made = Converter(document(paths, components={"schemas": schemas}))
    made.schemas = counting = CountingSchemas(made.document)
    survey(made)
    counting.reads = 0
    survey(made)
    assert counting.reads == number * operations
