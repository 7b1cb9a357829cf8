"""The measured servers: the floor, the official SDKs, and ours with 10, 100 and 1,000 tools."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.catalogue import FILLER_DESCRIPTION
from benchmarks.processes import ROOT, Process, cores, free_port, uvicorn
from mcp_app.streams.stores.message_queue import SyncMessageQueue
from tests.clients import node
from tests.servers.live import LiveServer

SIZES = (10, 100, 1000)


@dataclass
class Servers:
    """All servers of one run; only the one under load is busy.

    ``typescript`` is None where Node or its packages are unavailable; ``missing`` is the reason.
    """

    folder: Path
    floor: int = 0
    sdk: int = 0
    typescript: int | None = None
    missing: str = ""
    ours: dict[int, LiveServer] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)

    def start(self) -> None:
        pins = cores()
        core = pins[0] if pins else None
        self.floor = self._plain("floor", "benchmarks.floor:application", core, lifespan="off")
        self.sdk = self._plain("sdk", "benchmarks.sdk_server:application", core)
        try:
            self.start_typescript()
        except node.NodeUnavailable as missing:
            self.missing = str(missing)
        for size in SIZES:
            self.start_ours(size)

    def start_ours(self, size: int, **more: str) -> int:
        """Start our server with ``size`` tools and ``more`` environment variables. Return its port."""
        facts = {"BENCH_TOOLS": str(size), "DEMO": "off", **more}
        server = LiveServer(1, settings="benchmarks.settings", env=facts)
        self.ours[size] = server.start()
        pins = cores()
        if pins is not None and server.redis.process is not None:
            pin(server.processes[0].pid, pins[0])
            pin(server.redis.process.pid, pins[1])
        return self.port(size)

    def _plain(self, name: str, application: str, core: int | None, *, lifespan: str = "on") -> int:
        port = free_port()
        return self._started(name, uvicorn(application, port, lifespan=lifespan), port, core)

    def start_typescript(self) -> int:
        """Start the TypeScript SDK's server and return its port. Raise NodeUnavailable."""
        pins = cores()
        port = free_port()
        # Node resolves packages next to the script, so it is copied to their folder.
        script = shutil.copy(ROOT / "benchmarks" / "typescript_server.mjs", node.install("peer").parent)
        command = [node.executable(), script, str(port)]
        self.typescript = self._started("typescript", command, port, pins[0] if pins else None)
        return self.typescript

    def _started(self, name: str, command: list[str], port: int, core: int | None) -> int:
        facts = {
            "BENCH_TOOLS": str(SIZES[0]),
            "BENCH_DESCRIPTION": FILLER_DESCRIPTION,
            "NODE_ENV": "production",
        }
        process = Process(command, self.folder / f"{name}.log", facts, core)
        self.processes[name] = process
        process.start()
        process.wait_for_port(port)
        return port

    def port(self, size: int) -> int:
        """Return the port of our server with that many tools."""
        return self.ours[size].ports[0]

    def pid(self, port: int) -> int:
        """Return the id of the process that listens on ``port``."""
        for server in self.ours.values():
            if server.ports[0] == port:
                return server.processes[0].pid
        peers = {self.floor: "floor", self.sdk: "sdk", self.typescript: "typescript"}
        return self.processes[peers[port]].pid

    def write_logs(self) -> None:
        """Empty the queues of all message logs."""
        for server in self.ours.values():
            empty_log_queue(server)

    def stop(self) -> None:
        for process in self.processes.values():
            process.stop()
        for server in self.ours.values():
            server.stop()


def empty_log_queue(server: LiveServer) -> None:
    """Empty the queue of the message log in place of a worker, which would need the load's core."""
    queue = SyncMessageQueue(server.redis.url)
    while batches := queue.read("0", 100):
        queue.trim(batches[-1][0])
    queue.close()


def pin(pid: int, core: int) -> None:
    """Pin every thread of a running process."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})
