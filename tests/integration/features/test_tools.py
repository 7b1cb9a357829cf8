"""Listing and calling tools: names, arguments, failures, limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_app.catalogue.snapshots.snapshot import EMPTY
from mcp_app.protocol.messages.names import check_name
from tests.integration.features.catalogue_app.values import SECRET
from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import VERSIONS, Client
from tests.servers.live import LiveServer, eventually
from tests.views import seen


@pytest.mark.requirement("TOOL-01")
@pytest.mark.parametrize("version", VERSIONS)
def test_empty_catalogue_lists_no_tools(version: str) -> None:
    assert seen(EMPTY, frozenset()).page("tools", version) == b'{"tools":[]}'


@pytest.mark.requirement("TOOL-01", "TOOL-02")
def test_tools_are_declared_and_have_name_description_and_schema(client: Client) -> None:
    assert client.server["capabilities"]["tools"] == {"listChanged": True}
    tools = client.listed("tools/list")
    assert {"plain_text", "echo", "measure"} <= {tool["name"] for tool in tools}
    assert all(tool["description"] and tool["inputSchema"]["type"] == "object" for tool in tools)


@pytest.mark.requirement("TOOL-03")
def test_tool_without_parameters_takes_an_empty_closed_object(client: Client) -> None:
    schema = client.entry("tools/list", "plain_text")["inputSchema"]
    assert schema == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.requirement("TOOL-04")
def test_tools_are_listed_in_code_order_by_every_process(server: LiveServer, client: Client) -> None:
    other = client.at_port(server.ports[1])
    lists = [
        [tool["name"] for tool in side.call("tools/list")["result"]["tools"]] for side in [client, other] * 2
    ]
    assert lists[0][:4] == ["plain_text", "plain_text_async", "echo", "measure"]
    assert all(found == lists[0] for found in lists)


@pytest.mark.requirement("TOOL-06")
def test_tool_names_are_unique_and_valid(client: Client) -> None:
    names = [tool["name"] for tool in client.listed("tools/list")]
    assert len(names) == len(set(names))
    assert [check_name(name) for name in names]


@pytest.mark.requirement("TOOL-06", "TOOL-08")
@pytest.mark.parametrize("name", ["Plain_Text", "plain_text ", "nobody", "", "x" * 5000])
def test_unknown_tool_is_an_invalid_params_error_with_its_name(name: str, client: Client) -> None:
    error = client.converse("tools/call", {"name": name, "arguments": {}}).error
    assert error["code"] == -32602
    assert error["message"] == f"Unknown tool: {name[:128]}"
    assert error["data"] == {"kind": "tool_not_found", "name": name[:128], "refusal": "unknown_tool"}


@pytest.mark.requirement("TOOL-07")
@pytest.mark.parametrize("tool", ["plain_text", "plain_text_async"])
def test_missing_arguments_equal_an_empty_object(tool: str, client: Client) -> None:
    assert client.converse("tools/call", {"name": tool}).text == "plain"
    assert client.converse("tools/call", {"name": tool, "arguments": {}}).text == "plain"


def test_arguments_and_defaults_reach_the_function(client: Client) -> None:
    assert json.loads(client.use("measure", size=3).text) == {"size": 3, "unit": "m", "tags": None}
    given = {"size": 10, "unit": "km", "tags": ["a"]}
    assert json.loads(client.use("measure", **given).text) == given


WRONG_ARGUMENTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({}, ("size",)),
    ({"size": "three"}, ("size", "integer", "three")),
    ({"size": 2.5}, ("size", "integer")),
    ({"size": 0}, ("size", "1", "0")),
    ({"size": 11}, ("size", "10", "11")),
    ({"size": 3, "unit": "mile"}, ("unit", "km", "mile")),
    ({"size": 3, "tags": ["a", 5]}, ("tags",)),
    ({"size": 3, "colour": "red"}, ("colour",)),
    ({"size": None}, ("size",)),
]


@pytest.mark.requirement("TOOL-09", "TOOL-10", "TOOL-21")
@pytest.mark.parametrize(("arguments", "words"), WRONG_ARGUMENTS, ids=lambda value: str(value)[:30])
def test_invalid_arguments_report_path_expected_and_actual_value(
    arguments: dict[str, Any], words: tuple[str, ...], client: Client
) -> None:
    said = client.use("measure", **arguments)
    if client.version == "2025-11-25":
        assert said.failed
        text = said.text
    else:
        assert said.error["code"] == -32602
        text = said.error["message"]
    assert all(word in text for word in words), text


@pytest.mark.requirement("TOOL-11")
@pytest.mark.parametrize(
    "params",
    [{}, {"arguments": {}}, {"name": 5}, {"name": None}, {"name": "echo", "arguments": ["hello"]},
     {"name": "echo", "arguments": "hello"}],
)  # fmt: skip
def test_malformed_call_is_an_invalid_params_error_in_every_revision(
    params: dict[str, Any], client: Client
) -> None:
    assert client.converse("tools/call", params).error["code"] == -32602


@pytest.mark.requirement("TOOL-12")
@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("fails_politely", "The printer is out of paper."),
        ("fails_permission", "You may not print."),
        ("fails_validation", "The size is wrong."),
        ("fails_missing", "Group matching query does not exist."),
        ("fails_unexpectedly", "incident"),
        ("fails_unexpectedly_async", "incident"),
        ("fails_to_encode", "cannot be sent"),
    ],
)
def test_failed_tool_returns_an_error_result_without_details(tool: str, words: str, client: Client) -> None:
    said = client.use(tool)
    assert said.failed
    assert words in said.text
    assert not any(
        inner in json.dumps(said.response) for inner in (SECRET, "db.internal", "Traceback", ".py")
    )


@pytest.mark.requirement("TOOL-12")
def test_incident_number_appears_in_the_log(server: LiveServer, client: Client) -> None:
    number = client.use("fails_unexpectedly").text.split("incident ")[1].rstrip(").")
    eventually(lambda: f"Incident {number}" in server.logs())


@pytest.mark.requirement("TOOL-21")
def test_rate_limit_counts_one_caller_across_processes(connect: Connect, keys: dict[str, str]) -> None:
    *mine, last = [connect(token=keys["reader"], process=number % 2) for number in range(4)]
    assert not any(client.use("limited").failed for client in mine)
    with pytest.raises(AssertionError, match="status=429"):
        last.use("limited")
    assert not connect(token=keys["stranger"]).use("limited").failed


@pytest.mark.requirement("TOOL-22")
def test_call_past_its_timeout_is_an_error_result(client: Client) -> None:
    assert client.use("short_deadline", seconds=0).text == "in time"
    late = client.use("short_deadline", seconds=30)
    assert late.failed
    assert "timed out after 0.4 seconds" in late.text


@pytest.mark.requirement("TOOL-24")
@pytest.mark.parametrize("size", [8 * 1024 * 1024 + 1, 50 * 1024 * 1024])
def test_too_large_result_is_an_error_with_its_size(size: int, client: Client) -> None:
    said = client.use("large", size=size)
    assert said.failed
    assert "too large" in said.text
    assert str(size) in said.text


def test_large_result_within_the_limit_arrives_whole(client: Client) -> None:
    assert len(client.use("large", size=4 * 1024 * 1024).text) == 4 * 1024 * 1024


def test_context_describes_the_caller(connect: Connect, keys: dict[str, str]) -> None:
    client = connect(token=keys["reader"], capabilities={"sampling": {}})
    assert client.use("caller").result["structuredContent"] == {
        "request_id": client.next_id,
        "version": "2025-11-25",
        "session": client.session,
        "client": "raw",
        "samples": True,
        "user": "reader",
        "permitted": True,
    }
