"""Calls of another server run in web processes and in a real worker, and share sessions over processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.clients.raw_http import Mcp
from tests.servers.live import LiveServer, eventually
from tests.servers.sdk_server import SdkServer, sdk_server

ADD = """
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.upstreams import importing, refreshing, storing
row = storing.save_upstream(actor=None, name="crm", url={url!r}, era="legacy")
refreshing.refresh(upstream=row, actor=None)
row.refresh_from_db()
tools = ["search", "steps", "counter", "wait"]
done = importing.import_tools(upstream=row, tools=tools, actor=None, publish=True)
assert not done.skipped, done.skipped
from mcp_app.models import Tool
for name in ("crm_steps", "crm_wait"):
    services.update_entry(entry=Tool.objects.get(name=name), actor=None, background=True)
"""


@pytest.fixture(scope="module")
def site() -> Iterator[SdkServer]:
    with sdk_server() as found:
        yield found


@pytest.fixture(scope="module")
def live(site: SdkServer) -> Iterator[LiveServer]:
    with LiveServer(2, worker=True, env={"DEMO": "off", "EGRESS_ALLOW": "127.0.0.0/8"}) as server:
        server.shell(ADD.format(url=site.url))
        yield server


def opened(live: LiveServer, process: int = 0) -> Mcp:
    client = live.mcp(process)
    client.initialize()
    eventually(lambda: "crm_search" in str(client.call("tools/list")), what="the new tools")
    return client


def test_background_call_runs_in_a_worker_with_progress(live: LiveServer) -> None:
    with closing(opened(live)) as client:
        params = {"name": "crm_steps", "arguments": {"number": 3}, "_meta": {"progressToken": 7}}
        with client.open_call("tools/call", params) as stream:
            *before, last = stream.messages()
    progress = [each["params"]["progress"] for each in before if each["method"] == "notifications/progress"]
    assert last["result"]["content"][0]["text"] == "3 steps"
    assert progress[-1] == 3


def test_cancelled_background_call_is_cancelled_at_the_server(live: LiveServer, site: SdkServer) -> None:
    params = {"name": "crm_wait", "arguments": {}}
    with closing(opened(live)) as client, client.open_call("tools/call", params):
        assert site.waiting.wait(20)
        client.notify("notifications/cancelled", {"requestId": client.next_id})
        assert site.stopped.wait(20)


def test_processes_use_one_session_for_a_client(live: LiveServer) -> None:
    with ExitStack() as stack:
        found = [stack.enter_context(closing(opened(live))) for _ in range(2)]
        at = [[stack.enter_context(closing(each.via(port))) for each in found] for port in live.ports]
        for number, client in enumerate(client for clients in at for client in clients):
            client.next_id += 1_000 * number
        answers = [client.tool("crm_counter") for _ in range(2) for clients in at for client in clients]
        counts = [answer["result"]["content"][0]["text"] for answer in answers]
    assert counts == ["1", "1", "2", "2", "3", "3", "4", "4"]
