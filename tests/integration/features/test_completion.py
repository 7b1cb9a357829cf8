"""Completing arguments of prompts and resource templates."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.features.catalogue_app.values import WORDS
from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import Client

TRAVEL = {"type": "ref/prompt", "name": "travel"}
ITEM = {"type": "ref/resource", "uri": "doc://item/{key}"}


def params(ref: Any, name: str, value: str, **known: str) -> dict[str, Any]:
    found: dict[str, Any] = {"ref": ref, "argument": {"name": name, "value": value}}
    return {**found, "context": {"arguments": known}} if known else found


def complete(client: Client, ref: Any, name: str, value: str, **known: str) -> dict[str, Any]:
    asked = params(ref, name, value, **known)
    found: dict[str, Any] = client.converse("completion/complete", asked).result["completion"]
    return found


@pytest.mark.requirement("COMP-01")
def test_completions_capability_is_declared(client: Client) -> None:
    assert client.server["capabilities"]["completions"] == {}


@pytest.mark.requirement("COMP-02")
@pytest.mark.parametrize(
    ("ref", "name", "value", "values"),
    [
        (TRAVEL, "city", "B", ["Bern", "Basel", "Bari"]),
        ({**TRAVEL, "title": "ignored"}, "city", "Z", ["Zug"]),
        (TRAVEL, "city", "x", []),
        (TRAVEL, "country", "c", []),
        ({"type": "ref/prompt", "name": "greet"}, "tone", "w", ["warm"]),
        ({"type": "ref/prompt", "name": "greet"}, "name", "A", []),
        (ITEM, "key", "alp", ["alpha", "alphabet"]),
        ({"type": "ref/resource", "uri": "doc://item/7"}, "key", "b", ["beta", "alphabet"]),
    ],
)
def test_prompt_and_template_arguments_are_completed(
    ref: dict[str, Any], name: str, value: str, values: list[str], client: Client
) -> None:
    assert complete(client, ref, name, value)["values"] == values


@pytest.mark.requirement("COMP-03")
def test_completion_returns_at_most_100_values_and_marks_truncation(client: Client) -> None:
    cut = complete(client, TRAVEL, "word", "word")
    assert cut == {"values": WORDS[:100], "total": 150, "hasMore": True}
    assert complete(client, TRAVEL, "word", "WORD14")["hasMore"] is False
    assert complete(client, TRAVEL, "word", "149") == {"values": ["word149"], "total": 1, "hasMore": False}


@pytest.mark.requirement("COMP-03")
def test_completion_ranks_prefix_matches_first(client: Client) -> None:
    assert complete(client, ITEM, "key", "b")["values"] == ["beta", "alphabet"]


@pytest.mark.requirement("COMP-04")
@pytest.mark.parametrize(
    "wrong",
    [
        params({"type": "ref/prompt", "name": "nobody"}, "word", ""),
        params({"type": "ref/resource", "uri": "doc://unknown"}, "key", ""),
        params({"type": "ref/tool", "name": "echo"}, "text", ""),
        params({"type": "ref/prompt"}, "word", ""),
        params("travel", "word", ""),
        params(TRAVEL, "nothing", ""),
        params(ITEM, "nothing", ""),
        {"ref": TRAVEL},
        {"ref": TRAVEL, "argument": {"name": "word"}},
        {"ref": TRAVEL, "argument": {"name": "word", "value": 5}},
        {"argument": {"name": "word", "value": ""}},
        {},
    ],
)
def test_invalid_completion_reference_is_an_invalid_params_error(
    wrong: dict[str, Any], client: Client
) -> None:
    assert client.converse("completion/complete", wrong).error["code"] == -32602


@pytest.mark.requirement("COMP-05")
@pytest.mark.parametrize(
    ("ref", "secret"),
    [
        ({"type": "ref/prompt", "name": "restricted_prompt"}, "secret-project"),
        ({"type": "ref/resource", "uri": "vault://{name}"}, "gold"),
        ({"type": "ref/resource", "uri": "vault://silver"}, "gold"),
    ],
)
def test_completion_hides_restricted_entries(
    ref: dict[str, Any], secret: str, connect: Connect, keys: dict[str, str]
) -> None:
    reader, stranger = connect(token=keys["reader"]), connect(token=keys["stranger"])
    assert complete(reader, ref, "name", "")["values"] == [secret]
    said = stranger.converse("completion/complete", params(ref, "name", ""))
    assert said.error["code"] == -32602
    assert secret not in str(said.response)


@pytest.mark.requirement("COMP-06")
def test_completion_context_is_used_since_2025_06_18(client: Client) -> None:
    narrowed = complete(client, TRAVEL, "city", "B", country="it", unknown="x")["values"]
    assert narrowed == (["Bern", "Basel", "Bari"] if client.version == "2025-03-26" else ["Bari"])


@pytest.mark.requirement("COMP-04")
def test_failed_completion_is_an_internal_error_without_details(client: Client) -> None:
    said = client.converse("completion/complete", params({"type": "ref/prompt", "name": "guess"}, "word", ""))
    assert said.error["code"] == -32603
    assert "hunter2" not in str(said.response)
