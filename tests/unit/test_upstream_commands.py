"""The settings of commands: allowed values, the environment of processes, and secrets."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from mcp_app import conf
from mcp_app.checks.configuration import settings_are_usable
from mcp_app.upstream_commands import INHERITED, read

COMMAND = {"command": ["server"]}


@pytest.mark.parametrize(
    "given",
    [
        [],
        {"Files": COMMAND},
        {"files/../x": COMMAND},
        {"files\n": COMMAND},
        {"": COMMAND},
        {7: COMMAND},
        {"files": []},
        {"files": {}},
        {"files": {"command": "server"}},
        {"files": {"command": [""]}},
        {"files": {"command": ["a\0b"]}},
        {"files": {**COMMAND, "shell": True}},
        {"files": {**COMMAND, "env": {"A": 1}}},
        {"files": {**COMMAND, "env": {"A=B": "c"}}},
        {"files": {**COMMAND, "cwd": 1}},
        {"files": {**COMMAND, "memory_mb": 0}},
        {"files": {**COMMAND, "max_sessions": True}},
        {"files": {**COMMAND, "idle_seconds": "1"}},
    ],
    ids=repr,
)
def test_unusable_command_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"command|use|needs|has"):
        read(given)


def test_error_shows_no_value_of_the_environment() -> None:
    with pytest.raises(ValueError, match="env of 'files'") as refused:
        read({"files": {**COMMAND, "env": {"TOKEN": "s3cret-value", "B": 1}}})
    assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(read({"files": {**COMMAND, "env": {"TOKEN": "s3cret-value"}}}))


def test_environment_has_listed_variables_and_those_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "no")
    found = read({"files": {**COMMAND, "env": {"HOME": "/tmp", "A": "b"}}})["files"].environment()
    assert (found["HOME"], found["A"]) == ("/tmp", "b")
    assert {*found} <= {*INHERITED, "A"}


def test_secrets_are_named_variables_and_passwords_in_addresses() -> None:
    env = {
        "GITHUB_TOKEN": "one",
        "DATABASE_URL": "postgresql://u:two@h/n",
        "LEVEL": "debug",
        "URL": "http://[x",
    }
    found = read({"files": {**COMMAND, "env": env}})["files"]
    assert [*found.secrets(conf.get().redacted_names)] == ["one", "two"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--token=abc"], ["--token"]),
        (["--api-key", "abc"], ["--api-key"]),
        (["--max-tokens", "5", "--token-file", "/x", "--password", "--verbose"], []),
        (["--token"], []),
    ],
)
def test_secret_in_an_argument_is_reported(settings: Any, arguments: list[str], expected: list[str]) -> None:
    commands = {"files": {"command": ["server", *arguments]}}
    assert read(commands)["files"].secret_arguments() == expected
    settings.MCP = {**settings.MCP, "UPSTREAM_COMMANDS": commands, "UPSTREAM_SOCKET": "/run/mcp.sock"}
    found = [each for each in settings_are_usable() if each.id == "mcp_app.W045"]
    assert len(found) == len(expected)
    assert all("abc" not in each.msg for each in found)


@pytest.mark.parametrize(
    ("commands", "host", "expected"),
    [
        ({"files": {"command": ["server"]}}, "10.0.0.1", 1),
        ({}, "10.0.0.1", 0),
        ({"a": {"command": ["b"]}}, "", 0),
    ],
)
def test_commands_are_refused_in_pods(
    settings: Any, monkeypatch: pytest.MonkeyPatch, commands: dict[str, Any], host: str, expected: int
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if host:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    settings.MCP = {**settings.MCP, "UPSTREAM_COMMANDS": commands, "UPSTREAM_SOCKET": "/run/mcp.sock"}
    assert len([each for each in settings_are_usable() if each.id == "mcp_app.E047"]) == expected


@pytest.mark.parametrize("path", ["", "relative.sock", "/" + "x" * 100])
def test_commands_need_a_socket(settings: Any, path: str) -> None:
    settings.MCP = {**settings.MCP, "UPSTREAM_COMMANDS": {"files": COMMAND}, "UPSTREAM_SOCKET": path}
    with pytest.raises(ImproperlyConfigured, match="UPSTREAM_SOCKET"):
        conf.get()
