"""The format of ``sampling/createMessage`` requests and of the answers to them."""

from __future__ import annotations

from typing import Any, Final

from mcp_app.protocol.errors import InvalidAnswer

OPTIONS: Final = {
    "system_prompt": "systemPrompt",
    "model_preferences": "modelPreferences",
    "include_context": "includeContext",
    "temperature": "temperature",
    "stop_sequences": "stopSequences",
    "metadata": "metadata",
    "tools": "tools",
    "tool_choice": "toolChoice",
}
_PRIORITIES: Final = ("costPriority", "speedPriority", "intelligencePriority")
# The required members of each kind of content block, besides 'type'.
_BLOCKS: Final[dict[str, dict[str, type]]] = {
    "text": {"text": str},
    "image": {"data": str, "mimeType": str},
    "audio": {"data": str, "mimeType": str},
    "tool_use": {"id": str, "name": str, "input": dict},
    "tool_result": {"toolUseId": str, "content": list},
}


def build_params(messages: str | list[dict[str, Any]], *, max_tokens: int, **options: Any) -> dict[str, Any]:
    """Build the params of a request (SAMP-01). ``messages`` is a text or a list of messages in wire form.

    The possible ``options`` are system_prompt, model_preferences, include_context, temperature,
    stop_sequences, metadata, tools and tool_choice. Options that are None are omitted. Raise ValueError
    with the problem.
    """
    if isinstance(messages, str):
        messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
    if type(max_tokens) is not int or max_tokens < 1:
        raise ValueError("max_tokens must be a positive integer.")
    check_messages(messages)
    params: dict[str, Any] = {"messages": messages, "maxTokens": max_tokens}
    for name, value in options.items():
        if name not in OPTIONS:
            raise ValueError(f"Sampling has no option {name!r}: use {', '.join(OPTIONS)}.")
        if value is not None:
            params[OPTIONS[name]] = value
    _check_options(params)
    return params


def needed_capabilities(params: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the ClientCapabilities fields that these params require (SAMP-02)."""
    needed = ["sampling"]
    if "tools" in params or "toolChoice" in params:
        needed.append("sampling_tools")
    if params.get("includeContext", "none") != "none":
        needed.append("sampling_context")
    return tuple(needed)


def _check_options(params: dict[str, Any]) -> None:
    if params.get("includeContext", "none") not in ("none", "thisServer", "allServers"):
        raise ValueError("include_context must be 'none', 'thisServer' or 'allServers'.")
    choice = params.get("toolChoice", {})
    if not isinstance(choice, dict) or choice.get("mode", "auto") not in ("auto", "none", "required"):
        raise ValueError("tool_choice must be an object whose 'mode' is 'auto', 'none' or 'required'.")
    if not isinstance(params.get("tools", []), list):
        raise ValueError("tools must be a list of tool definitions.")  # noqa: TRY004
    preferences = params.get("modelPreferences", {})
    if not isinstance(preferences, dict) or not all(
        _is_priority(preferences.get(name)) for name in _PRIORITIES
    ):
        raise ValueError(f"model_preferences must be an object; {', '.join(_PRIORITIES)} are from 0 to 1.")


def _is_priority(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def check_messages(messages: list[dict[str, Any]]) -> None:
    """Check a conversation (SAMP-03). Raise ValueError for the first invalid message.

    A message with tool results must contain nothing else. Each tool use must be answered once, in the next
    message.
    """
    if not messages:
        raise ValueError("Sampling needs at least one message.")
    asked: list[str] = []
    for number, message in enumerate(messages, start=1):
        blocks = _blocks(message, number)
        answered = [block["toolUseId"] for block in blocks if block["type"] == "tool_result"]
        if answered and len(answered) != len(blocks):
            raise ValueError(f"Message {number} mixes tool results with other content: send them alone.")
        if answered and message["role"] != "user":
            raise ValueError(f"Message {number} has tool results and must have the role 'user'.")
        if sorted(answered) != sorted(asked):
            raise ValueError(
                f"Message {number} must answer each tool use of the message before exactly once."
            )
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if asked and message["role"] != "assistant":
            raise ValueError(f"Message {number} has tool uses and must have the role 'assistant'.")
    if asked:
        raise ValueError("The last message has tool uses that are not answered.")


def _blocks(message: Any, number: int) -> list[dict[str, Any]]:
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        raise ValueError(f"Message {number} must be an object with the role 'user' or 'assistant'.")
    content: Any = message.get("content")
    blocks: list[dict[str, Any]] = content if isinstance(content, list) else [content]
    if not all(_is_block(block) for block in blocks):
        raise ValueError(f"Message {number} has content that is none of {', '.join(_BLOCKS)}.")
    return blocks


def _is_block(block: Any) -> bool:
    members = _BLOCKS.get(str(block.get("type"))) if isinstance(block, dict) else None
    return members is not None and all(isinstance(block.get(name), kind) for name, kind in members.items())


def check_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return the client's answer. Raise InvalidAnswer if it is not a CreateMessageResult (SAMP-06).

    Any string is valid as ``stopReason`` (SAMP-07).
    """
    content = result.get("content")
    blocks = content if isinstance(content, list) else [content]
    if result.get("role") not in ("user", "assistant") or not all(_is_block(block) for block in blocks):
        raise InvalidAnswer("The client's answer to sampling has no role or content that we know.")
    if not isinstance(result.get("model"), str) or not isinstance(result.get("stopReason", ""), str):
        raise InvalidAnswer("The client's answer to sampling does not name the model.")
    return result
