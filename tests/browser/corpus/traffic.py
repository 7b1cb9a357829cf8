"""A client that sends hostile text in every field to a live server."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

from tests.browser.corpus.planted import planted
from tests.clients.raw_http import EventStream, Mcp
from tests.servers.live import LiveServer, eventually

ASCII = {"hidden": False}
CAPABILITIES = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {},
    "roots": {},
    "experimental": {planted("client.capability"): {planted("client.capability_key"): True}},
}


class HostileClient:
    """A session; ``said`` posts anything and ignores the response."""

    def __init__(self, server: LiveServer, process: int) -> None:
        self.mcp: Mcp = server.mcp(process)
        self._number = 0

    def initialize(self) -> None:
        """Open the session."""
        info = {
            "name": planted("client.name", 200),
            "title": planted("client.title"),
            "version": planted("client.version", 100),
            "websiteUrl": "javascript:window.pwned=40",
            "icons": [{"src": "javascript:window.pwned=41", "mimeType": planted("client.icon_type")}],
        }
        params = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": info}
        answer = self.said("initialize", params)
        assert answer.status == 200, answer.body
        self.mcp.session, self.mcp.version = answer.headers["mcp-session-id"], "2025-11-25"
        self.mcp.notify("notifications/initialized")

    def said(self, method: str, params: Any = None, **more: Any) -> Any:
        """Send one request with a hostile id and hostile headers."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": f"{self._number} {planted('request.id', 90)}", "method": method}
        message |= {"params": params} if params is not None else {}
        headers = {
            "User_Agent": planted("header.user_agent", 300, **ASCII),
            "Referer": "javascript:window.pwned=42",
            "X_Request_Id": planted("header.request_id", 200, **ASCII),
            "Baggage": planted("header.baggage", 200, **ASCII),
        }
        return self.mcp.post({**message, **more}, **headers)

    def tell(self, method: str, params: Any = None) -> None:
        """Send one notification."""
        self.mcp.notify(method, params)

    def open(self, name: str, arguments: Any, token: Any = None) -> EventStream:
        """Open the stream of a call."""
        meta = {"progressToken": token or planted("request.token", 900), planted("request.meta_key"): "x"}
        return self.mcp.open_call("tools/call", {"name": name, "arguments": arguments, "_meta": meta})

    def answered(self, stream: EventStream) -> Any:
        """Answer every server request on a stream until its call ends; return the last message."""
        message = None
        while (message := stream.message()) is not None and "method" in message:
            if "id" in message:
                self.mcp.respond(message["id"], ANSWERS[message["method"], message["params"].get("mode")])
        stream.close()
        return message


ANSWERS: dict[tuple[str, str | None], dict[str, Any]] = {
    ("elicitation/create", "form"): {
        "action": "accept",
        "content": {"name": planted("answer.value"), planted("answer.key"): planted("answer.other")},
    },
    ("elicitation/create", "url"): {"action": "accept", "_meta": {"x": planted("answer.meta")}},
    ("sampling/createMessage", None): {
        "role": "assistant",
        "content": {"type": "text", "text": planted("sample.text")},
        "model": planted("sample.model"),
        "stopReason": planted("sample.stop_reason"),
    },
    ("roots/list", None): {
        "roots": [{"uri": "file:///" + planted("root.uri"), "name": planted("root.name")}]
    },
}


def _requests(client: HostileClient) -> None:
    """Send requests that are answered immediately, mostly with an error that contains their text."""
    arguments = {
        planted("request.argument_key"): planted("request.argument_value"),
        "__proto__": {"pwned": 1},
    }
    meta = {"traceparent": planted("request.traceparent"), "progressToken": planted("request.token", 900)}
    said = client.said
    said("tools/call", {"name": "hostile_error", "arguments": arguments, "_meta": meta})
    said("tools/call", {"name": planted("request.tool", 128), "arguments": arguments})
    said("tools/call", {"name": "hostile_results", "arguments": arguments})
    said("tools/call", {"name": "hostile_results", "arguments": {"choice": "plain"}})
    said(
        "tools/call",
        {"name": "hostile_error", "arguments": {"nested": {"deep": [{planted("request.deep"): [1]}]}}},
    )
    said("tools/call", {"name": [planted("request.list")], "arguments": planted("request.not_an_object")})
    said(planted("request.method", 300), {"x": planted("request.params")})
    said("resources/read", {"uri": "javascript:window.pwned=43//" + planted("request.uri", 300)})
    said("resources/read", {"uri": "planted://page"})
    said(
        "resources/read",
        {"uri": "planted://of/" + planted("request.segment", 90, **ASCII).replace("/", "%2F")},
    )
    said("resources/subscribe", {"uri": planted("request.subscription")})
    said(
        "prompts/get",
        {"name": planted("request.prompt", 200), "arguments": {planted("request.prompt_key"): "x"}},
    )
    said("prompts/get", {"name": "hostile_prompt", "arguments": {"city": planted("request.city")}})
    reference = {"type": "ref/prompt", "name": planted("request.reference", 200)}
    said(
        "completion/complete",
        {"ref": reference, "argument": {"name": planted("request.completed"), "value": "x"}},
    )
    said("logging/setLevel", {"level": planted("request.level")})
    said("logging/setLevel", {"level": "debug"})
    said("tools/list", {"cursor": planted("request.cursor")})
    said("ping", planted("request.string_params"))
    client.mcp.post(planted("body.not_json").encode())
    client.mcp.post([{"jsonrpc": "2.0", "id": planted("request.batch"), "method": "ping"}])
    client.mcp.post(
        {"jsonrpc": planted("request.jsonrpc"), "id": {planted("request.odd_id"): 1}, "method": "ping"}
    )
    client.mcp.post(
        client.mcp.request_message("ping"), Origin="http://" + planted("header.origin", 200, **ASCII)
    )
    client.mcp.post(
        client.mcp.request_message("ping"), Authorization=planted("header.authorization", 200, **ASCII)
    )
    client.mcp.post(
        client.mcp.request_message("ping"), Mcp_Session_Id=planted("header.session", 200, **ASCII)
    )
    client.mcp.post(
        client.mcp.request_message("ping"), MCP_Protocol_Version=planted("header.version", 200, **ASCII)
    )


def _notifications(client: HostileClient) -> None:
    tell = client.tell
    tell(
        "notifications/cancelled",
        {"requestId": planted("cancel.id"), "reason": planted("cancel.unknown_reason")},
    )
    tell("notifications/progress", {"progressToken": planted("notice.token"), "progress": 1,
                                    "message": planted("notice.progress")})  # fmt: skip
    tell("notifications/message", {"level": planted("notice.level"), "logger": planted("notice.logger"),
                                   "data": {planted("notice.key"): planted("notice.data")}})  # fmt: skip
    tell("notifications/" + planted("notice.method", 200), {"x": planted("notice.params")})
    client.mcp.respond(planted("response.id"), {planted("response.key"): planted("response.value")})
    client.mcp.respond(
        7, error={"code": 1, "message": planted("response.error"), "data": planted("response.data")}
    )


def _jobs(server: LiveServer, client: HostileClient) -> None:
    """Start background calls: one runs on, one is cancelled, one fails, three wait for approval."""
    arguments = {planted("job.argument_key"): planted("job.argument")}
    client.open("hostile_job", arguments).close()
    stopped = client.open("hostile_job", {**arguments, "n": 2})
    eventually(lambda: "method" in stopped.message(), 30, "the first word of a job")
    reason = {"requestId": client.mcp.next_id, "reason": planted("cancel.reason", 190)}
    client.tell("notifications/cancelled", reason)
    stopped.close()
    failed = client.open("hostile_job", {**arguments, "fail": True})
    assert failed.messages(30)[-1]["result"]["isError"]
    failed.close()
    for number in range(3):
        client.open("hostile_gate", {**arguments, "n": number}).close()


def talk(server: LiveServer) -> None:
    """Run two sessions with all hostile texts; the first stays open with a job, the second refuses every
    request.
    """
    client = HostileClient(server, 1)
    client.initialize()
    _requests(client)
    _notifications(client)
    result = client.answered(client.open("hostile_talk", {planted("talk.key"): planted("talk.value")}))
    assert "sample.model" in json.dumps(result), result
    _jobs(server, client)
    with closing(HostileClient(server, 0).mcp) as other:
        rude = HostileClient(server, 0)
        rude.mcp = other
        rude.initialize()
        stream = rude.open("hostile_talk", {})
        while "id" not in (question := stream.message()):
            pass
        rude.mcp.respond(question["id"], error={"code": -1, "message": planted("client.error"), "data": "x"})
        stream.messages()
        stream.close()
        rude.mcp.delete()
    client.mcp.close()
