"""Summaries of messages in a list."""

from __future__ import annotations

import json

import pytest

from mcp_app.interface.summary import summary


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"progress": 3, "total": 10, "message": "reading"}, "3 of 10 reading"),
        ({"progress": 0}, "0"),
        ({"progress": 3, "total": 10, "message": "page 3 of 10"}, "page 3 of 10"),
        ({"message": "reading"}, "reading"),
        ({}, ""),
    ],
)
def test_progress_summary_shows_known_parts(params: dict[str, object], words: str) -> None:
    payload = json.dumps({"method": "notifications/progress", "params": params})
    assert summary("notification", "notifications/progress", payload, "", "") == words
