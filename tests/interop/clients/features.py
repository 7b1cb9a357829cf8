"""Every feature with any Python client that has the methods of ``does``; prints a report.

Runs in the client's own interpreter path, where this repository cannot be imported.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

PATIENCE = 15.0
KINDS = ("tools", "prompts", "resources", "templates")


class Heard:
    """Notifications of the server."""

    def __init__(self) -> None:
        self.logs: list[str] = []
        self.updated: list[str] = []
        self.changed: list[str] = []


async def until(what: Any) -> bool:
    """Return True if ``what()``, which may be a coroutine, becomes true in time."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = what()
        if (await found) if asyncio.iscoroutine(found) else found:
            return True
        await asyncio.sleep(0.05)
    return False


async def walk(does: Any, heard: Heard) -> dict[str, Any]:
    """Use every feature once and return the report."""
    report: dict[str, Any] = {"pages": {}}
    for kind in KINDS:
        report[kind], report["pages"][kind] = await _listed(does, kind)
    report["structured"] = (await does.call("add", {"a": 2, "b": 40}))["structured"]
    report["greeting"] = await does.read("demo://greeting/Ada")
    report["review"] = await does.prompt("code_review", {"code": "x = 1", "language": "python"})
    report["completion"] = await does.complete("code_review", "language", "py")
    await does.set_level("info")
    steps: list[Any] = []
    report["chat"] = (await does.call("chat", {}, steps.append))["text"]
    report["progress"] = steps
    report["heard"] = await until(lambda: "said louder" in heard.logs)
    report["logs"] = list(heard.logs)
    report["asked"] = (await does.call("ask_everything", {}))["text"]
    name = secrets.token_hex(4)
    await does.cancelled("hold", {"name": name}, lambda: until(lambda: f"holding {name}" in heard.logs))

    async def stopped() -> bool:
        return (await does.call("stopped", {"name": name}))["text"] == "yes"

    report["stopped"] = await until(stopped)
    await does.subscribe("note://one")
    await does.call("touch", {"uri": "note://one"})
    report["updated"] = await until(lambda: "note://one" in heard.updated)
    heard.changed.clear()
    await does.call("switch", {})
    report["changed"] = await until(lambda: "tools" in heard.changed)
    await does.call("switch", {})
    report["booked"] = await does.call("book_trip", {"city": name})
    report["came_back"] = (await does.call("come_back", {}))["text"]
    report["process"] = (await does.call("process", {}))["text"]
    return report


async def _listed(does: Any, kind: str) -> tuple[list[str], int]:
    names: list[str] = []
    pages, cursor = 0, None
    while True:
        found, cursor = await does.listed(kind, cursor)
        names += found
        pages += 1
        if not cursor:
            return names, pages
