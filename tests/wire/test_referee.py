"""The wire referee detects unpublished members; otherwise it would prove nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.referee import problems

TOOL: dict[str, Any] = {"name": "t", "inputSchema": {"type": "object", "additionalProperties": False}}


def listed(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": {"tools": [TOOL | members]}}


def asked(**members: Any) -> dict[str, Any]:
    form = {"type": "object", "properties": {"name": {"type": "string"} | members}}
    params = {"message": "m", "requestedSchema": form}
    return {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params}


def told(**members: Any) -> dict[str, Any]:
    params = {"progressToken": 1, "progress": 1} | members
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def task(kind: str = "complete", **members: Any) -> dict[str, Any]:
    at = "2026-07-28T12:00:00.000Z"
    made = {"taskId": "t", "status": "working", "createdAt": at, "lastUpdatedAt": at, "ttlMs": 1, **members}
    return {"jsonrpc": "2.0", "id": 1, "result": {"resultType": kind, **made}}


def acknowledged(**granted: Any) -> dict[str, Any]:
    params = {"notifications": granted, "_meta": {"io.modelcontextprotocol/subscriptionId": 1}}
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}


def called(**meta: Any) -> dict[str, Any]:
    server = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}
    result = {"resultType": "complete", "content": [], "_meta": server | meta}
    return {"jsonrpc": "2.0", "id": 1, "result": result}


@pytest.mark.parametrize(
    ("version", "method", "message", "fault"),
    [
        ("2025-03-26", "tools/list", listed(), ""),
        ("2025-03-26", "tools/list", listed(annotations={"readOnlyHint": True}), ""),
        ("2025-03-26", "tools/list", listed(title="T"), "title is not published"),
        ("2025-06-18", "tools/list", listed(title="T"), ""),
        (
            "2025-06-18",
            "tools/list",
            listed(icons=[{"src": "https://a.example/i"}]),
            "icons is not published",
        ),
        ("2025-11-25", "tools/list", listed(icons=[{"src": "https://a.example/i"}]), ""),
        ("2025-11-25", "tools/list", listed(icons=[{"url": "https://a.example/i"}]), "required"),
        ("2025-11-25", "tools/list", listed(resultType="complete"), "resultType is not published"),
        ("2026-07-28", "tools/call", called(**{"django-mcp/refusal": "rate_limited"}), ""),
        ("2026-07-28", "tools/call", called(refusal="rate_limited"), "refusal is not published"),
        (
            "2026-07-28",
            "tools/call",
            called(**{"io.modelcontextprotocol/refusal": "rate_limited"}),
            "refusal is not published",
        ),
        ("2025-03-26", "", asked(), "not published"),
        ("2025-06-18", "", asked(), ""),
        ("2025-06-18", "", asked(default="Ada"), "default is not published"),
        ("2025-11-25", "", asked(default="Ada"), ""),
        ("2025-11-25", "", told(message="half"), ""),
        ("2025-11-25", "", told(value=1), "value is not published"),
        ("2025-11-25", "", {"jsonrpc": "2.0", "method": "roots/list"}, "members"),
        ("2025-11-25", "ping", {"jsonrpc": "2.0", "id": 1, "result": {"pong": True}}, "empty"),
        ("2025-11-25", "ping", {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": ""}}, "null"),
        ("2025-11-25", "ping", {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}, "members"),
        ("2025-11-25", "ping", {"id": 1, "result": {}}, "jsonrpc"),
        ("2026-07-28", "tools/call", task("task"), ""),
        ("2026-07-28", "tools/call", task("task", createdAt=7), "string"),
        ("2026-07-28", "tasks/get", task(), ""),
        ("2026-07-28", "tasks/get", task(status="completed"), "anyOf"),
        ("2025-06-18", "tasks/get", task(), "no published result"),
        ("2025-11-25", "tasks/get", task(), "ttl"),
        ("2025-11-25", "tools/call", {"jsonrpc": "2.0", "id": 1, "result": {"task": {}}}, "taskId"),
        ("2026-07-28", "", acknowledged(taskIds=["t"]), ""),
        ("2026-07-28", "", acknowledged(taskIds=[7]), "not published"),
    ],
)
def test_message_is_validated_by_published_schema(
    version: str, method: str, message: dict[str, Any], fault: str
) -> None:
    found = problems(version, message, method)
    assert bool(found) == bool(fault), found
    assert fault in " ".join(found)
