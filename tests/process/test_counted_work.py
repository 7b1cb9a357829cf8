"""SQL statements and Redis commands of each kind of request, counted where they arrive."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from tests.clients.modern import Modern
from tests.clients.raw_http import EventStream
from tests.clients.raw_sse import HttpSseClient
from tests.servers import postgres
from tests.servers.live import LiveServer, eventually
from tests.servers.redis_monitor import monitored

pytestmark = pytest.mark.process

WARM_UP, TIMES, MEASUREMENTS = 2, 12, 3
# The polling frequency of stream readers and of workers at Celery's queue varies.
VARYING = {
    *("XRANGE", "HMGET", "GET", "SUBSCRIBE", "UNSUBSCRIBE", "PING", "INFO", "SCRIPT"),
    *("LPUSH", "BRPOP", "MULTI", "EXEC", "ZADD", "HSET", "HDEL", "ZREM", "LLEN", "LREM"),
}
CSRF = "a" * 32
ELICITATION: dict[str, Any] = {"elicitation": {"form": {}}}
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
PREPARED = """
from django.contrib.auth import get_user_model
from django.test import Client
from mcp_app.auth.api_keys import issue_api_key
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
    database: str
    token: str
    cookie: str
    prompt: str

    def __post_init__(self) -> None:
        self.mcp = self.live.mcp(0, token=self.token)
        self.mcp.initialize(capabilities={"elicitation": {}})
        self.modern = Modern.at(self.live.ports[0], token=self.token, capabilities=ELICITATION)
        self.tasks = Modern.at(self.live.ports[0], token=self.token, capabilities={**ELICITATION, **TASKS})
        self.sse = HttpSseClient(self.live.ports, token=self.token)
        self.number = 0
        self.task = self.modern_task = ""
        # The open question of each task that asks, and the subscription to these tasks.
        self.asking: dict[str, str] = {}
        self.news: EventStream | None = None

    def close(self) -> None:
        for client in (self.mcp, self.modern, self.tasks, self.sse, self.news):
            if client is not None:
                client.close()

    def next(self) -> str:
        self.number += 1
        return f"n{self.number}"

    def counted(self, request: Callable[[Desk], object]) -> tuple[Counter[str], Counter[str]]:
        """Return the statements and commands that each of many such requests took.

        Periodic work of processes amounts to less than one per request and is not counted.
        """
        for _ in range(WARM_UP):
            request(self)
        written = self.live.folder / "data" / "statements"
        before = written.stat().st_size
        seen: list[dict[str, Any]] = []
        with monitored(self.live.redis.url, seen.append):
            # One more request, for work that follows an answer.
            for _ in range(TIMES + 1):
                request(self)
        commands = (command for command in seen if _is_counted(command))
        statements = Counter(written.read_bytes()[before:].decode().splitlines())
        return _of_each(statements), _of_each(Counter(map(_named, commands)))


def _is_counted(command: dict[str, Any]) -> bool:
    name = command["command"].partition(" ")[0].upper()
    return command["client_type"] != "lua" and name not in VARYING


def _named(command: dict[str, Any]) -> str:
    name, _, rest = command["command"].partition(" ")
    return f"{name} {rest[:12]}" if name.upper() == "EVALSHA" else name.upper()


def _of_each(counts: Counter[str]) -> Counter[str]:
    return Counter({name: number // TIMES for name, number in counts.items() if number >= TIMES})


@pytest.fixture(scope="module")
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    database, worker = request.param
    if database == "postgresql" and postgres.binaries() is None:
        pytest.skip(postgres.MISSING)
    with ExitStack() as stack:
        env = {}
        if database == "postgresql":
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcp-pg-")))
            running = stack.enter_context(postgres.PostgreSQL(folder))
            running.create_tables()
            env["DATABASE_URL"] = running.url
        server = stack.enter_context(
            LiveServer(web_processes=1, settings="tests.counting_app.settings", worker=worker, env=env)
        )
        with closing(Desk(server, database, *server.shell(PREPARED).split())) as made:
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


def in_tasks(desk: Desk, method: str, **params: Any) -> dict[str, Any]:
    result: dict[str, Any] = desk.tasks.post(method, params).json()["result"]
    return result


def modern_task(desk: Desk) -> str:
    """Return the id of a new task."""
    created = in_tasks(desk, "tools/call", name="later", arguments={"text": desk.next()})
    return str(created["taskId"])


def in_modern_task(method: str, **params: Any) -> Callable[[Desk], None]:
    """Return a request about one task, which is created first."""

    def request(desk: Desk) -> None:
        desk.modern_task = desk.modern_task or modern_task(desk)
        in_tasks(desk, method, taskId=desk.modern_task, **params)

    return request


def modern_task_cancelled(desk: Desk) -> None:
    in_tasks(desk, "tasks/cancel", taskId=modern_task(desk))


def open_question(desk: Desk, task: str) -> str:
    """Return the name of the question of a task, once it has been asked."""
    eventually(lambda: in_tasks(desk, "tasks/get", taskId=task)["status"] == "input_required", 30)
    return str(*in_tasks(desk, "tasks/get", taskId=task)["inputRequests"])


def begin_asking(desk: Desk) -> None:
    """Create as many tasks with open questions as one measurement answers, and subscribe to them."""
    tasks = [
        str(in_tasks(desk, "tools/call", name="ask_later", arguments={})["taskId"])
        for _ in range(WARM_UP + TIMES + 1)
    ]
    desk.asking = {task: open_question(desk, task) for task in tasks}
    if desk.news is not None:
        desk.news.close()
    desk.news = desk.tasks.open("subscriptions/listen", {"notifications": {"taskIds": tasks}})


def modern_task_answered(desk: Desk) -> None:
    if not desk.asking:
        begin_asking(desk)
    assert desk.news is not None
    task, question = desk.asking.popitem()
    answer = {"action": "accept", "content": {"value": True}}
    in_tasks(desk, "tasks/update", taskId=task, inputResponses={question: answer})
    news: dict[str, Any] = {}
    while (news.get("taskId"), news.get("status")) != (task, "completed"):
        news = desk.news.message(30)["params"]


def listen(desk: Desk) -> None:
    with desk.modern.open("subscriptions/listen", {"notifications": {"toolsListChanged": True}}) as stream:
        assert isinstance(stream, EventStream)
        stream.message(30)


def sse_open(desk: Desk) -> None:
    with HttpSseClient(desk.live.ports, token=desk.token) as other:
        other.open()


def sse_initialize(desk: Desk) -> None:
    with HttpSseClient(desk.live.ports, token=desk.token) as other:
        other.open()
        other.initialize()
        # The stream is closed once nothing follows `initialized`.
        other.call("ping")


def sse_tool(name: str) -> Callable[[Desk], None]:
    def request(desk: Desk) -> None:
        if desk.sse.stream is None:
            desk.sse.open()
            desk.sse.initialize()
        params = {"name": name, "arguments": {"text": desk.next()}, "_meta": {"progressToken": desk.next()}}
        assert not desk.sse.call("tools/call", params)["result"].get("isError")

    return request


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


class Kind(NamedTuple):
    """A kind of request, and the statements and commands that all processes need for one."""

    request: Callable[[Desk], object]
    sqlite: int
    postgresql: int
    commands: int


WEB: dict[str, Kind] = {
    "initialize": Kind(initialize, 0, 0, 2),
    "initialize, initialized": Kind(initialize_and_confirm, 0, 0, 3),
    "initialize, initialized, DELETE": Kind(initialize_and_delete, 0, 0, 4),
    "initialize, initialized, GET": Kind(standalone, 0, 0, 7),
    "ping": Kind(call("ping"), 0, 0, 0),
    "tools/list": Kind(call("tools/list"), 0, 0, 0),
    "prompts/list": Kind(call("prompts/list"), 0, 0, 0),
    "resources/list": Kind(call("resources/list"), 0, 0, 0),
    "tools/call: at once": Kind(tool("quick"), 0, 0, 0),
    "tools/call: in a thread": Kind(tool("threaded"), 0, 0, 0),
    "tools/call: as a stream": Kind(tool("slow"), 0, 0, 4),
    "tools/call: with a question": Kind(question("ask"), 0, 0, 8),
    "resources/read": Kind(call("resources/read", uri="counted://note"), 0, 0, 0),
    "resources/subscribe": Kind(call("resources/subscribe", uri="counted://note"), 0, 0, 3),
    "prompts/get": Kind(call("prompts/get", name="hello", arguments={"name": "Ada"}), 0, 0, 0),
    "completion/complete": Kind(call("completion/complete", **COMPLETED), 0, 0, 0),
    "logging/setLevel": Kind(call("logging/setLevel", level="info"), 0, 0, 1),
    "2026-07-28: server/discover": Kind(modern("server/discover"), 0, 0, 0),
    "2026-07-28: tools/list": Kind(modern("tools/list"), 0, 0, 0),
    "2026-07-28: tools/call: at once": Kind(modern_tool("quick"), 0, 0, 0),
    "2026-07-28: resources/read": Kind(modern("resources/read", uri="counted://note"), 0, 0, 0),
    "2026-07-28: prompts/get": Kind(modern("prompts/get", name="hello", arguments={"name": "Ada"}), 0, 0, 0),
    "2026-07-28: completion/complete": Kind(modern("completion/complete", **COMPLETED), 0, 0, 0),
    "2026-07-28: subscriptions/listen": Kind(listen, 0, 0, 0),
    "HTTP+SSE: opening": Kind(sse_open, 0, 0, 8),
    "HTTP+SSE: opening, initialize, initialized, ping": Kind(sse_initialize, 0, 0, 27),
    "HTTP+SSE: tools/call: at once": Kind(sse_tool("quick"), 0, 0, 6),
    "HTTP+SSE: tools/call: as a stream": Kind(sse_tool("slow"), 0, 0, 8),
    "API: list of tools": Kind(api("tools/"), 2, 2, 1),
    # PostgreSQL: one more, so that the sums of calls are read by the index.
    "admin: list of tools": Kind(admin_list, 10, 11, 0),
    "admin: save of a prompt": Kind(admin_save, 35, 34, 1),
    # These leave waiting calls, so they come last.
    "tasks/get": Kind(task_status, 1, 1, 1),
    "tools/call: accepted": Kind(accepted, 1, 1, 2),
    "tools/call: accepted as a task": Kind(task, 1, 1, 2),
    "2026-07-28: tools/call: accepted as a task": Kind(modern_task, 1, 1, 3),
    "2026-07-28: tasks/get": Kind(in_modern_task("tasks/get"), 1, 1, 0),
    "2026-07-28: tasks/update: no open question": Kind(
        in_modern_task("tasks/update", inputResponses={"x": {"action": "decline"}}), 2, 2, 0
    ),
    "2026-07-28: tools/call, tasks/cancel": Kind(modern_task_cancelled, 5, 5, 5),
    "API: a call": Kind(api_call, 7, 6, 2),
}
WORKER: dict[str, Kind] = {
    "tools/call: accepted and run": Kind(tool("later"), 7, 7, 3),
    "2026-07-28: tools/call: accepted and run": Kind(modern_tool("later"), 7, 7, 3),
    "2026-07-28: tasks/update: answered and run": Kind(modern_task_answered, 14, 14, 4),
    "HTTP+SSE: tools/call: accepted and run": Kind(sse_tool("later"), 7, 7, 7),
    "tools/call: with a question from a worker": Kind(question("ask_later"), 7, 7, 8),
}


def assert_counts(kind: Kind, desk: Desk) -> None:
    stated = getattr(kind, desk.database), kind.commands
    # On a busy machine a worker looks for its next call when there is one, or once more when there is none.
    for _ in range(MEASUREMENTS):
        asked, sent = desk.counted(kind.request)
        if (asked.total(), sent.total()) == stated:
            return
    pytest.fail(f"{stated} are stated. {json.dumps([asked, sent], indent=1)}")


DATABASES = ("sqlite", "postgresql")


@pytest.mark.parametrize("desk", [(name, False) for name in DATABASES], indirect=True, ids=DATABASES)
@pytest.mark.parametrize("kind", WEB.values(), ids=WEB)
def test_request_statement_and_command_counts_are_unchanged(kind: Kind, desk: Desk) -> None:
    assert_counts(kind, desk)


@pytest.mark.parametrize("desk", [(name, True) for name in DATABASES], indirect=True, ids=DATABASES)
@pytest.mark.parametrize("kind", WORKER.values(), ids=WORKER)
def test_background_call_statement_and_command_counts_are_unchanged(kind: Kind, desk: Desk) -> None:
    assert_counts(kind, desk)
