"""2026-07-28 on the pipes of a child process."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from mcp_app.protocol.features.subscriptions import METHOD, SUBSCRIPTION_ID
from mcp_app.protocol.messages.envelope import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    SERVER_INFO,
    VERSION,
)
from mcp_app.protocol.versions import SERVED, V2026_07_28
from tests.clients.stdio_child import Child
from tests.servers.live import LiveServer
from tests.servers.warm import Installation

META = {VERSION: V2026_07_28, CLIENT_CAPABILITIES: {}, CLIENT_INFO: {"name": "raw", "version": "1"}}
SWITCH = (
    "from mcp_app.catalogue.changes.services import set_enabled; from mcp_app.models import Tool;"
    "set_enabled(entries=[Tool.objects.get(name='add')], enabled={}, actor=None)"
)
pytestmark = pytest.mark.process


def modern(params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    return {**(params or {}), "_meta": {**META, **meta}}


def counting(to: int, delay: float, **meta: Any) -> dict[str, Any]:
    return modern({"name": "count", "arguments": {"to": to, "delay_seconds": delay}}, **meta)


def listening(asked: dict[str, Any]) -> dict[str, Any]:
    return modern({"notifications": asked})


@pytest.mark.requirement("STDIO-05", "STDIO-09", "XMH-12", "LOG-03", "META-05")
def test_request_is_self_contained_without_headers(alone: Installation) -> None:
    with Child(alone) as child:
        found = child.call(0, "server/discover", modern())["result"]
        assert found["supportedVersions"] == list(SERVED)
        assert found["resultType"] == "complete"
        assert SERVER_INFO in found["_meta"]
        assert child.call("l", "tools/list", modern())["result"]["tools"]
        counted = child.call(1, "tools/call", counting(2, 0.01, progressToken=7))["result"]
        assert counted["content"][0]["text"] == "counted to 2"
        assert [message["params"]["progress"] for message in child.received] == [1, 2]
        child.received.clear()
        child.call(2, "tools/call", counting(1, 0.01, **{LOG_LEVEL: "error"}))
        # Every message of the server was a notification.
        assert not child.received
        assert child.end() == 0


@pytest.mark.requirement("STDIO-10", "T-MOD-07", "T-MOD-12", "META-01")
def test_unservable_request_returns_its_error(alone: Installation) -> None:
    cases: list[tuple[str, dict[str, Any], int]] = [
        ("server/discover", {VERSION: "2027-01-01"}, -32022),
        ("tools/list", {VERSION: "v999.0.0"}, -32022),
        ("server/discover", {CLIENT_CAPABILITIES: None}, -32602),
        (METHOD, {}, -32602),
        *((method, {}, -32601) for method in ("initialize", "ping", "logging/setLevel", "unknown/method")),
    ]
    with Child(alone) as child:
        for number, (method, meta, code) in enumerate(cases):
            error = child.call(number, method, modern(**meta))["error"]
            assert error["code"] == code, method
            if code == -32022:
                assert error["data"] == {"supported": list(SERVED), "requested": meta[VERSION]}


@pytest.mark.requirement("STDIO-09", "DISC-06")
def test_both_eras_are_served_on_one_connection(alone: Installation) -> None:
    with Child(alone) as child:
        assert child.call(1, "server/discover", modern())["result"]["resultType"] == "complete"
        assert child.initialize("2025-06-18")["protocolVersion"] == "2025-06-18"
        assert "resultType" not in child.call(2, "tools/list")["result"]
        assert child.call(3, "tools/list", modern())["result"]["resultType"] == "complete"
        assert child.call(4, "ping")["result"] == {}


@pytest.mark.requirement("STDIO-06")
def test_unexpected_response_is_ignored(alone: Installation) -> None:
    with Child(alone) as child:
        child.call(1, "server/discover", modern())
        child.send({"jsonrpc": "2.0", "id": 7, "result": {}})
        assert child.call(2, "server/discover", modern())["result"]
        assert not child.received


@pytest.mark.requirement("STDIO-07", "STDIO-11", "CAN-06", "RPC-04")
def test_cancelled_request_is_never_answered(alone: Installation) -> None:
    with Child(alone) as child:
        child.request(1, "tools/call", counting(100, 1, progressToken=1))
        assert child.call(2, "server/discover", modern())["result"]
        child.request(1, "tools/list", modern())
        assert child.answer_to(1)["error"]["code"] == -32600  # its id is in use
        child.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        child.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "1"}})
        assert child.call(3, "tools/list", modern())["result"]
        assert child.call(1, "tools/list", modern())["result"]["tools"]  # and free again
        assert not [message for message in child.received if "id" in message]
        assert child.end() == 0


def test_cancel_reaches_worker(live: LiveServer) -> None:
    with Child(live.installation) as child:
        child.request(1, "tools/call", counting(1000, 0.05, progressToken=1))
        assert child.message()["method"] == "notifications/progress"
        child.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        ended = live.shell(
            "import time; from mcp_app.models import Call\n"
            "until = time.monotonic() + 20\n"
            "while Call.objects.latest('accepted_at').state != 'cancelled' and time.monotonic() < until:\n"
            "    time.sleep(0.05)\n"
            "print(Call.objects.latest('accepted_at').state)"
        )
        assert ended.split()[-1] == "cancelled"


@pytest.mark.requirement("STDIO-08", "SUB-02", "SUB-03", "SUB-06", "SUB-07", "SUB-09", "CAN-07")
@pytest.mark.parametrize("way", ["end of file", "SIGTERM"])
def test_subscriptions_share_channel_and_end_with_answers(live: LiveServer, way: str) -> None:
    with Child(live.installation) as child:
        for request_id, asked in (("x", {"toolsListChanged": True}), (0, {"promptsListChanged": True})):
            child.request(request_id, METHOD, listening(asked))
            told = child.message()
            assert told["method"] == "notifications/subscriptions/acknowledged"
            assert told["params"] == {"notifications": asked, "_meta": {SUBSCRIPTION_ID: request_id}}
        live.shell(SWITCH.format(False))
        changed = child.message()
        assert changed["method"] == "notifications/tools/list_changed"
        assert changed["params"] == {"_meta": {SUBSCRIPTION_ID: "x"}}
        live.shell(SWITCH.format(True))
        assert child.message()["params"] == {"_meta": {SUBSCRIPTION_ID: "x"}}
        if way == "SIGTERM":
            child.process.send_signal(signal.SIGTERM)
        else:
            assert child.process.stdin is not None
            child.process.stdin.close()
        last = [child.message() for _ in range(4)]
        assert child.message() is None
        for request_id in ("x", 0):
            cancel, answer = (
                message
                for message in last
                if message.get("id", message.get("params", {}).get("requestId")) == request_id
            )
            assert cancel["method"] == "notifications/cancelled"
            assert answer["result"]["resultType"] == "complete"
            assert answer["result"]["_meta"][SUBSCRIPTION_ID] == request_id
        assert child.process.wait(timeout=10) == 0


@pytest.mark.requirement("CAN-06", "SUB-13")
def test_cancelled_subscription_is_silent_and_others_continue(live: LiveServer) -> None:
    with Child(live.installation) as child:
        for request_id in (1, 2):
            child.request(request_id, METHOD, listening({"toolsListChanged": True}))
            assert child.message()["params"]["_meta"] == {SUBSCRIPTION_ID: request_id}
        child.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        assert child.call(3, "server/discover", modern())["result"]
        live.shell(SWITCH.format(False))
        assert child.message()["params"]["_meta"] == {SUBSCRIPTION_ID: 2}
        live.shell(SWITCH.format(True))
        assert child.message()["params"]["_meta"] == {SUBSCRIPTION_ID: 2}


def test_operator_sees_and_ends_subscription(live: LiveServer) -> None:
    with Child(live.installation) as child:
        # A unique name, because rows of other tests' clients may still be open. The client record beside its
        # subscription, often written first, is not a session that could be ended.
        operated = {"name": "operated", "version": "1"}
        child.request("op", METHOD, modern({"notifications": {}}, **{CLIENT_INFO: operated}))
        child.message()
        live.shell(
            "import time; from mcp_app.models import Session\n"
            "from mcp_app.sessions.exchange import CLIENT_RECORD\n"
            "from mcp_app.sessions.services import end_session_now\n"
            "own = Session.objects.filter(client_name='operated', ended_at=None)\n"
            "while not (rows := own.exclude(pk__startswith=CLIENT_RECORD)): time.sleep(0.1)\n"
            "assert [end_session_now(session_id=row.pk) for row in rows] == [True]"
        )
        assert child.message()["method"] == "notifications/cancelled"
        assert child.answer_to("op")["result"]["resultType"] == "complete"
        assert child.call(2, "server/discover", modern())["result"]
