"""Restricted entries exist only for callers whose user has the permission."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import VERSIONS

PROMPT = {"name": "restricted_prompt", "arguments": {"name": "x"}}
ENTRIES: list[tuple[str, str, str, dict[str, Any], int]] = [
    ("tools/list", "restricted", "tools/call", {"name": "restricted", "arguments": {}}, -32602),
    ("prompts/list", "restricted_prompt", "prompts/get", PROMPT, -32602),
    ("resources/list", "doc://restricted", "resources/read", {"uri": "doc://restricted"}, -32002),
    ("resources/templates/list", "vault://{name}", "resources/read", {"uri": "vault://x"}, -32002),
]


def keys_of(entries: list[dict[str, Any]]) -> set[str]:
    return {entry.get("uri") or entry.get("uriTemplate") or entry["name"] for entry in entries}


@pytest.mark.requirement("TOOL-08", "TOOL-21", "RES-06", "PROMPT-03")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("process", [0, 1])
@pytest.mark.parametrize(("listing", "key", "method", "params", "code"), ENTRIES)
def test_restricted_entry_is_visible_only_with_the_permission(
    version: str, process: int, listing: str, key: str, method: str, params: dict[str, Any], code: int,
    connect: Connect, keys: dict[str, str],
) -> None:  # fmt: skip
    reader = connect(version, process=process, token=keys["reader"])
    assert key in keys_of(reader.listed(listing))
    assert reader.converse(method, params).result
    for token in (keys["stranger"], None):
        other = connect(version, process=process, token=token)
        assert key not in keys_of(other.listed(listing))
        assert other.converse(method, params).error["code"] == code


@pytest.mark.requirement("TOOL-08")
def test_restricted_tool_is_refused_like_an_unknown_tool(connect: Connect, keys: dict[str, str]) -> None:
    stranger = connect(token=keys["stranger"])
    refused = [stranger.use(name).error for name in ("restricted", "restrictee")]
    assert refused[0] == {
        **refused[1],
        "message": "Unknown tool: restricted",
        "data": {**refused[1]["data"], "name": "restricted"},
    }


@pytest.mark.requirement("TOOL-08")
def test_permission_affects_only_the_restricted_entries(connect: Connect, keys: dict[str, str]) -> None:
    reader, stranger = connect(token=keys["reader"]), connect(token=keys["stranger"])
    lists = [[entry["name"] for entry in side.listed("tools/list")] for side in (reader, stranger)]
    assert [name for name in lists[0] if name != "restricted"] == lists[1]


@pytest.mark.requirement("PAGE-03")
def test_cursor_is_bound_to_the_view_of_its_caller(
    connect_tight: Connect, tight_keys: dict[str, str]
) -> None:
    reader = connect_tight(token=tight_keys["reader"])
    cursor = {"cursor": reader.converse("tools/list").result["nextCursor"]}
    assert reader.converse("tools/list", cursor).result["tools"]
    for token in (tight_keys["stranger"], None):
        assert connect_tight(token=token).converse("tools/list", cursor).error["code"] == -32602
