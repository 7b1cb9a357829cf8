"""Short summaries of messages for lists. Callers must still mark hidden characters in them."""

from __future__ import annotations

from typing import Any

import orjson

LONGEST = 160
# Longer texts are not parsed, because lists summarize many messages per second.
PARSED = 4_096


def text_title(kind: str) -> str:
    """Return the heading for the text of a log line of a kind, such as "Request"."""
    return kind.capitalize() if kind in ("request", "notification", "response") else "Message"


def summary(kind: str, method: str, payload: str, answer: str, outcome: str) -> str:
    """Return a summary of a message.

    It is ``{"text":"hi"}`` for a call, ``3 of 10 reading`` for progress, and the error for a failure.
    """
    if outcome in ("error", "tool_error", "refused") and (said := _error(answer)):
        return _cut(said)
    message = _object(payload)
    if message is None:
        return _cut(payload)
    params = message.get("params")
    if isinstance(params, dict):
        return _cut(_params(method, params))
    if kind in ("response", "resumed"):
        return _cut(_json({name: part for name, part in message.items() if name not in ("jsonrpc", "id")}))
    return ""


def asked_name(method: str, target: str, payload: str) -> str:
    """Return the name that a call of an unknown tool asked for, or "" for other messages."""
    if target or method != "tools/call":
        return ""
    message = _object(payload)
    params = message.get("params") if message is not None else None
    name = params.get("name") if isinstance(params, dict) else None
    return _cut(name) if isinstance(name, str) else ""


def _params(method: str, params: dict[str, Any]) -> str:
    match method:
        case "notifications/progress":
            value, total = params.get("progress"), params.get("total")
            numbers = " of ".join(str(each) for each in (value, total) if each is not None)
            said = _text(params.get("message") or "")
            return said if numbers in said else f"{numbers} {said}".strip()
        case "notifications/message":
            return f"{params.get('level', '')}: {_text(params.get('data'))}"
        case "tools/call" | "prompts/get":
            return _json(params.get("arguments") or {})
        case "initialize":
            client = params.get("clientInfo")
            name = client.get("name", "") if isinstance(client, dict) else ""
            return f"{_text(name)} {_text(params.get('protocolVersion', ''))}"
        case "elicitation/create":
            return _text(params.get("message"))
    return _json({name: part for name, part in params.items() if name != "_meta"} or {})


def _error(answer: str) -> str:
    message = _object(answer)
    if message is None:
        return answer
    error = message.get("error")
    if isinstance(error, dict):
        return f"{error.get('code', '')} {_text(error.get('message', ''))}".strip()
    result = message.get("result")
    content = result.get("content") if isinstance(result, dict) else None
    if isinstance(content, list) and content and isinstance(content[0], dict):
        return _text(content[0].get("text", ""))
    return ""


def _object(text: str) -> dict[str, Any] | None:
    if not text or len(text) > PARSED:
        return None
    try:
        found = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None
    return found if isinstance(found, dict) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode() if value != {} else ""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
