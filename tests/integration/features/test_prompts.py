"""Listing and getting prompts."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from tests.conformance.fixture.samples import PIXEL, SILENCE
from tests.integration.features.conversation import Client


def get(client: Client, prompt: str, /, **arguments: str) -> list[dict[str, Any]]:
    params = {"name": prompt, "arguments": arguments}
    messages: list[dict[str, Any]] = client.converse("prompts/get", params).result["messages"]
    return messages


def words(message: dict[str, Any]) -> tuple[str, str]:
    return message["role"], message["content"]["text"]


@pytest.mark.requirement("PROMPT-01", "TITLE-01", "ICON-01")
def test_prompts_are_declared_and_listed_by_revision(client: Client) -> None:
    assert client.server["capabilities"]["prompts"] == {"listChanged": True}
    entry = client.entry("prompts/list", "greet")
    assert entry["description"] == "Greets a person."
    assert entry["arguments"][0] == {
        "name": "name",
        "description": "The name of the person.",
        "required": True,
    }
    assert not entry["arguments"][1].get("required")
    version = str(client.version)
    assert ("title" in entry, "_meta" in entry) == (version >= "2025-06-18",) * 2
    assert ("icons" in entry) == (version >= "2025-11-25")
    assert "arguments" not in client.entry("prompts/list", "simple")


@pytest.mark.requirement("PROMPT-02")
def test_prompt_returns_its_description_and_message(client: Client) -> None:
    result = client.converse("prompts/get", {"name": "simple"}).result
    assert result == {
        "description": "Return one fixed message.",
        "messages": [{"role": "user", "content": {"type": "text", "text": "A simple prompt."}}],
    }


@pytest.mark.requirement("PROMPT-02", "PROMPT-05", "TOOL-14")
def test_prompt_may_contain_every_kind_of_content(client: Client) -> None:
    messages = get(client, "every_content")
    text, answer, image, audio, inside, inside_bytes, link = [message["content"] for message in messages]
    assert [message["role"] for message in messages] == ["user", "assistant", *["user"] * 5]
    assert (text["text"], answer["text"]) == ("words", "an answer")
    assert (b64decode(image["data"]), b64decode(audio["data"])) == (PIXEL, SILENCE)
    assert inside["resource"] == {"uri": "doc://inside", "mimeType": "text/plain", "text": "inside"}
    assert inside_bytes["resource"]["blob"] == "AP8="
    assert link["type"] == ("text" if client.version == "2025-03-26" else "resource_link")


@pytest.mark.requirement("PROMPT-03")
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"name": "nobody"}, "Unknown prompt: nobody"),
        ({"name": "Simple"}, "Unknown prompt: Simple"),
        ({"name": "greet"}, "Missing required prompt arguments: name."),
        ({"name": "greet", "arguments": {"tone": "cold"}}, "Missing required prompt arguments: name."),
        ({"name": "greet", "arguments": {"name": "Ada", "tone": "hot"}}, "must be one of: warm, cold."),
        ({"name": "greet", "arguments": ["Ada"]}, "'arguments' must be an object"),
        ({"name": 7}, "'name', a string"),
        ({}, "'name', a string"),
        ({"name": "refusing_prompt"}, "There is nothing to review today."),
    ],
)
def test_invalid_prompt_request_is_an_invalid_params_error(
    params: dict[str, Any], message: str, client: Client
) -> None:
    error = client.converse("prompts/get", params).error
    assert error["code"] == -32602
    assert message in error["message"]


@pytest.mark.requirement("PROMPT-03")
@pytest.mark.parametrize("name", ["broken_prompt", "no_message"])
def test_failed_prompt_is_an_internal_error_without_details(name: str, client: Client) -> None:
    said = client.converse("prompts/get", {"name": name})
    assert said.error["code"] == -32603
    assert "hunter2" not in json.dumps(said.response)


@pytest.mark.requirement("PROMPT-04")
@pytest.mark.parametrize("value", [5, True, None, ["Ada"], {"name": "Ada"}])
def test_prompt_argument_other_than_a_string_is_refused(value: Any, client: Client) -> None:
    params = {"name": "greet", "arguments": {"name": value}}
    assert client.converse("prompts/get", params).error["code"] == -32602


@pytest.mark.requirement("PROMPT-05")
@pytest.mark.parametrize("value", ["{tone}", "{{name}}", "%s", "\u202e", '"}]}', "<script>"])
def test_prompt_argument_is_inserted_as_plain_text(value: str, client: Client) -> None:
    (message,) = get(client, "greet", name=value)
    assert words(message) == ("user", f"Greet {value} in a warm tone.")


def test_unknown_prompt_arguments_are_ignored(client: Client) -> None:
    assert words(get(client, "greet", name="Ada", more="x")[0])[1] == "Greet Ada in a warm tone."


@pytest.mark.requirement("PROG-05")
def test_prompt_reports_progress_and_reads_resources(client: Client) -> None:
    params = {"name": "slow_prompt", "arguments": {"uri": "doc://text"}, "_meta": {"progressToken": 4}}
    said = client.converse("prompts/get", params)
    assert said.told("notifications/progress") == [{"progressToken": 4, "progress": 1, "total": 2}]
    assert words(said.result["messages"][0])[1] == "Summarise: Hello there"
