"""Names fit into 64 characters and depend on the document only (INT-24)."""

from __future__ import annotations

import random
import re

import pytest

from mcp_app.catalogue.sources.http.openapi import names

LONG = "repos/" + "very-" * 20 + "long"


@pytest.mark.requirement("INT-24")
@pytest.mark.parametrize(
    ("key", "operation", "prefix", "name"),
    [
        ("GET /repos", {"operationId": "repos/list-for-org"}, "", "repos_list_for_org"),
        ("GET /repos", {"operationId": "repos/list-for-org"}, "gh", "gh_repos_list_for_org"),
        ("GET /orders/{id}", {}, "shop", "shop_get_orders_id"),
        ("GET /", {}, "", "get"),
        ("GET /x", {"operationId": "Café größe"}, "", "Cafe_groe"),
        ("GET /x", {"operationId": "日本"}, "", "get_x"),
        ("GET /x", {"operationId": 7}, "", "get_x"),
        ("GET /x", {"operationId": "a", "x-speakeasy-mcp": {"name": "better name"}}, "", "better_name"),
    ],
)
def test_names_come_from_the_operation(
    key: str, operation: dict[str, object], prefix: str, name: str
) -> None:
    assert names.tool_names({key: operation}, prefix) == {key: name}


@pytest.mark.requirement("INT-24")
def test_long_and_colliding_names_end_with_digits_of_their_operation() -> None:
    operations = {
        "GET /a": {"operationId": "same"},
        "GET /b": {"operationId": "Same"},
        "GET /a/": {},
        "GET /a//": {},
        "GET /long1": {"operationId": LONG + "1"},
        "GET /long2": {"operationId": LONG + "2"},
        "GET /alone": {"operationId": "alone"},
    }
    found = names.tool_names(operations, "gh")
    assert len({name.lower() for name in found.values()}) == len(found)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in found.values())
    assert found["GET /alone"] == "gh_alone"
    assert found["GET /a"] == f"gh_same_{names.digits('GET /a')}"
    assert len(found["GET /long1"]) <= 64
    assert found["GET /long1"].endswith("_" + names.digits("GET /long1"))


@pytest.mark.requirement("INT-24")
def test_names_are_independent_of_the_order_of_operations() -> None:
    operations = {f"GET /{number}": {"operationId": f"op-{number % 7}"} for number in range(50)}
    mixed = list(operations.items())
    random.Random(7).shuffle(mixed)
    assert names.tool_names(dict(mixed)) == names.tool_names(operations)


@pytest.mark.parametrize(
    ("wires", "arguments"),
    [
        ([("id", "path"), ("id", "query"), ("id", "body")], ["id", "id__query", "id__body"]),
        ([("id", "body"), ("id", "query"), ("id", "path")], ["id__body", "id__query", "id"]),
        ([("filter[state]", "query")], ["filter_state"]),
        ([("filter[state]", "query"), ("filter_state", "query")], ["filter_state__query", "filter_state"]),
        ([("filter[state]", "query"), ("filter{state}", "query"), ("filter_state", "body")],
         ["filter_state__query", f"filter_state__query_{names.digits('filter{state}')}", "filter_state"]),
        ([("X-Trace.Id", "header")], ["X-Trace.Id"]),
        ([("名前", "query")], ["argument"]),
        ([("x" * 80, "query")], [f"{'x' * 40}_{names.digits('x' * 80)}"]),
    ],
)  # fmt: skip
def test_each_argument_has_its_own_accepted_name(wires: list[tuple[str, str]], arguments: list[str]) -> None:
    found = names.argument_names(wires)
    assert found == arguments
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in found)
    shuffled = wires[::-1]
    assert names.argument_names(shuffled) == found[::-1]
