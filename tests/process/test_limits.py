"""Limits in two web processes: a change reaches both, and both count together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.clients.raw_http import Mcp
from tests.servers.live import LiveServer, eventually

pytestmark = pytest.mark.process
# A changed limit is promised within this time. A lost broadcast would take as long.
APPLIED_SECONDS = 10.0
CALM = ("mcp_limit", "add", "calm", "--who", "installation")


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with LiveServer(2) as server:
        yield server


def is_admitted(client: Mcp) -> bool:
    """Return True if a call was admitted. The wait of the limit is long, so a refusal is a tool error."""
    return not client.tool("echo", text="x")["result"].get("isError", False)


def test_changed_limit_is_applied_by_both_processes_and_counted_together(live: LiveServer) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(live.mcp(number))) for number in (0, 1)]
        for client in clients:
            client.initialize()
        assert all(is_admitted(client) for client in clients)
        for amount in (("--rate", "6/day"), ("--budget", "20/month")):
            live.manage(*CALM, *amount)
            eventually(lambda: not any(map(is_admitted, clients)), APPLIED_SECONDS, f"the limit {amount}")
            live.manage("mcp_limit", "remove", "calm")
            eventually(lambda: all(map(is_admitted, clients)), APPLIED_SECONDS, "the removal")


def test_limit_of_a_toolset_holds_at_its_address_only(live: LiveServer) -> None:
    live.manage("mcp_toolset", "add", "team", "--tool", "echo")
    live.manage(*CALM, "--what", "toolset:team", "--budget", "2/month")
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(live.mcp(number))) for number in (0, 0, 1)]
        clients[0].path = clients[2].path = "/mcp/team"
        for client in clients:
            client.initialize()
        at_team, whole, at_other_process = clients
        eventually(lambda: not is_admitted(at_team), APPLIED_SECONDS, "the limit of the toolset")
        eventually(lambda: not is_admitted(at_other_process), APPLIED_SECONDS, "the limit in both processes")
        assert all(is_admitted(whole) for _ in range(5))
