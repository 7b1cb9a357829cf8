"""A real server for tests: embedded Redis, web processes and a fresh data folder, stopped cleanly."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from mcpsite.redis_server import RedisServer
from tests import wire
from tests.bounds import SLACK
from tests.clients.raw_http import Mcp, RawClient
from tests.samples.migrated import kept, migrated, sources
from tests.servers.live_worker import WorkerProcess
from tests.servers.warm import LOADED_WITH, Installation, Installations, Program

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 120.0
STOP_SECONDS = 15.0
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
TROUBLE = ("Traceback (most recent call last)", "Task exception was never retrieved", "ResourceWarning")


class LiveServerError(Exception):
    """The server did not start or a command failed; the text has the end of the output."""


def eventually(condition: Callable[[], object], seconds: float = 10.0, what: str = "the condition") -> None:
    """Return when ``condition()`` is true. Raise AssertionError after ``seconds``."""
    deadline = time.monotonic() + seconds + SLACK
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {seconds:g} s")
        time.sleep(0.02)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    statm = Path(f"/proc/{pid}/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], check=True, capture_output=True, text=True)
    return int(shown.stdout) * 1024


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process in seconds, 0.0 where the system does not provide it."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _listener() -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", 0))
    made.listen(4096)
    made.set_inheritable(True)
    return made


def _environment(settings: str, data: Path, more: dict[str, str]) -> dict[str, str]:
    """Return an environment of the named variables only.

    A developer's own settings must not reach the server.
    """
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {
        **inherited,
        **wire.environment(),
        "DJANGO_SETTINGS_MODULE": settings,
        "DATA_DIR": str(data),
        "HOST": "127.0.0.1",
        "SECRET_KEY": "live-servers-of-the-tests-sign-with-this-key",
        "PYTHONUNBUFFERED": "1",
        **LOADED_WITH,
        **more,
    }


def _output(what: str, ended: tuple[int, str, str]) -> str:
    """Return the output of a program. Raise LiveServerError unless it succeeded."""
    status, output, errors = ended
    if status:
        raise LiveServerError(f"exit status {status} of {what}: {output[-1000:]}\n{errors[-3000:]}")
    return output


@dataclass
class WebProcess:
    """One web process: its own port (stable across restarts), the shared socket, its log."""

    number: int
    own: socket.socket
    log: Path
    installations: Installations
    child: Program | None = None

    @property
    def port(self) -> int:
        port: int = self.own.getsockname()[1]
        return port

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    @property
    def alive(self) -> bool:
        return self.child is not None and self.child.poll() is None

    @property
    def rss(self) -> int:
        """Resident memory in bytes."""
        return resident_bytes(self.pid)

    def start(self, shared: socket.socket, environment: dict[str, str]) -> None:
        with self.log.open("ab") as log:
            self.child = self.installations.of(environment).start(
                "tests.servers.live_web", output=log.fileno(), sockets=(shared, self.own)
            )

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal, wait and return the exit status. Kill the process after STOP_SECONDS."""
        if self.child is None:
            return 0
        if self.child.poll() is None:
            self.child.send_signal(how)
        try:
            return self.child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            return self.child.wait()


@dataclass
class LiveServer:
    """A running installation: ``with LiveServer(web_processes=2) as server:``.

    ``server.ports[0]`` is process A, ``[1]`` is B; ``port`` is the shared socket. ``settings`` is a
    settings module, ``env`` extra environment variables. ``worker`` starts ``workers`` Celery workers
    of ``concurrency`` children each beside the web processes. ``redis_folder`` is the folder of Redis'
    files, by default inside the server's folder. ``root`` is the checkout whose code runs, by default
    this one. ``through`` may put a proxy between the processes and Redis: it receives Redis' port and
    returns the port to use.
    """

    web_processes: int = 2
    settings: str = "mcpsite.settings"
    env: dict[str, str] = field(default_factory=dict)
    worker: bool = False
    workers: int = 1
    concurrency: int = 2
    append_only: bool = False
    max_memory: str = "256mb"
    redis_folder: Path | None = None
    through: Callable[[int], int] | None = None
    root: Path = ROOT
    processes: list[WebProcess] = field(default_factory=list, init=False)
    worker_processes: list[WorkerProcess] = field(default_factory=list, init=False)

    def start(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="mcp-live-"))
        self.installations = Installations(self.root)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self) -> None:
        self.redis = RedisServer(
            self.redis_folder or self.folder / "redis",
            append_only=self.append_only,
            max_memory=self.max_memory,
        )
        self.redis.start()
        self.shared = _listener()
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        facts = {"PORT": str(self.port), "REDIS_URL": self._redis_url(), **self.run_environment()}
        self.environment = _environment(self.settings, data, {**facts, **self.env})
        if "DATABASE_URL" in self.env:
            self.manage("prepare")
        else:
            (data / "db.sqlite3").write_bytes(self._prepared_database(data))
        for number in range(self.web_processes):
            log = self.folder / f"web-{number + 1}.log"
            process = WebProcess(number, _listener(), log, self.installations)
            self.processes.append(process)
            process.start(self.shared, self.environment)
        for number in range(self.workers if self.worker else 0):
            log = self.folder / f"worker-{number + 1}.log"
            worker = WorkerProcess(number, log, self.installations, self.concurrency)
            self.worker_processes.append(worker)
            worker.start(self.environment)
        for process in self.processes:
            self.wait_until_healthy(process)
        if self.worker:
            self.wait_until_ready()

    def _prepared_database(self, data: Path) -> bytes:
        """Return an SQLite database that is migrated and has the code's catalogue.

        Created once for all processes.
        """
        decisive = repr((sources(self.root), self.settings, sorted(self.env.items())))
        name = hashlib.sha256(decisive.encode()).hexdigest()[:32]
        return kept(self.root, name, lambda: self._prepare(data / "db.sqlite3"))

    def _prepare(self, database: Path) -> bytes:
        database.write_bytes(migrated(self.root, self.settings))
        self.manage("prepare")
        with redis.Redis.from_url(self.redis.url, protocol=2) as client:
            client.flushall()
        return database.read_bytes()

    def run_environment(self) -> dict[str, str]:
        """Return variables for the processes of this run only, for subclasses.

        ``env`` also affects the database.
        """
        return {}

    def _redis_url(self) -> str:
        if self.through is None:
            return self.redis.url
        return self.redis.url.replace(f":{self.redis.port}/", f":{self.through(self.redis.port)}/")

    def wait_until_ready(self) -> None:
        """Wait until every worker consumes its queue. Raise LiveServerError with the logs."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and all(worker.alive for worker in self.worker_processes):
            forked = all(len(worker.children) >= self.concurrency for worker in self.worker_processes)
            if forked and self._says_ready():
                return
            time.sleep(0.05)
        raise LiveServerError(f"no worker is ready:\n{self.logs()[-5000:]}")

    def _says_ready(self) -> bool:
        with suppress(OSError, Exception), RawClient("127.0.0.1", self.ports[0], patience=3) as client:
            return client.request("GET", "/readyz").status == 200
        return False

    def wait_until_healthy(self, process: WebProcess) -> None:
        """Wait until ``/healthz`` of that process returns 200. Raise LiveServerError with its log."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.alive:
            with suppress(OSError, Exception), RawClient("127.0.0.1", process.port, patience=2) as client:
                if client.request("GET", "/healthz").status == 200:
                    return
            time.sleep(0.05)
        raise LiveServerError(f"web process {process.number + 1} is not healthy:\n{self.logs()[-5000:]}")

    @property
    def installation(self) -> Installation:
        """The loaded installation, which forks further programs."""
        return self.installations.of(self.environment)

    @property
    def port(self) -> int:
        port: int = self.shared.getsockname()[1]
        return port

    @property
    def ports(self) -> list[int]:
        """The private port of each web process."""
        return [process.port for process in self.processes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def pids(self) -> dict[str, int]:
        """The id of every process of this server by name."""
        found = {f"web-{process.number + 1}": process.pid for process in self.processes if process.child}
        found |= {f"worker-{each.number + 1}": each.pid for each in self.worker_processes if each.child}
        if self.redis.process is not None:
            found["redis"] = self.redis.process.pid
        return found

    def mcp(self, process: int | None = None, token: str | None = None) -> Mcp:
        """Return a raw client of one process (0 is A), or of the shared port."""
        return Mcp.at(self.port if process is None else self.ports[process], token=token)

    def manage(self, *arguments: str) -> str:
        """Run a management command of this installation in its own process and return its output."""
        return _output(f"manage.py {' '.join(arguments)}", self.installation.run("manage.py", *arguments))

    def shell(self, code: str) -> str:
        """Run Python code inside this installation's Django in a new process (as the admin or cron would)."""
        return _output("the code", self.installation.run_code(code))

    def restart(self, number: int, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop one web process and start it again on the same ports."""
        with self.without(number, how):
            pass

    @contextmanager
    def without(self, number: int, how: signal.Signals = signal.SIGTERM) -> Iterator[None]:
        """Stop one web process inside the block, then start it again on the same ports."""
        process = self.processes[number]
        process.stop(how)
        try:
            yield
        finally:
            process.start(self.shared, self.environment)
            self.wait_until_healthy(process)

    def restart_worker(self, number: int = 0, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop one worker and start it again. KILL is sent to the entire process group."""
        worker = self.worker_processes[number]
        if how == signal.SIGKILL:
            worker.kill_group()
        else:
            worker.stop(how)
        worker.start(self.environment)
        self.wait_until_ready()

    def logs(self) -> str:
        """Return all output of the web processes and workers."""
        programs = (*self.processes, *self.worker_processes)
        return "\n".join(
            program.log.read_text(errors="replace") for program in programs if program.log.exists()
        )

    def trouble(self, *, crashes: bool = False) -> list[str]:
        """Return log lines that must never occur. With ``crashes``, entries may crash."""
        lines = self.logs().splitlines()
        return [
            line
            for before, line in zip(["", *lines], lines, strict=False)
            if any(mark in line for mark in TROUBLE) and not (crashes and "Incident" in before)
        ]

    def stop(self) -> None:
        for worker in self.worker_processes:
            worker.stop()
        for process in self.processes:
            process.stop()
            process.own.close()
        if hasattr(self, "redis"):
            self.redis.stop()
        if hasattr(self, "shared"):
            self.shared.close()
        self.installations.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
