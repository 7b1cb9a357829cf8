"""Installations that are loaded once and fork their programs.

Most of the start of a program is the import of Django and of all apps. Here one process of each test process
has imported the libraries. It forks a process for each installation, which imports the rest. Both wait
without threads or connections. Each program runs in a child of the second and exits like any program.
`manage.py up` and what it starts are tested without this, in tests/process.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS = 300.0
MOST_DESCRIPTORS = 16
REQUEST_BYTES = 64 * 1024
LIBRARIES = (
    *("django.contrib.admin.sites", "django.core.management", "psycopg", "redis.asyncio", "kombu", "celery"),
    *("pydantic_settings", "cryptography.x509", "jwt", "requests", "httpx2", "prometheus_client", "oauthlib"),
)
# Celery reads this while it is imported. `manage.py up` sets it for workers.
LOADED_WITH = {"REMAP_SIGTERM": "SIGQUIT"}


class Program:
    """A program in a child of the warm process, with the methods of ``subprocess.Popen`` that tests use."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        # Its process writes the exit status there.
        self._status = status

    def poll(self) -> int | None:
        """Return the exit status, or None while the program runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status. Raise TimeoutExpired after ``timeout`` seconds."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a program of the warm process", timeout or 0)
            # The warm process dies only by SIGKILL, and its children with it.
            self.returncode = int(os.read(self._status, 16) or -signal.SIGKILL)
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal unless the program has exited."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        """Close the input, wait for the end, and return the output and error output."""
        assert self.stdin is not None
        assert self.stdout is not None
        assert self.stderr is not None
        with self.stdout, self.stderr:
            with suppress(BrokenPipeError):
                self.stdin.close()
            self.wait(timeout)
            return self.stdout.read(), self.stderr.read()

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Process(Protocol):
    """A started process that forks programs."""

    pid: int

    def wait(self, timeout: float | None = None) -> int: ...


class Warm:
    """A process that has imported modules and forks programs. The first program starts it.

    ``start`` receives the socket from which the process reads its requests, and starts it in its own group.
    """

    def __init__(self, start: Callable[[socket.socket], Process]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._process: Process | None = None

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> Program:
        """Run the program of a request. The first descriptors become its input, output and error output."""
        # As for any other program; tests.plugins.kinds looks at it.
        sys.audit("subprocess.Popen", __file__, request["program"], request["root"], None)
        read, write = os.pipe()
        try:
            pid = self._ask(json.dumps(request).encode(), [write, *descriptors])
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        return Program(pid, read)

    def _ask(self, request: bytes, descriptors: list[int]) -> int:
        with self._lock:
            if self._process is None:
                self._requests, theirs = socket.socketpair()
                with theirs:
                    self._process = self._start(theirs)
            socket.send_fds(self._requests, [request], descriptors)
            answer = self._requests.recv(16)
        assert answer, "the process that forks the programs ended"
        return int(answer)

    def close(self) -> None:
        """Stop the process and all of its programs but those with their own group."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._requests.close()
            self._process = None


class Installation:
    """A loaded installation: a checkout under one environment."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self._root, self._environment = root, environment
        own = any(name.startswith("PYTHON") and name != "PYTHONUNBUFFERED" for name in environment)
        # Variables of the interpreter need an interpreter of their own.
        self._warm = Warm(self._interpreter if own else self._fork)

    def _interpreter(self, theirs: socket.socket) -> Process:
        path = os.pathsep.join(filter(None, (self._environment.get("PYTHONPATH"), str(self._root))))
        return _interpreter("installation", theirs, {**self._environment, "PYTHONPATH": path})

    def _fork(self, theirs: socket.socket) -> Process:
        request = self._request(__file__, "installation")
        with Path(os.devnull).open() as nothing:
            descriptors = [nothing.fileno(), 2, 2, theirs.fileno()]
            return _libraries().fork({**request, "own_group": True}, descriptors)

    def _request(self, *program: str) -> dict[str, Any]:
        return {"program": program, "root": str(self._root), "environment": self._environment}

    def start(
        self, *program: str, output: int, sockets: Sequence[socket.socket] = (), own_group: bool = False
    ) -> Program:
        """Run a module as ``__main__``; its arguments end with the descriptors of the ``sockets``."""
        with Path(os.devnull).open() as nothing:
            descriptors = [nothing.fileno(), output, output, *(each.fileno() for each in sockets)]
            return self._warm.fork({**self._request(*program), "own_group": own_group}, descriptors)

    def open(self, *program: str) -> Program:
        """Run a module with pipes for its input, output and error output."""
        (stdin, our_input), (our_output, stdout), (our_errors, stderr) = pipes = [os.pipe() for _ in range(3)]
        try:
            made = self._warm.fork(self._request(*program), [stdin, stdout, stderr])
        except BaseException:
            for each in chain.from_iterable(pipes):
                os.close(each)
            raise
        for each in (stdin, stdout, stderr):
            os.close(each)
        made.stdin = os.fdopen(our_input, "wb")
        made.stdout = os.fdopen(our_output, "rb")
        made.stderr = os.fdopen(our_errors, "rb")
        return made

    def run(self, *program: str) -> tuple[int, str, str]:
        """Run a module or file to its end and return its exit status, output and error output."""
        with ExitStack() as stack:
            out, err = (stack.enter_context(tempfile.NamedTemporaryFile("w+")) for _ in range(2))
            nothing = stack.enter_context(Path(os.devnull).open())
            descriptors = [nothing.fileno(), out.fileno(), err.fileno()]
            running = self._warm.fork(self._request(*program), descriptors)
            try:
                status = running.wait(RUN_SECONDS)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
                raise AssertionError(f"did not end within {RUN_SECONDS:g} s: {program}") from None
            return status, Path(out.name).read_text(), Path(err.name).read_text()

    def run_code(self, code: str) -> tuple[int, str, str]:
        """Run a piece of code in the installation's Django as ``manage.py shell`` does."""
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(code)
            file.flush()
            return self.run(file.name)

    def close(self) -> None:
        self._warm.close()


class Installations:
    """The loaded installations of one checkout, one for each environment."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._loaded: dict[frozenset[tuple[str, str]], Installation] = {}

    def of(self, environment: dict[str, str]) -> Installation:
        """Return the installation of an environment. It is loaded with its first program."""
        key = frozenset(environment.items())
        if key not in self._loaded:
            self._loaded[key] = Installation(self._root, dict(environment))
        return self._loaded[key]

    def close(self) -> None:
        for each in self._loaded.values():
            each.close()
        self._loaded.clear()


def _interpreter(what: str, theirs: socket.socket, environment: dict[str, str]) -> Process:
    # -P: this file's folder has modules with conflicting names and must not be on the path.
    return subprocess.Popen(
        [sys.executable, "-P", __file__, what, str(theirs.fileno())],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )


@lru_cache(maxsize=1)
def _libraries() -> Warm:
    """Return the process of this test process that has imported libraries, and forks installations."""
    environment = {**os.environ, **LOADED_WITH, "PYTHONUNBUFFERED": "1"}
    warm = Warm(lambda theirs: _interpreter("libraries", theirs, environment))
    atexit.register(warm.close)
    return warm


def serve(requests: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for each request and send the id of the child. Return the request in the child."""
    running: dict[int, int] = {}

    def reap(*_: object) -> None:
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            ended = running.pop(pid)
            with suppress(BrokenPipeError):
                os.write(ended, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(ended)

    signal.signal(signal.SIGCHLD, reap)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, MOST_DESCRIPTORS)
        if not message:
            return None
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        if not (child := os.fork()):
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        running[child] = descriptors[0]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        if not child:
            for each in running.values():
                os.close(each)
            return json.loads(message), descriptors[1:]
        for each in descriptors[1:]:
            os.close(each)
        requests.send(str(child).encode())


def load_libraries() -> None:
    """Import what every installation imports and what reads no settings."""
    for name in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)


def load_installation() -> None:
    """Import Django and all apps."""
    import django
    from django.db import connections

    django.setup()
    assert all(each.connection is None for each in connections.all(initialized_only=True))


def main(what: str, descriptor: int) -> None:
    """Import everything, then serve. A child runs its program and exits."""
    {"libraries": load_libraries, "installation": load_installation}[what]()
    assert threading.active_count() == 1, threading.enumerate()
    with socket.socket(fileno=descriptor) as requests:
        asked = serve(requests)
    if asked is not None:
        _leave(_become(*asked))


def _become(request: dict[str, Any], descriptors: list[int]) -> int:
    if request.get("own_group"):
        os.setsid()
    _die_with_parent()
    for standard in range(3):
        os.dup2(descriptors[standard], standard)
        os.close(descriptors[standard])
    os.chdir(request["root"])
    if request["root"] not in sys.path:
        sys.path.insert(0, request["root"])
    os.environ.clear()
    os.environ.update(request["environment"])
    name, *arguments = request["program"]
    return _run(name, [*arguments, *map(str, descriptors[3:])])


def _die_with_parent() -> None:
    """Terminate this process when the warm process dies, even by SIGKILL (Linux)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)


def _run(name: str, arguments: list[str]) -> int:
    sys.argv = [name, *arguments]
    try:
        if name.endswith(".py"):
            runpy.run_path(name, run_name="__main__")
        else:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        if isinstance(leaving.code, int | None):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 - whatever ends the program is shown
        traceback.print_exc()
        return 1
    return 0


def _leave(status: int) -> NoReturn:
    """Exit like a program but skip the interpreter's teardown, which takes a second."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
