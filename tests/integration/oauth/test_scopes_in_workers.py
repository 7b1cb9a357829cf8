"""Background calls keep the scopes of the token they were accepted with, in the worker as well."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.oauth.person import PEOPLE
from tests.integration.oauth.test_doors import asked, minted
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process]
# Retries the last call as an operator does in the admin.
RETRY = """
import time
from mcp_app.execution.services import retry_call
from mcp_app.models import Call
old = Call.objects.filter(tool="held_in_worker").latest("accepted_at")
new = retry_call(call_id=old.pk, actor=None)
for _ in range(1200):
    row = Call.objects.get(pk=new)
    if row.answer:
        break
    time.sleep(0.05)
print(row.answer)
"""


@pytest.fixture(scope="module")
def with_worker() -> Iterator[LiveServer]:
    """Start a web process and a worker."""
    env = {"MCP_AUTH": "required", "MCP_APPS": "tests.integration.oauth.app"}
    with LiveServer(env=env, worker=True) as running:
        running.shell(PEOPLE)
        yield running


def result(server: LiveServer, token: str, tool: str) -> dict[str, Any]:
    """Return the result of a tool call, from JSON or from the last event of a stream."""
    answer = asked(server, "tools/call", token, name=tool, arguments={})
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data: ")][-1].removeprefix("data: ")
    told: dict[str, Any] = json.loads(text)["result"]
    return told


@pytest.mark.requirement("AUTH-50")
@pytest.mark.parametrize(("scope", "administers"), [("mcp mcp:tools", False), ("mcp:admin", True)])
def test_worker_code_has_the_permissions_of_the_call_token(
    with_worker: LiveServer, scope: str, administers: bool
) -> None:
    token = minted(with_worker, scope)
    here = result(with_worker, token, "held")["structuredContent"]
    there = result(with_worker, token, "held_in_worker")["structuredContent"]
    assert there == here
    assert (here["administers"], here["other"]) == (administers, True)
    assert "mcp:tools" in here["scopes"]


def test_admin_tool_runs_in_a_worker_with_an_admin_token(
    with_worker: LiveServer,
) -> None:
    told = result(with_worker, minted(with_worker, "mcp:admin"), "for_administrators")
    assert told["structuredContent"]["administers"] is True


@pytest.mark.requirement("AUTH-50")
def test_retried_call_keeps_the_scopes_of_its_token(with_worker: LiveServer) -> None:
    result(with_worker, minted(with_worker, "mcp:tools"), "held_in_worker")
    said = with_worker.shell(RETRY)
    assert '"scopes":["mcp","mcp:tools"]' in said.replace(" ", "").replace("\\", "")
    assert '"administers":false' in said.replace(" ", "").replace("\\", "")
