"""LOG_FORMAT=json: one object a line from every process and logger, with the ids of the call."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.integration.tracing.conftest import PARENT, TRACE, converse, known, records
from tests.servers.live import LiveServer, eventually


def line(server: LiveServer, mark: str) -> dict[str, Any]:
    """Return the only record that contains ``mark``."""
    eventually(lambda: any(mark in found["message"] for found in records(server)))
    (found,) = [found for found in records(server) if mark in found["message"]]
    return found


@pytest.mark.parametrize("tool", ["look", "look_in_thread", "look_in_worker"])
def test_log_record_of_a_tool_has_session_request_and_trace_ids(
    tool: str, server: LiveServer, client: Mcp
) -> None:
    mark = secrets.token_hex(8)
    known(client, tool, {"traceparent": PARENT}, mark=mark)
    found = line(server, mark)
    assert (client.session or "").startswith(found["session"])
    assert len(found["session"]) == 12
    assert found["principal"] == "loopback"
    assert isinstance(found["request_id"], int)
    assert (found["trace_id"], found["logger"], found["level"]) == (TRACE, "shop", "WARNING")
    assert ("call" in found) is (tool == "look_in_worker")


def test_failed_tool_logs_one_line_despite_hostile_text(server: LiveServer, client: Mcp) -> None:
    words = 'x\n{"level": "ERROR", "message": "forged"}\n\x1b[2J\u202e'
    answer = converse(client, "fail", text=words)[-1]
    incident = answer["result"]["content"][0]["text"].rpartition(" ")[2].rstrip(").")
    found = line(server, incident)
    assert found["exception"].endswith(f"RuntimeError: {words}")
    assert found["call"]
    assert not [record for record in records(server) if record["message"] == "forged"]
    assert "\x1b" not in server.logs()


def test_every_log_line_of_every_process_is_a_complete_object(server: LiveServer, client: Mcp) -> None:
    converse(client, "fail", text="again")
    server.worker_processes[0].stop()
    server.worker_processes[0].start(server.environment)
    server.wait_until_ready()
    found = records(server)
    assert {"shop", "mcp.tool"} <= {record["logger"] for record in found}
    for record in found:
        assert record.keys() >= {"time", "level", "logger", "message", "process", "pid"}, record
    assert json.dumps(found)
