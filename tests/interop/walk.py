"""A walk through the demo catalogue, and its expected results."""

from __future__ import annotations

import datetime as dt
from typing import Any

TOOLS = ("echo", "add", "calculate", "get_timestamp", "web_scrape", "count", "burn", "ask_name")
PROMPTS = ("code_review", "analyze_logs")
PAGE = b"<html><title>A page</title><body><main><h1>Interop heading</h1><p>Some words.</p></main></body>"


def arguments(page_url: str) -> dict[str, dict[str, Any]]:
    """Return the arguments of each demo tool."""
    return {
        "echo": {"text": "héllo \U0001f600"},
        "add": {"a": 2, "b": 40},
        "calculate": {"expression": "2*(3+4)"},
        "get_timestamp": {},
        "web_scrape": {"url": page_url, "format": "text"},
        "count": {"to": 3, "delay_seconds": 0.15},
        "burn": {"seconds": 0.2},
        "ask_name": {},
    }


def check(report: dict[str, Any], *, asks: bool = True) -> None:
    """Assert that the report is complete; ``asks`` is False for a client without elicitation."""
    assert set(report["tools"]) >= set(TOOLS)
    calls = report["calls"]
    for name in TOOLS:
        if name != "ask_name":
            assert not calls[name]["isError"], (name, calls[name])
    _check_answers(calls)
    if asks:
        assert calls["ask_name"]["text"] == "Hello, Ada!"


def _check_answers(calls: dict[str, Any]) -> None:
    assert calls["echo"]["text"] == "héllo \U0001f600"
    assert calls["add"]["structured"] == {"result": 42}
    assert calls["calculate"]["text"] == "14"
    moment = dt.datetime.fromisoformat(calls["get_timestamp"]["text"])
    assert moment.utcoffset() == dt.timedelta(0)
    assert "Interop heading" in calls["web_scrape"]["text"]
    assert calls["count"]["text"] == "counted to 3"
