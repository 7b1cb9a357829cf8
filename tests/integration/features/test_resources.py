"""Listing and reading resources and templates."""

from __future__ import annotations

import json
from base64 import b64decode
from contextlib import ExitStack
from typing import Any

import pytest

from mcp_app.catalogue.definitions.decorators import resource
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import registry
from tests.conformance.fixture.samples import PIXEL
from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import Client


def contents(client: Client, uri: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.converse("resources/read", {"uri": uri}).result["contents"]
    return found


def text(client: Client, uri: str) -> str:
    (content,) = contents(client, uri)
    assert content["uri"] == uri
    found: str = content["text"]
    return found


def refusal(client: Client, uri: str) -> dict[str, Any]:
    return client.converse("resources/read", {"uri": uri}).error


@pytest.mark.requirement("RES-01", "ANN-01", "TITLE-01", "ICON-01")
def test_resources_are_declared_and_listed_by_revision(client: Client) -> None:
    assert client.server["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
    version = str(client.version)
    marks = {"audience": ["user"], "priority": 1.0}
    changed = {"lastModified": "2025-11-25T12:00:00Z"} if version >= "2025-06-18" else {}
    entry = client.entry("resources/list", "doc://text")
    plain = {"uri": "doc://text", "name": "text", "description": "A short text.", "mimeType": "text/plain"}
    assert entry.items() >= plain.items()
    assert entry["annotations"] == marks | changed
    assert entry.get("title") == (None if version == "2025-03-26" else "A text")
    assert ("icons" in entry) == (version == "2025-11-25")


@pytest.mark.requirement("RES-01")
def test_resource_size_is_listed(client: Client) -> None:
    assert client.entry("resources/list", "doc://text")["size"] == len(text(client, "doc://text"))


@pytest.mark.requirement("RES-02", "RES-14")
def test_content_is_text_or_base64_with_its_type(client: Client) -> None:
    assert contents(client, "doc://text") == [
        {"uri": "doc://text", "mimeType": "text/plain", "text": "Hello there"}
    ]
    (picture,) = contents(client, "doc://binary")
    assert picture.keys() == {"uri", "mimeType", "blob"}
    assert b64decode(picture["blob"], validate=True) == PIXEL
    assert json.loads(text(client, "doc://json")) == {"answer": 42}


@pytest.mark.requirement("RES-02")
def test_one_read_may_return_several_contents(client: Client) -> None:
    first, second = contents(client, "doc://directory")
    assert first == {"uri": "doc://directory/first", "mimeType": "text/plain", "text": "first"}
    assert (second["uri"], second["blob"]) == ("doc://directory/second", "AAE=")


@pytest.mark.requirement("RES-03", "RES-15")
@pytest.mark.parametrize(
    "uri",
    ["doc://unknown", "doc://TEXT", "DOC://text", "doc://text/", "doc://text?x", "doc://text#x", "doc://t%65xt",
     "doc:text", "text", "doc://nothing", "doc://lost", "file:///etc/passwd", "https://example.com/"],
)  # fmt: skip
def test_unknown_uri_returns_32002_with_the_uri(uri: str, client: Client) -> None:
    error = refusal(client, uri)
    assert error == {"code": -32002, "message": "Resource not found", "data": {"uri": uri}}


@pytest.mark.requirement("RES-03")
def test_failed_resource_is_an_internal_error_without_details(client: Client) -> None:
    error = refusal(client, "doc://broken")
    assert error["code"] == -32603
    assert "hunter2" not in json.dumps(error)


@pytest.mark.requirement("RES-05")
@pytest.mark.parametrize("uri", [None, 5, "", ["doc://text"], "doc://" + "x" * 3000])
def test_malformed_uri_is_an_invalid_params_error(uri: Any, client: Client) -> None:
    for method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
        assert client.converse(method, {} if uri is None else {"uri": uri}).error["code"] == -32602


@pytest.mark.requirement("RES-06")
@pytest.mark.parametrize("uri", ["doc://restricted", "vault://gold"])
def test_restricted_resource_is_refused_like_an_unknown_one(
    uri: str, connect: Connect, keys: dict[str, str]
) -> None:
    reader, stranger = connect(token=keys["reader"]), connect(token=keys["stranger"])
    assert text(reader, uri)
    unknown = refusal(stranger, "doc://unknown")
    assert refusal(stranger, uri) == {**unknown, "data": {"uri": uri}}
    assert stranger.converse("resources/subscribe", {"uri": uri}).error["code"] == -32002
    assert reader.converse("resources/subscribe", {"uri": uri}).result == {}


@pytest.mark.requirement("RES-06")
@pytest.mark.parametrize("tool", ["read", "read_in_thread"])
def test_tool_reads_resources_with_the_permissions_of_its_caller(
    tool: str, connect: Connect, keys: dict[str, str]
) -> None:
    reader, stranger = connect(token=keys["reader"]), connect(token=keys["stranger"])
    found = json.loads(reader.use(tool, uri="doc://restricted").text)
    assert found["contents"][0]["text"] == "for the few"
    said = stranger.use(tool, uri="doc://restricted")
    assert (said.failed, said.text) == (True, "Resource not found: doc://restricted")


def test_nested_resource_reads_from_many_threads_do_not_deadlock(
    connect: Connect,
) -> None:
    client = connect()
    params = {"name": "read_slowly_in_thread", "arguments": {"uri": "doc://text"}}
    with ExitStack() as stack:
        streams = [stack.enter_context(client.open_call("tools/call", params)) for _ in range(20)]
        answers = [stream.messages()[-1] for stream in streams]
    assert all("Hello there" in answer["result"]["content"][0]["text"] for answer in answers)


@pytest.mark.requirement("RES-05")
def test_too_large_resource_is_an_internal_error(client: Client) -> None:
    error = refusal(client, f"large://{9 * 1024 * 1024}")
    assert error["code"] == -32603
    assert "too large" in error["message"]


@pytest.mark.requirement("RES-07")
@pytest.mark.parametrize("uri", ["readme.txt", "/etc/motd", "://x", "1doc://x", "do c://x", "{scheme}://x"])
def test_uri_without_a_valid_scheme_is_refused_at_registration(uri: str) -> None:
    def function(scheme: str = "") -> str:
        return scheme

    with registry.isolated(), pytest.raises((DefinitionError, ValueError)):
        resource(uri)(function)


@pytest.mark.requirement("TPL-01")
def test_templates_are_listed_by_revision(client: Client) -> None:
    entry = client.entry("resources/templates/list", "doc://item/{key}")
    version = str(client.version)
    plain = {"name": "item", "description": "An item by its key.", "mimeType": "text/plain"}
    assert entry.items() >= plain.items()
    assert entry["annotations"]["priority"] == 0.1
    assert ("title" in entry, "_meta" in entry) == (version >= "2025-06-18",) * 2
    assert ("icons" in entry) == (version == "2025-11-25")


@pytest.mark.requirement("TPL-02", "TPL-03")
@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("doc://item/1", "item 1"),
        ("doc://item/a%20b", "item a b"),
        ("doc://item/%C3%A9", "item é"),
        ("doc://item/%2541", "item %41"),
        ("doc://item/a.b", "item a.b"),
        ("doc://item/a..b", "item a..b"),
        ("tree://a", "leaf a"),
        ("tree://a/b/c.txt", "leaf a/b/c.txt"),
        ("year://1999", "year 1999"),
    ],
)
def test_template_values_are_decoded_once(uri: str, found: str, client: Client) -> None:
    assert text(client, uri) == found


TRAVERSALS = [
    "doc://item/",
    "doc://item/a/b",
    "doc://item/..",
    "doc://item/.",
    "doc://item/%2e%2e",
    "doc://item/..%2Fx",
    "doc://item/a%2fb",
    "doc://item/a%5Cb",
    "doc://item/a\\b",
    "doc://item/a%00",
    "doc://item/%zz",
    "doc://item/%ff",
    "doc://item/1/extra",
    "xdoc://item/1",
    "tree://",
    "tree:///etc/passwd",
    "tree://a/../b",
    "tree://../b",
    "tree://a/%2e%2e/b",
    "tree://a/..",
    "tree://a//b",
    "tree://a%2f..%2fb",
    "tree://a/b/",
]


@pytest.mark.requirement("TPL-03", "RES-05")
@pytest.mark.parametrize("uri", TRAVERSALS)
def test_template_values_contain_no_separator_or_traversal(uri: str, client: Client) -> None:
    assert refusal(client, uri)["code"] == -32002


def test_template_value_of_the_wrong_type_is_refused(client: Client) -> None:
    assert refusal(client, "year://soon")["code"] in (-32002, -32602)


@pytest.mark.requirement("TPL-04")
def test_exact_resource_wins_over_templates_and_first_template_wins(client: Client) -> None:
    assert text(client, "doc://item/0") == "exactly zero"
    assert text(client, "doc://item/last") == "item last"
    assert text(client, "doc://other/last") == "last other"
