"""Answers to background calls from outside their code, in the vocabulary of their revision."""

from __future__ import annotations

import uuid
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from mcp_app.execution.background import approval
from mcp_app.execution.stored import stored_answers
from mcp_app.execution.stored.call_record import CallRecord
from tests.samples import published_schema

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def call(version: str, log_level: str | None = None, **meta: Any) -> CallRecord:
    """Return a stored call of a client of that revision."""
    told = {
        "version": version,
        "principal": "user:1",
        "client": "{}",
        "capabilities": "{}",
        "created": "0.0",
        **({} if log_level is None else {"log_level": log_level}),
    }
    known = {
        "id": uuid.uuid4(),
        "session_id": "s",
        "request_id": 7,
        "tool": "work",
        "meta": meta,
        "session_fields": told,
        "accepted_at": NOW,
        "approval_until": None,
    }
    return CallRecord(**{field.name: known.get(field.name, "") for field in fields(CallRecord)})


@pytest.mark.requirement("RPC-09", "META-05", "META-06")
@pytest.mark.parametrize(("version", "code"), [("2025-11-25", -32800), ("2026-07-28", -32603)])
def test_unstarted_call_is_answered_per_revision(version: str, code: int) -> None:
    assert orjson.loads(stored_answers.cancelled(call(version)))["error"]["code"] == code
    result = orjson.loads(stored_answers.failed(call(version), "It was interrupted."))["result"]
    assert result["isError"] is True
    assert result.get("resultType") == ("complete" if version == "2026-07-28" else None)
    assert not published_schema.problems(version, "CallToolResult", result)


@pytest.mark.requirement("LOG-03")
@pytest.mark.parametrize(("level", "is_told"), [("", False), ("info", True), ("error", False)])
def test_waiting_notice_requires_log_level_or_progress_token(level: str, is_told: bool) -> None:
    assert (approval.notice(call("2026-07-28", level), "Waiting") is not None) == is_told
    assert approval.notice(call("2026-07-28", level, progressToken="p"), "Waiting") is not None
