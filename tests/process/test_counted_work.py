"""SQL statements and Redis commands of each kind of request, counted where they arrive."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
import redis

from tests.clients.modern import Modern
from tests.clients.raw_http import EventStream
from tests.servers.live import LiveServer

pytestmark = pytest.mark.process

TIMES = 12
# The polling frequency of stream readers and of workers at Celery's queue varies.
VARYING = {
    *("XRANGE", "HMGET", "GET", "SUBSCRIBE", "UNSUBSCRIBE", "PING", "INFO", "SCRIPT"),
    *("LPUSH", "BRPOP", "MULTI", "EXEC", "ZADD", "HSET", "HDEL", "ZREM", "LLEN", "LREM"),
}
CSRF = "a" * 32
PREPARED = """
from django.contrib.auth import get_user_model
from django.test import Client
from mcp_app.auth.services import issue_api_key
from mcp_app.catalogue.changes.services import save_prompt
root = get_user_model().objects.create_superuser("root")
saved = save_prompt(actor=root, name="saved", template="Hello")
client = Client()
client.force_login(root)
print(issue_api_key(user=root, name="counted")[1], client.cookies["sessionid"].value, saved.pk)
"""


@dataclass
class Desk:
    """A client of each kind at one web process, with counters behind it."""

    live: LiveServer
    token: str
    cookie: str
    prompt: str

    def __post_init__(self) -> None:
        self.mcp = self.live.mcp(0, token=self.token)
        self.mcp.initialize(capabilities={"elicitation": {}})
        self.modern = Modern.at(
            self.live.ports[0], token=self.token, capabilities={"elicitation": {"form": {}}}
        )
        self.number = 0
        self.task = ""

    def close(self) -> None:
        self.mcp.close()
        self.modern.close()

    def next(self) -> str:
        self.number += 1
        return f"n{self.number}"

    def counted(self, request: Callable[[Desk], object]) -> tuple[Counter[str], Counter[str]]:
        """Return the statements and commands that each of many such requests took.

        What processes do now and then is less than one for each: it does not count.
        """
        for _ in range(2):
            request(self)
        written = self.live.folder / "data" / "statements"
        before = written.stat().st_size
        with redis.Redis.from_url(self.live.redis.url) as client, client.monitor() as monitor:
            seen: list[dict[str, Any]] = []
            reading = threading.Thread(target=_read_until_told, args=(monitor, seen))
            reading.start()
            # One more request, for work that follows an answer.
            for _ in range(TIMES + 1):
                request(self)
            client.echo("enough")
            reading.join(30)
        statements = Counter(written.read_bytes()[before:].decode().splitlines())
        return _of_each(statements), _of_each(Counter(map(_named, seen)))


def _read_until_told(monitor: Any, seen: list[dict[str, Any]]) -> None:
    while (command := monitor.next_command())["command"] != "ECHO enough":
        if command["client_type"] != "lua" and command["command"].partition(" ")[0].upper() not in VARYING:
            seen.append(command)


def _named(command: dict[str, Any]) -> str:
    name, _, rest = command["command"].partition(" ")
    return f"{name} {rest[:12]}" if name.upper() == "EVALSHA" else name.upper()


def _of_each(counts: Counter[str]) -> Counter[str]:
    return Counter({name: number // TIMES for name, number in counts.items() if number >= TIMES})


@pytest.fixture(scope="module")
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    worker: bool = request.param
    with LiveServer(web_processes=1, settings="tests.counting_app.settings", worker=worker) as server:
        with closing(Desk(server, *server.shell(PREPARED).split())) as made:
            yield made
        assert server.trouble() == []


def initialize(desk: Desk) -> None:
    with closing(desk.live.mcp(0, token=desk.token)) as other:
        other.initialize(confirm=False)


def initialize_and_confirm(desk: Desk) -> None:
    with closing(desk.live.mcp(0, token=desk.token)) as other:
        other.initialize()


def initialize_and_delete(desk: Desk) -> None:
    with closing(desk.live.mcp(0, token=desk.token)) as other:
        other.initialize()
        other.delete()


def call(method: str, **params: Any) -> Callable[[Desk], None]:
    def request(desk: Desk) -> None:
        assert "result" in desk.mcp.call(method, params or None)

    return request


def tool(name: str) -> Callable[[Desk], None]:
    def request(desk: Desk) -> None:
        params = {"name": name, "arguments": {"text": desk.next()}, "_meta": {"progressToken": desk.next()}}
        assert not desk.mcp.call("tools/call", params)["result"].get("isError")

    return request


def question(name: str) -> Callable[[Desk], None]:
    def request(desk: Desk) -> None:
        with desk.mcp.open_call("tools/call", {"name": name, "arguments": {}}) as stream:
            asked = stream.message(30)
            assert (
                desk.mcp.respond(asked["id"], {"action": "accept", "content": {"value": True}}).status == 202
            )
            assert "result" in stream.message(30)

    return request


def accepted(desk: Desk) -> None:
    params = {"name": "later", "arguments": {"text": desk.next()}}
    desk.mcp.open_call("tools/call", params).close()


def task(desk: Desk) -> str:
    params = {"name": "later", "arguments": {"text": desk.next()}, "task": {"ttl": 600_000}}
    return str(desk.mcp.call("tools/call", params)["result"]["task"]["taskId"])


def task_status(desk: Desk) -> None:
    desk.task = desk.task or task(desk)
    assert desk.mcp.call("tasks/get", {"taskId": desk.task})["result"]


def standalone(desk: Desk) -> None:
    """Open the stream of a new session: a session's stream is free only shortly after its client leaves."""
    with closing(desk.live.mcp(0, token=desk.token)) as other:
        other.initialize()
        other.get_stream().close()


def modern(method: str, **params: Any) -> Callable[[Desk], None]:
    def request(desk: Desk) -> None:
        answer = desk.modern.post(method, params)
        assert answer.status == 200, answer.body

    return request


def modern_tool(name: str) -> Callable[[Desk], None]:
    return lambda desk: modern("tools/call", name=name, arguments={"text": desk.next()})(desk)


def listen(desk: Desk) -> None:
    with desk.modern.open("subscriptions/listen", {"notifications": {"toolsListChanged": True}}) as stream:
        assert isinstance(stream, EventStream)
        stream.message(30)


def api(path: str) -> Callable[[Desk], None]:
    def request(desk: Desk) -> None:
        answer = desk.mcp.client.request("GET", f"/api/{path}", {"Authorization": f"Bearer {desk.token}"})
        assert answer.status == 200, answer.body

    return request


def api_call(desk: Desk) -> None:
    body = json.dumps({"tool": "later", "arguments": {"text": desk.next()}}).encode()
    headers = {"Authorization": f"Bearer {desk.token}", "Content-Type": "application/json"}
    answer = desk.mcp.client.request("POST", "/api/calls/", headers, body)
    assert answer.status in (200, 201, 202), answer.body


def admin_list(desk: Desk) -> None:
    answer = desk.mcp.client.request("GET", "/admin/mcp_app/tool/", {"Cookie": f"sessionid={desk.cookie}"})
    assert answer.status == 200, answer.body


def admin_save(desk: Desk) -> None:
    form = {
        "name": "saved", "title": desk.next(), "template": "Hello", "arguments": "[]", "icons": "[]",
        "meta": "{}", "position": "0", "enabled": "on", "csrfmiddlewaretoken": CSRF,
    }  # fmt: skip
    cookies = f"sessionid={desk.cookie}; csrftoken={CSRF}"
    headers = {"Cookie": cookies, "Content-Type": "application/x-www-form-urlencoded"}
    path = f"/admin/mcp_app/prompt/{desk.prompt}/change/"
    answer = desk.mcp.client.request("POST", path, headers, urlencode(form).encode())
    assert answer.status == 302, answer.body


REF = {"type": "ref/prompt", "name": "hello"}
COMPLETED = {"ref": REF, "argument": {"name": "name", "value": "A"}}
Request = Callable[[Desk], object]
# By kind of request: statements and commands of all processes.
WEB: dict[str, tuple[Request, int, int]] = {
    "initialize": (initialize, 0, 2),
    "initialize, initialized": (initialize_and_confirm, 0, 3),
    "initialize, initialized, DELETE": (initialize_and_delete, 0, 4),
    "initialize, initialized, GET": (standalone, 0, 7),
    "ping": (call("ping"), 0, 0),
    "tools/list": (call("tools/list"), 0, 0),
    "prompts/list": (call("prompts/list"), 0, 0),
    "resources/list": (call("resources/list"), 0, 0),
    "tools/call: at once": (tool("quick"), 0, 0),
    "tools/call: in a thread": (tool("threaded"), 0, 0),
    "tools/call: as a stream": (tool("slow"), 0, 4),
    "tools/call: with a question": (question("ask"), 0, 8),
    "resources/read": (call("resources/read", uri="counted://note"), 0, 0),
    "resources/subscribe": (call("resources/subscribe", uri="counted://note"), 0, 3),
    "prompts/get": (call("prompts/get", name="hello", arguments={"name": "Ada"}), 0, 0),
    "completion/complete": (call("completion/complete", **COMPLETED), 0, 0),
    "logging/setLevel": (call("logging/setLevel", level="info"), 0, 1),
    "2026-07-28: server/discover": (modern("server/discover"), 0, 0),
    "2026-07-28: tools/list": (modern("tools/list"), 0, 0),
    "2026-07-28: tools/call: at once": (modern_tool("quick"), 0, 0),
    "2026-07-28: resources/read": (modern("resources/read", uri="counted://note"), 0, 0),
    "2026-07-28: prompts/get": (modern("prompts/get", name="hello", arguments={"name": "Ada"}), 0, 0),
    "2026-07-28: completion/complete": (modern("completion/complete", **COMPLETED), 0, 0),
    "2026-07-28: subscriptions/listen": (listen, 0, 0),
    "API: list of tools": (api("tools/"), 2, 1),
    "admin: list of tools": (admin_list, 7, 0),
    "admin: save of a prompt": (admin_save, 35, 1),
    # These leave waiting calls, so they come last.
    "tasks/get": (task_status, 1, 1),
    "tools/call: accepted": (accepted, 1, 2),
    "tools/call: accepted as a task": (task, 1, 2),
    "API: a call": (api_call, 7, 2),
}
WORKER: dict[str, tuple[Request, int, int]] = {
    "tools/call: accepted and run": (tool("later"), 7, 3),
    "2026-07-28: tools/call: accepted and run": (modern_tool("later"), 7, 3),
    "tools/call: with a question from a worker": (question("ask_later"), 7, 8),
}


@pytest.mark.parametrize("desk", [False], indirect=True, ids=["web"])
@pytest.mark.parametrize(("request_", "statements", "commands"), WEB.values(), ids=WEB)
def test_request_statement_and_command_counts_are_unchanged(
    request_: Request, statements: int, commands: int, desk: Desk
) -> None:
    asked, sent = desk.counted(request_)
    assert (asked.total(), sent.total()) == (statements, commands), json.dumps([asked, sent], indent=1)


@pytest.mark.parametrize("desk", [True], indirect=True, ids=["with a worker"])
@pytest.mark.parametrize(("request_", "statements", "commands"), WORKER.values(), ids=WORKER)
def test_background_call_statement_and_command_counts_are_unchanged(
    request_: Request, statements: int, commands: int, desk: Desk
) -> None:
    asked, sent = desk.counted(request_)
    assert (asked.total(), sent.total()) == (statements, commands), json.dumps([asked, sent], indent=1)
