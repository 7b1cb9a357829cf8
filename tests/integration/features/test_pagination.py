"""Pagination of lists, with two entries a page."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any

import pytest

from mcp_app import conf
from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import VERSIONS, Client
from tests.servers.live import LiveServer

LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def pages(sides: list[Client], method: str) -> list[dict[str, Any]]:
    """Return every page of a list, each requested from the next client in turn."""
    found = [sides[0].converse(method).result]
    while "nextCursor" in found[-1]:
        assert len(found) < 200
        asked = sides[len(found) % len(sides)]
        found.append(asked.converse(method, {"cursor": found[-1]["nextCursor"]}).result)
    return found


@pytest.mark.requirement("PAGE-01", "PAGE-03")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", LISTS)
def test_pages_from_alternating_processes_hold_every_entry_in_order(
    version: str, method: str, connect: Connect, connect_tight: Connect, tight: LiveServer
) -> None:
    client = connect_tight(version)
    found = pages([client, client.at_port(tight.ports[1])], method)
    member = LISTS[method]
    whole = connect(version).converse(method).result
    assert "nextCursor" not in whole
    assert [entry["name"] for page in found for entry in page[member]] == [
        entry["name"] for entry in whole[member]
    ]
    assert all(len(page[member]) == 2 for page in found[:-1])
    assert 1 <= len(found[-1][member]) <= 2
    assert all(page["nextCursor"] for page in found[:-1])


def altered(cursor: str) -> str:
    at = len(cursor) // 2
    return cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :]


@pytest.mark.requirement("PAGE-02")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda _: "",
        lambda _: "garbage",
        lambda _: "%%%",
        lambda _: 5,
        lambda _: {"cursor": "x"},
        lambda _: "x" * 50_000,
        altered,
        lambda cursor: cursor[:-1],
        lambda cursor: cursor + "A",
        lambda cursor: cursor + "=",
        lambda cursor: cursor.upper(),
    ],
)
def test_invalid_cursor_is_an_invalid_params_error(
    wrong: Callable[[str], Any], connect_tight: Connect
) -> None:
    client = connect_tight()
    cursor = client.converse("tools/list").result["nextCursor"]
    assert client.converse("tools/list", {"cursor": wrong(cursor)}).error["code"] == -32602


@pytest.mark.requirement("PAGE-02")
def test_cursor_of_another_list_is_refused(connect_tight: Connect) -> None:
    client = connect_tight()
    cursor = client.converse("tools/list").result["nextCursor"]
    for method in LISTS:
        said = client.converse(method, {"cursor": cursor})
        assert ("result" in said.response) == (method == "tools/list")


@pytest.mark.requirement("PAGE-03")
def test_cursor_reveals_no_entry_name(connect_tight: Connect) -> None:
    cursor: str = connect_tight().converse("tools/list").result["nextCursor"]
    decoded = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    assert b"plain_text" not in decoded
    assert len(cursor) < 100


@pytest.mark.requirement("PAGE-05")
def test_ordinary_catalogue_fits_on_one_page(client: Client) -> None:
    # Some clients read the first page only, so a page holds more tools than any client shows a model.
    assert conf.Settings().page_size == 1_000
    assert all("nextCursor" not in client.converse(method).result for method in LISTS)
