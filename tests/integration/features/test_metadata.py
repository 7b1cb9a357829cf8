"""Metadata, unknown members and text encoding, for every method."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_app.protocol.messages import meta
from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import Client

REF = {"type": "ref/prompt", "name": "travel", "title": "ignored"}
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("ping", {}),
    ("tools/list", {}),
    ("tools/call", {"name": "echo", "arguments": {"text": "hello"}}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "doc://text"}),
    ("resources/subscribe", {"uri": "doc://text"}),
    ("resources/unsubscribe", {"uri": "doc://text"}),
    ("completion/complete", {"ref": REF, "argument": {"name": "city", "value": "B"}}),
    ("logging/setLevel", {"level": "info"}),
]


@pytest.mark.requirement("GEN-02")
@pytest.mark.parametrize(("method", "params"), METHODS, ids=[method for method, _ in METHODS])
def test_unknown_params_are_ignored(method: str, params: dict[str, Any], client: Client) -> None:
    plain = client.converse(method, params).result
    more = {"x-foo": 1, "_meta": {"example.com/unknown": [1]}}
    inner = {name: {**value, "x-foo": 1} for name, value in params.items() if name in ("ref", "argument")}
    assert client.converse(method, {**params, **inner, **more}).result == plain


@pytest.mark.requirement("GEN-02")
def test_unknown_initialize_members_are_ignored(connect: Connect) -> None:
    client = connect(
        "2025-11-25", {"tools": {}, "prompts": {}, "example.com/own": 5, "sampling": {"x-foo": 1}}
    )
    assert client.use("caller").result["structuredContent"]["samples"] is True


@pytest.mark.requirement("GEN-03")
@pytest.mark.parametrize("text", ["héllo", "\U0001f600 日本語", "\u2028\u0000\u001f", "e\u0301"])
def test_unicode_text_is_returned_unchanged(text: str, client: Client) -> None:
    assert client.use("echo", text=text).text == text


@pytest.mark.requirement("GEN-03")
@pytest.mark.parametrize("damage", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf0\x9f\x98"])
def test_body_that_is_not_utf_8_is_a_parse_error(damage: bytes, client: Client) -> None:
    body = json.dumps(
        client.request_message("tools/call", {"name": "echo", "arguments": {"text": "@"}})
    ).encode()
    answer = client.post(body.replace(b"@", damage))
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32700)


@pytest.mark.requirement("GEN-03")
def test_lone_surrogate_from_a_tool_is_replaced(client: Client) -> None:
    assert client.use("broken_text").text == "half ?"


@pytest.mark.requirement("META-07")
def test_own_metadata_keys_are_valid_and_not_reserved(connect: Connect) -> None:
    client = connect()
    listed = [client.listed(method) for method in ("tools/list", "prompts/list", "resources/list")]
    keys = {key for entries in listed for entry in entries for key in entry.get("_meta", {})}
    assert keys >= {"example.com/colour"}
    meta.check_own_keys(keys | client.use("with_metadata").result["_meta"].keys())


@pytest.mark.requirement("META-08")
def test_unknown_metadata_reaches_the_tool_and_is_not_echoed(client: Client) -> None:
    sent = {"example.com/trace": {"deep": [1, None]}, "progressToken": "t", "other": "x"}
    said = client.converse("tools/call", {"name": "metadata", "arguments": {}, "_meta": sent})
    assert json.loads(said.text) == sent
    assert "_meta" not in said.result
    listed = client.converse("tools/list", {"_meta": sent}).result
    assert "_meta" not in listed


@pytest.mark.requirement("META-11")
@pytest.mark.parametrize("token", [1.5, {"a": 1}, ["a"], True, "x" * 5000])
def test_progress_token_of_the_wrong_type_is_refused(token: Any, client: Client) -> None:
    params = {"name": "report", "arguments": {"values": [1]}, "_meta": {"progressToken": token}}
    assert client.converse("tools/call", params).error["code"] == -32602
