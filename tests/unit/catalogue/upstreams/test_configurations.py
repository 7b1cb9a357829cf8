"""Reading of clients' configuration files and of ``server.json``."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest

from mcp_app.catalogue.upstreams.configurations import (
    MAX_SERVERS,
    MAX_TEXT,
    ConfigurationError,
    ConfiguredServer,
    read,
)

URL = "https://mcp.example.com/mcp"
KEY = {"Authorization": "Bearer s3cret"}


def one(given: Any) -> ConfiguredServer:
    [server] = read(given if isinstance(given, str) else json.dumps(given))
    return server


@pytest.mark.parametrize(
    "given",
    [
        {"mcpServers": {"crm": {"url": URL, "headers": KEY}}},
        {"mcpServers": {"crm": {"type": "http", "url": URL, "headers": KEY, "timeout": 5}}},
        {"mcpServers": {"crm": {"serverUrl": URL, "headers": KEY}}},
        {"mcpServers": {"crm": {"httpUrl": URL, "headers": KEY}}},
        {"servers": {"crm": {"type": "http", "url": URL, "headers": KEY}}, "inputs": []},
        {"editor.fontSize": 12, "mcp": {"servers": {"CRM": {"url": URL, "headers": KEY}}}},
        (
            '{"servers": {"crm": {"url": "https://mcp.example.com/mcp", /* of the team */\n'
            '"headers": {"Authorization": "Bearer s3cret",},\n// the end\n}}}'
        ),
        "\ufeff" + json.dumps({"mcpServers": {"crm": {"url": URL, "headers": KEY}}}),
    ],
)
def test_server_is_read_from_every_known_form(given: Any) -> None:
    server = one(given)
    assert (server.name, server.url, server.problem) == ("crm", URL, "")
    assert (server.headers, server.open_headers) == (KEY, ())
    assert "s3cret" not in repr(server)


@pytest.mark.parametrize("wrapped", [False, True])
def test_description_of_the_registry_is_read(wrapped: bool) -> None:
    header = {"name": "X-Key", "description": "Your key", "isRequired": True, "isSecret": True}
    given: Any = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.example/weather",
        "remotes": [
            {"type": "streamable-http", "url": URL, "headers": [header, {"name": "X-Team", "value": "a"}]},
            {"type": "sse", "url": "https://mcp.example.com/sse"},
        ],
    }
    first, second = read(json.dumps({"server": given, "_meta": {}} if wrapped else given))
    assert (first.name, first.url, first.headers) == ("weather", URL, {"X-Team": "a"})
    assert first.open_headers == ("X-Key",)
    assert (second.name, second.url, second.problem) == ("weather-2", "https://mcp.example.com/sse", "")


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({"command": "npx", "args": ["-y", "x"]}, "local command"),
        ({"url": "https://${env:HOST}/mcp"}, "placeholder"),
        ({"url": "https://mcp.example.com/{tenant}/mcp"}, "placeholder"),
        ({"url": 7}, "no address"),
        ({}, "no address"),
        (7, "not an object"),
    ],
)
def test_server_that_cannot_be_added_says_why(server: Any, problem: str) -> None:
    assert problem in one({"mcpServers": {"x": server}}).problem


@pytest.mark.parametrize("value", ["Bearer ${input:token}", "${env:TOKEN}", "Bearer {token}", "", " "])
def test_header_without_a_value_is_named(value: str) -> None:
    server = one({"servers": {"crm": {"url": URL, "headers": {"Authorization": value, "X-Team": "a"}}}})
    assert (server.headers, server.open_headers) == ({"X-Team": "a"}, ("Authorization",))


def test_names_are_made_storable_and_unique() -> None:
    names = ["My CRM!", "my crm", "MY_CRM", "日本", "x" * 80, "-"]
    found = read(json.dumps({"mcpServers": {name: {"url": URL} for name in names}}))
    assert [each.name for each in found] == ["my-crm", "my-crm-2", "my_crm", "server", "x" * 60, "server-2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("{", "not JSON (line 1)"),
        ('{"a": 1}\n{"b"', "not JSON (line 2)"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "none of the members"),
        ('{"mcpServers": []}', "none of the members"),
        ('{"mcpServers": {}}', "none of the members"),
        (" " * (MAX_TEXT + 1), "longer than"),
        (json.dumps({"servers": {str(number): {} for number in range(MAX_SERVERS + 1)}}), "more than"),
    ],
)
def test_text_without_servers_says_why(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert words in str(caught.value)


def test_hostile_text_is_read_in_linear_time() -> None:
    for text in ('"' * MAX_TEXT, "/*" * (MAX_TEXT // 2), "," * MAX_TEXT, "\\" * MAX_TEXT):
        with pytest.raises(ConfigurationError):
            read(text)


@pytest.mark.parametrize(
    "given",
    [
        '"' + '\\"' * (MAX_TEXT // 2 - 8),
        '"' + '\\"' * (MAX_TEXT // 2 - 8) + "\\",
        '"\\\n"' * (MAX_TEXT // 4 - 8) + '"',
        "/* " * (MAX_TEXT // 3 - 8),
        '{"servers": {"crm": {"url": "' + "${" * (MAX_TEXT // 2 - 40) + '"}}}',
        '{"servers": {"crm": {"url": "' + "{" * (MAX_TEXT - 80) + '"}}}',
    ],
    ids=["quotes", "backslash", "lines", "comments", "placeholders", "braces"],
)
def test_longest_text_is_read_in_linear_time(given: str) -> None:
    assert len(given) <= MAX_TEXT
    began = time.process_time()
    with suppress(ConfigurationError):
        read(given)
    assert time.process_time() - began < 2


def test_comment_without_an_end_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        read(json.dumps({"servers": {"crm": {"url": URL}}}) + "/* to the end")
