"""Count our functions and files that each path enters: ``python -m benchmarks.hops``.

A web process and a worker's child live in this one process, on an embedded Redis and SQLite. Each path
is taken several times; only code entered every time counts, so timers that fire meanwhile do not.
Comprehensions do not count: they are part of their function, whether or not this version of Python
calls them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
OURS = (f"{ROOT}/mcp_app/", f"{ROOT}/mcpsite/")
ROUNDS = 6
TIMED_CALLS, TIMED_ROUNDS = 5_000, 9
HEADERS = [
    (b"host", b"127.0.0.1:8000"),
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
]
SCOPE = {"type": "http", "method": "POST", "path": "/mcp", "client": ("127.0.0.1", 9)}

Entered = set[CodeType]
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


class Recorder:
    """A recorder of the code that threads enter, separately for the web process' event loop."""

    def __init__(self) -> None:
        self.on = False
        self.within = ""
        self.during: threading.Event | None = None
        self.web: Entered = set()
        self.rest: Entered = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if not self.on or event != "call" or not _is_ours(frame.f_code):
            return
        if threading.current_thread().name != "web":
            if self.during is None or self.during.is_set():
                self.rest.add(frame.f_code)
        elif not self.within or any(code.co_qualname == self.within for code in _stack(frame)):
            self.web.add(frame.f_code)

    def record(
        self,
        path: Callable[[], Any],
        within: str = "",
        during: threading.Event | None = None,
        before: Callable[[], Any] = lambda: None,
    ) -> tuple[Entered, Entered]:
        """Return the code that ``path`` enters every time: in the web process' event loop, and elsewhere.

        ``within``: of the event loop, count only that function and its callees. ``during``: elsewhere,
        count only code entered while it is set. ``before`` is called first and not counted.
        """
        self.within, self.during = within, during
        before()
        path()  # Initialization at first use does not count.
        webs, rests = [], []
        for _ in range(ROUNDS):
            before()
            self.web, self.rest, self.on = set(), set(), True
            path()
            time.sleep(0.02)  # Work after the response counts as well.
            self.on = False
            webs.append(self.web)
            rests.append(self.rest)
        return set.intersection(*webs), set.intersection(*rests)


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(OURS) and code.co_name not in COMPREHENSIONS


def _stack(frame: FrameType | None) -> Iterator[CodeType]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


class Web:
    """A web process whose event loop runs in its own thread and is called from outside."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="web", daemon=True).start()
        self._ids = iter(range(1, 1_000_000))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def start(self) -> None:
        from mcp_app.transports.application import mcp
        from mcp_app.transports.streamable_http.shortcut.quick_endpoint import QuickEndpoint

        self.run(mcp.start())
        assert isinstance(mcp.endpoint, QuickEndpoint)
        self.endpoint = mcp.endpoint
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "hops", "version": "1"},
        }
        head, _ = self.post({"method": "initialize", "id": 0, "params": params}, HEADERS)
        named = dict(head["headers"])[b"mcp-session-id"]
        self.headers = [*HEADERS, (b"mcp-session-id", named), (b"mcp-protocol-version", b"2025-11-25")]
        self.post({"method": "notifications/initialized"})

    def close(self) -> None:
        from mcp_app.transports.application import mcp

        self.run(mcp.close())

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if tool == "report":
            params["_meta"] = {"progressToken": 1}
        return {"method": "tools/call", "id": next(self._ids), "params": params}

    def post(self, message: dict[str, Any], headers: Any = None) -> tuple[Any, bytes]:
        """Return the start and the body of the response; for a stream, its first bytes."""
        return self.run(self._post(message, headers or self.headers))

    async def _post(self, message: dict[str, Any], headers: Any) -> tuple[Any, bytes]:
        sent: list[MutableMapping[str, Any]] = []
        bodies = iter([{"type": "http.request", "body": json.dumps({"jsonrpc": "2.0", **message}).encode()}])
        gone = asyncio.Event()

        async def receive() -> MutableMapping[str, Any]:
            found = next(bodies, None)
            if found is None:
                await gone.wait()
            return found or {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)
            if message.get("more_body"):
                gone.set()

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "headers": headers,
            "client": ("127.0.0.1", 9),
        }
        await self.endpoint(scope, receive, send)
        assert sent[0]["status"] in (200, 202), sent
        return sent[0], sent[1]["body"]

    def quick(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()

        async def ask() -> bytes | None:
            return self.endpoint.quick(self.headers, body, "127.0.0.1")

        answer = self.run(ask())
        assert answer is not None
        assert b"hello" in answer, answer

    def microseconds(self, message: dict[str, Any]) -> tuple[float, float]:
        """Return the time of one call by the shortcut and by ASGI: the best of several unprofiled rounds."""
        return min(self.run(self._timed(message, quick=True)) for _ in range(TIMED_ROUNDS)), min(
            self.run(self._timed(message, quick=False)) for _ in range(TIMED_ROUNDS)
        )

    async def _timed(self, message: dict[str, Any], *, quick: bool) -> float:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        found = {"type": "http.request", "body": body}

        async def receive() -> MutableMapping[str, Any]:
            return found

        async def send(_: MutableMapping[str, Any]) -> None:
            return

        times = []
        for _ in range(5):
            started = time.perf_counter()
            for _ in range(TIMED_CALLS // 5):
                if quick:
                    self.endpoint.quick(self.headers, body, "127.0.0.1")
                else:
                    await self.endpoint({**SCOPE, "headers": self.headers}, receive, send)
            times.append((time.perf_counter() - started) / (TIMED_CALLS // 5) * 1e6)
        return statistics.median(times)


class Paths:
    """The measured paths. Each makes one call from start to end."""

    def __init__(self, web: Web, worker: Any) -> None:
        self._web, self._worker = web, worker
        self._answered: set[str] = set()
        self._waiting: Any = None

    def make(self, tool: str) -> None:
        """Queue one call of a tool and no other: a worker continues with queued calls."""
        from mcp_app.models import Call

        Call.objects.filter(state="accepted").delete()
        self._web.post(self._web.call(tool))
        self._waiting = Call.objects.get(state="accepted").pk

    def short_cut(self) -> None:
        self._web.quick(self._web.call("echo", text="hello"))

    def echo(self) -> None:
        self._web.post(self._web.call("echo", text="hello"))

    def echo_in_task(self) -> None:
        self._web.post(self._web.call("echo_in_task", text="hello"))

    def accept(self) -> None:
        self._web.post(self._web.call("report"))

    def work(self) -> None:
        assert self._worker.run(self._waiting) == "ok"

    def question(self) -> None:
        client = threading.Thread(target=self._answer)
        client.start()
        self.work()
        client.join()

    def _answer(self) -> None:
        """Answer the question as the client, as soon as it is on its call's stream."""
        import redis

        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            while not (found := self._questions(client) - self._answered):
                time.sleep(0.01)
        self._answered |= found
        (question,) = found
        self._web.post({"id": question, "result": {"action": "accept", "content": {"value": True}}})

    def _questions(self, client: Any) -> set[str]:
        streams = client.scan_iter(match="*", _type="stream")
        values = [value for key in streams for _, fields in client.xrange(key) for value in fields.values()]
        asked = [json.loads(value) for value in values if value.startswith(b'{"jsonrpc"')]
        return {message["id"] for message in asked if message.get("method") == "elicitation/create"}


def _rows(web: Web, worker: Any, recorder: Recorder) -> list[tuple[str, Entered]]:
    from benchmarks.hops.mcp import asking

    connect_threads()
    paths = Paths(web, worker)
    rows: list[tuple[str, Entered]] = []
    for name, path in (
        ("echo: short cut", paths.short_cut),
        ("echo: ordinary", paths.echo),
        ("echo with a context, in a task", paths.echo_in_task),
    ):
        rows.append((name, set.union(*recorder.record(path))))
    rows.append(("background call: accepted", set.union(*recorder.record(paths.accept))))
    rows.append(("of these, to accept it", set.union(*recorder.record(paths.accept, "Background.accept"))))
    before = partial(paths.make, "report")
    rows.append(("worker: run with 2 progress reports", recorder.record(paths.work, before=before)[1]))
    for name, during in (("worker: run with a question", None), ("of these, to ask it", asking)):
        before = partial(paths.make, "ask")
        answered, asked = recorder.record(paths.question, during=during, before=before)
        rows.append((name, asked))
    rows.append(("the answer to that question", answered))
    return rows


def connect_threads() -> None:
    """Open the connections of all threads that query, because the thread that serves a call varies."""
    from mcp_app.database import queries

    together = threading.Barrier(queries.THREADS)

    def touch() -> None:
        together.wait(10)
        Call.objects.exists()

    from mcp_app.models import Call

    threads = [threading.Thread(target=queries.query, args=(touch,)) for _ in range(queries.THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _print(rows: list[tuple[str, Entered]], *, names: bool) -> None:
    print(f"{'path':<38}{'functions':>10}{'files':>7}   of them in stores: functions, files")
    for name, entered in rows:
        print(f"{name:<38}{_counts(entered)}{_counts({code for code in entered if _is_store(code)})}")
        if names:
            for code in sorted(entered, key=lambda code: (code.co_filename, code.co_firstlineno)):
                print(f"    {code.co_filename.removeprefix(f'{ROOT}/')}:{code.co_qualname}")


def _counts(entered: Entered) -> str:
    return f"{len(entered):>10}{len({code.co_filename for code in entered}):>7}"


def _is_store(code: CodeType) -> bool:
    """Return True for code that accesses Redis and the database, which is the same for all callers."""
    return code.co_filename.removeprefix(f"{ROOT}/mcp_app/").startswith(
        ("streams/", "database", "postgresql/")
    )


def main() -> None:
    """Set up, take every path and print the table. ``-v`` lists the functions, ``--counts`` skips times."""
    recorder = Recorder()
    with installation(recorder):
        _measure(recorder, names="-v" in sys.argv, timed="--counts" not in sys.argv)


@contextmanager
def installation(profile: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Set up an empty installation in this process, with ``profile`` in this and all future threads.

    ``MIGRATED`` in the environment may name an empty, migrated SQLite database to start from.
    """
    with tempfile.TemporaryDirectory(prefix="hops-") as folder:
        if migrated := os.environ.get("MIGRATED"):
            shutil.copy(migrated, Path(folder, "db.sqlite3"))
        from mcpsite.redis_server import RedisServer

        redis_folder = Path(folder, "redis")
        redis_folder.mkdir()
        server = RedisServer(redis_folder, append_only=False)
        server.start()
        try:
            os.environ |= {
                "DATA_DIR": folder,
                "REDIS_URL": server.url,
                "DJANGO_SETTINGS_MODULE": "benchmarks.hops.settings",
                "SECRET_KEY": "only for the hop table, which nobody can reach",
            }
            os.environ.pop("DATABASE_URL", None)
            import django
            from django.core.management import call_command

            django.setup()
            call_command("migrate", verbosity=0)
            logging.disable(logging.INFO)
            threading.setprofile(profile)  # For future threads: their event loops and those of the database.
            sys.setprofile(profile)
            yield
        finally:
            server.stop()


def _measure(recorder: Recorder, *, names: bool, timed: bool) -> None:
    from mcp_app import conf
    from mcp_app.execution.worker.worker import Worker

    web = Web()
    web.start()
    worker = Worker(conf.get(), may_exit=False)
    try:
        rows = _rows(web, worker, recorder)
    finally:
        worker.close()
        web.close()
    _print(rows, names=names)
    threading.setprofile(None)  # type: ignore[arg-type]
    sys.setprofile(None)
    if timed:
        _time_echo()


def _time_echo() -> None:
    web = Web()
    web.start()
    quick, ordinary = web.microseconds(web.call("echo", text="hello"))
    print(f"one echo: {quick:.1f} µs by the short cut, {ordinary:.1f} µs by ASGI")
    web.close()


if __name__ == "__main__":
    main()
