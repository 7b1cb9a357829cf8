"""Return values of prompts and resources."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from pydantic import BaseModel

from mcp_app import Audio, File, Image, Message
from mcp_app.execution.calls.contents import to_contents, to_messages
from mcp_app.protocol.errors import InternalError, ResourceNotFound
from tests.samples.media_samples import FOR_MODELS

HELLO = {"type": "text", "text": "hello"}
GIF = FOR_MODELS["image/gif"]
PICTURE = {"type": "image", "data": b64encode(GIF).decode(), "mimeType": "image/gif"}


class Model(BaseModel):
    a: int


@pytest.mark.requirement("PROMPT-02")
@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("hello", [{"role": "user", "content": HELLO}]),
        (Image(GIF), [{"role": "user", "content": PICTURE}]),
        (Message("hello", "assistant"), [{"role": "assistant", "content": HELLO}]),
        (["hello", Image(GIF)], [{"role": "user", "content": HELLO}, {"role": "user", "content": PICTURE}]),
        ({"role": "assistant", "content": "hello"}, [{"role": "assistant", "content": HELLO}]),
        ({"messages": ["hello"]}, [{"role": "user", "content": HELLO}]),
        ([HELLO], [{"role": "user", "content": HELLO}]),
        ("\ud800", [{"role": "user", "content": {"type": "text", "text": "?"}}]),
    ],
)
def test_prompt_value_becomes_messages(value: Any, messages: list[dict[str, Any]]) -> None:
    assert to_messages(value) == messages


@pytest.mark.requirement("PROMPT-05")
@pytest.mark.parametrize("value", [3, None, {"role": "system", "content": "x"}, File("x"), [{"a": 1}]])
def test_invalid_prompt_value_raises_internal_error(value: Any) -> None:
    with pytest.raises(InternalError):
        to_messages(value)


@pytest.mark.requirement("TOOL-25")
@pytest.mark.parametrize(
    ("data", "mime_type", "words"),
    [
        (b"", "image/png", "image is empty"),
        (GIF, "image/png", "bytes are image/gif"),
        (b"<html>", "image/png", "bytes are text/html"),
        (b"<html>", "audio/wav", "bytes are text/html"),
        (GIF[:-1], "image/gif", "cut off"),
    ],
)
def test_unusable_media_raises_internal_error_with_reason(data: bytes, mime_type: str, words: str) -> None:
    media = Audio if mime_type.startswith("audio") else Image
    for value in (media(data, mime_type), File(data, mime_type, "a://b")):
        with pytest.raises(InternalError, match=f"The prompt's result cannot be sent: .*{words}"):
            to_messages(value)
    for content in (data, File(data), File(data, mime_type)):
        with pytest.raises(InternalError, match=f"The resource cannot be sent: .*{words}"):
            to_contents(content, "a://b", mime_type)


@pytest.mark.requirement("RES-02")
@pytest.mark.parametrize(
    ("value", "mime_type", "contents"),
    [
        ("x", "", [{"uri": "a://b", "mimeType": "text/plain", "text": "x"}]),
        ("x", "text/csv", [{"uri": "a://b", "mimeType": "text/csv", "text": "x"}]),
        (b"x", "font/ttf", [{"uri": "a://b", "mimeType": "font/ttf", "blob": "eA=="}]),
        (b"x", "", [{"uri": "a://b", "mimeType": "application/octet-stream", "blob": "eA=="}]),
        ({"a": 1}, "", [{"uri": "a://b", "mimeType": "application/json", "text": '{"a":1}'}]),
        ([1], "", [{"uri": "a://b", "mimeType": "application/json", "text": "[1]"}]),
        ([], "", [{"uri": "a://b", "mimeType": "application/json", "text": "[]"}]),
        (Model(a=1), "", [{"uri": "a://b", "mimeType": "application/json", "text": '{"a":1}'}]),
        (File("x", "text/x"), "", [{"uri": "a://b", "mimeType": "text/x", "text": "x"}]),
        (
            [File("x", uri="a://1"), {"uri": "a://2", "text": "y"}],
            "text/x",
            [{"uri": "a://1", "mimeType": "text/x", "text": "x"}, {"uri": "a://2", "text": "y"}],
        ),
    ],
)
def test_resource_value_becomes_contents(value: Any, mime_type: str, contents: list[dict[str, Any]]) -> None:
    assert to_contents(value, "a://b", mime_type) == contents


@pytest.mark.requirement("RES-03")
def test_resource_returning_none_is_not_found() -> None:
    with pytest.raises(ResourceNotFound):
        to_contents(None, "a://b", "")


@pytest.mark.parametrize("value", [object(), "x" * 101, b"x" * 100])
def test_unsendable_resource_value_raises_internal_error(value: Any, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_RESULT_BYTES": 100}
    with pytest.raises(InternalError):
        to_contents(value, "a://b", "")
