"""Dialects of early clients on stdio; the rest of stdio is in test_sessions.py."""

from __future__ import annotations

import pytest

from tests.clients.stdio_child import Child
from tests.servers.warm import Installation

pytestmark = pytest.mark.process


@pytest.mark.requirement("DLG-000-01", "DLG-000-03", "DLG-000-05", "DLG-000-11", "DLG-001-01")
def test_early_client_is_understood_from_its_first_line(alone: Installation) -> None:
    with Child(alone) as child:
        client = {"name": "early", "version": "0"}
        answer = child.call(1, "initialize", {"capabilities": {"tools": {}}, "clientInfo": client})
        assert answer["result"]["protocolVersion"] == "2024-11-05"
        child.send({"jsonrpc": "2.0", "method": "initialized"})
        child.send({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        assert child.answer_to(2)["result"]["tools"]
        # Without an id it is a notification, so the next answer is that of the ping.
        child.send({"jsonrpc": "2.0", "method": "resources/list", "params": {"cursor": "x"}})
        child.send([{"jsonrpc": "2.0", "id": 3, "method": "ping"}])
        assert child.message() == [{"jsonrpc": "2.0", "id": 3, "result": {}}]
        assert child.received == []
        child.send({"jsonrpc": "2.0", "method": "exit"})
        assert child.process.wait(timeout=10) == 0
