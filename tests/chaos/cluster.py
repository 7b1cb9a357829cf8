"""A live server whose processes can be broken in every way, with the history and the ledger of the run."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import redis

from tests.chaos.checker import Checker, Promise
from tests.chaos.history import History
from tests.ledger_app import ledger
from tests.servers.live import LiveServer, eventually


@dataclass
class Cluster(LiveServer):
    """Web processes, workers, and Redis with an append-only file; ``faults`` lists injected faults."""

    settings: str = "tests.ledger_app.settings"
    worker: bool = True
    append_only: bool = True
    rng: random.Random = field(default_factory=random.Random)
    history: History = field(default_factory=History)
    faults: list[tuple[float, str]] = field(default_factory=list)

    def run_environment(self) -> dict[str, str]:
        points = self.folder / "points"
        points.mkdir()
        return {"MCP_FAILPOINTS": str(points)}

    # Records of the tools.

    @property
    def ledger_path(self) -> Path:
        return self.folder / "data" / "ledger"

    def lines(self, nonce: str = "", what: str = "") -> list[ledger.Line]:
        return [line for line in ledger.read(self.ledger_path, nonce) if what in ("", line.what)]

    def wait_for(self, nonce: str, what: str = "alive", number: int = 1, seconds: float = 30) -> ledger.Line:
        """Wait until the tool has written ``number`` such lines; return the last."""
        eventually(lambda: len(self.lines(nonce, what)) >= number, seconds, f"{number} x {what} of {nonce}")
        return self.lines(nonce, what)[-1]

    def check(self, usual: Promise | None = None, **promises: Promise) -> None:
        """Raise AssertionError with all violations if a promise was broken."""
        checker = Checker(self.history, self.lines(), usual or Promise(), promises)
        violations = checker.violations()
        assert not violations, "\n".join(map(str, [*violations, *self.faults, self.logs()[-3000:]]))

    # Faults.

    def strike(self, what: str) -> None:
        self.faults.append((time.monotonic(), what))

    def kill(self, pid: int, what: str) -> None:
        """Kill one running process with SIGKILL."""
        os.kill(pid, signal.SIGKILL)
        self.strike(f"kill {what}")

    def kill_web(self, number: int) -> None:
        self.kill(self.processes[number].pid, f"web {number}")
        child = self.processes[number].child
        assert child is not None
        child.wait(10)

    def revive_web(self, number: int) -> None:
        process = self.processes[number]
        process.start(self.shared, self.environment)
        self.wait_until_healthy(process)

    def kill_group(self, number: int = 0) -> None:
        self.worker_processes[number].kill_group()
        self.strike(f"kill worker group {number}")

    def revive_worker(self, number: int = 0) -> None:
        self.worker_processes[number].start(self.environment)

    def kill_redis(self) -> None:
        assert self.redis.process is not None
        self.kill(self.redis.process.pid, "redis")
        self.redis.process.wait(10)

    def revive_redis(self) -> None:
        self.redis.start()

    def redis_client(self) -> redis.Redis:
        return redis.Redis.from_url(self.redis.url, protocol=2, socket_timeout=5)

    def empty_redis(self) -> int:
        """Run FLUSHALL; return the number of deleted keys."""
        with self.redis_client() as client:
            count = int(str(client.dbsize()))
            client.flushall()
        self.strike(f"flushall of {count} keys")
        return count

    @contextmanager
    def redis_is_a_replica(self) -> Iterator[None]:
        """Make Redis refuse writes inside the context, like a master demoted by a failover."""
        with self.redis_client() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", "1")
            self.strike("redis is a replica")
            yield
            client.execute_command("REPLICAOF", "NO", "ONE")
            self.strike("redis is a master")

    @contextmanager
    def redis_misses_its_replicas(self) -> Iterator[None]:
        """Make Redis refuse writes inside the context, because too few replicas would receive them."""
        with self.redis_client() as client:
            client.config_set("min-replicas-to-write", 1)
            self.strike("redis misses its replicas")
            yield
            client.config_set("min-replicas-to-write", 0)
            self.strike("redis needs no replicas")

    @contextmanager
    def locked_database(self) -> Iterator[None]:
        """Lock the SQLite file against all other writers inside the context."""
        path = self.folder / "data" / "db.sqlite3"
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as held:
            held.execute("BEGIN EXCLUSIVE")
            self.strike("database locked")
            yield
            held.execute("ROLLBACK")

    def freeze_group(self, number: int) -> None:
        """Stop the processes of a worker as a pause of their machine would, but not during a write."""
        self._freeze(self.worker_processes[number].signal_group, f"worker group {number}")

    def freeze_web(self, number: int) -> None:
        """Stop a web process, but not during a write; ``SIGCONT`` resumes it."""
        pid = self.processes[number].pid
        self._freeze(lambda signal_number: os.kill(pid, signal_number), f"web {number}")

    def _freeze(self, send: Callable[[signal.Signals], object], what: str) -> None:
        # A process frozen with the lock of the SQLite file blocks all others until it resumes.
        # This is a limit of SQLite that ``docs/guarantees.md`` documents, not a fault of the server.
        for _ in range(20):
            send(signal.SIGSTOP)
            if self._is_writable():
                self.strike(f"stop {what}")
                return
            send(signal.SIGCONT)
        raise AssertionError(f"{what} was in the middle of a write each time it was stopped.")

    def _is_writable(self) -> bool:
        """Return True if the database file is not locked for long."""
        path = self.folder / "data" / "db.sqlite3"
        with closing(sqlite3.connect(path, timeout=2, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            other.execute("ROLLBACK")
            return True

    # Points between two steps.

    def arm(self, point: str) -> None:
        """Hold the next process that reaches the point."""
        (self.folder / "points" / point).touch()

    def held_at(self, point: str, seconds: float = 30) -> int:
        """Return the process held at the point; wait until there is one."""
        found: list[int] = []

        def look() -> bool:
            found[:] = [int(path.suffix[1:]) for path in (self.folder / "points").glob(f"{point}.*")]
            return bool(found)

        eventually(look, seconds, f"a process at {point}")
        return found[0]

    def let_go(self, point: str) -> None:
        """Disarm the point and release the held process."""
        for path in (self.folder / "points").glob(f"{point}*"):
            path.unlink(missing_ok=True)

    def left_behind(self) -> list[int]:
        """Return processes of worker groups that outlived their stop."""
        return [pid for worker in self.worker_processes if worker.child for pid in worker.members]

    def stop(self) -> None:
        for path in (self.folder / "points").glob("*"):
            path.unlink(missing_ok=True)
        for worker in self.worker_processes:
            with suppress(psutil.Error, OSError):
                worker.kill_group()
        super().stop()


@contextmanager
def again_and_again(work: object, seconds: float) -> Iterator[None]:
    """Call ``work`` every ``seconds`` in a thread inside the context."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(seconds):
            work()  # type: ignore[operator]

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
