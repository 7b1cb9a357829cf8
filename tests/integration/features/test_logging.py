"""Log notifications."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_app.protocol.messages.logging import LEVELS
from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import Client, Conversation
from tests.servers.live import LiveServer, eventually


def levels(said: Conversation) -> list[str]:
    return [params["level"] for params in said.told("notifications/message")]


@pytest.mark.requirement("LOG-01")
def test_logging_is_declared_and_all_eight_levels_can_be_set(client: Client) -> None:
    assert client.server["capabilities"]["logging"] == {}
    assert LEVELS == ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    assert [client.converse("logging/setLevel", {"level": level}).result for level in LEVELS] == [{}] * 8


@pytest.mark.requirement("LOG-01")
@pytest.mark.parametrize("level", ["verbose", "INFO", "", 3, None, ["info"], {"level": "info"}])
def test_unknown_log_level_is_an_invalid_params_error(level: Any, client: Client) -> None:
    assert client.converse("logging/setLevel", {"level": level}).error["code"] == -32602
    assert client.converse("logging/setLevel").error["code"] == -32602


@pytest.mark.requirement("LOG-02")
@pytest.mark.parametrize("level", [None, *LEVELS])
def test_messages_at_or_above_the_level_are_sent(level: str | None, client: Client) -> None:
    if level is not None:
        client.converse("logging/setLevel", {"level": level})
    said = client.use("log_every_level")
    assert levels(said) == list(LEVELS[LEVELS.index(level or "info") :])
    assert said.text == "logged"
    assert said.told("notifications/message")[-1] == {
        "level": "emergency",
        "logger": "levels",
        "data": "at emergency",
    }


@pytest.mark.requirement("LOG-02")
def test_log_level_applies_to_one_session_in_every_process(server: LiveServer, connect: Connect) -> None:
    client, other = connect(), connect()
    elsewhere = client.at_port(server.ports[1])
    assert levels(elsewhere.use("log_every_level"))[0] == "info"
    client.converse("logging/setLevel", {"level": "alert"})
    eventually(lambda: levels(elsewhere.use("log_every_level")) == ["alert", "emergency"], 1)
    assert levels(other.use("log_every_level"))[0] == "info"


def test_log_data_is_sent_as_json_with_the_tool_as_logger(client: Client) -> None:
    (params,) = client.use("log_data").told("notifications/message")
    assert params == {
        "level": "warning",
        "logger": "log_data",
        "data": {"message": "low on paper", "tray": 2, "left": 0.1},
    }


def test_python_values_are_logged_as_json(client: Client) -> None:
    said = client.use("log_values")
    assert said.text == "logged"
    *sent, refused = [params["data"] for params in said.told("notifications/message")]
    assert sent == [
        "2025-11-25T12:00:00Z",
        {"message": "a model", "found": {"city": "Bern", "degrees": 21.5}},
        "half ?",
    ]
    assert refused.startswith("not sent: ")


@pytest.mark.requirement("LOG-05")
def test_log_messages_redact_credentials(client: Client) -> None:
    said = client.use("log_secrets")
    told = said.told("notifications/message")
    assert len(told) == 3
    assert "hunter2" not in json.dumps(told)
    assert told[0]["data"]["user"] == "ada"


@pytest.mark.requirement("LOG-06")
def test_excess_log_messages_are_dropped_with_a_warning(client: Client) -> None:
    said = client.use("log_much", count=10_000)
    told = said.told("notifications/message")
    assert said.text == "logged"
    assert len(told) <= 1_001
    assert told[-1]["level"] == "warning"
    assert "left out" in told[-1]["data"]


@pytest.mark.requirement("LOG-07")
def test_log_message_of_a_call_uses_its_stream_only(client: Client) -> None:
    with client.listen() as standalone:
        assert levels(client.use("log_every_level")) == list(LEVELS[1:])
        assert standalone.quiet(0.2)
