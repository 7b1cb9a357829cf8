"""A shell in a live server's installation that runs each piece of code in a forked process.

Most of the time of ``manage.py shell`` is the import of Django and of all apps. Here one process has
imported them and waits, without threads or connections. Each piece of code runs in a child of it and
exits like any program.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NoReturn

RUN_SECONDS = 300.0


class Shell:
    """A runner of code under a checkout and an environment. The first piece of code starts its process."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self._command = {
            # -P: this file's folder has modules with conflicting names and must not be on the path.
            "args": [sys.executable, "-P", __file__],
            "cwd": root,
            "env": {**environment, "PYTHONPATH": str(root)},
        }
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def run(self, code: str) -> tuple[int, str, str]:
        """Run a piece of code and return its exit status, output and error output."""
        with ExitStack() as stack:
            stack.enter_context(self._lock)
            out, err = (stack.enter_context(tempfile.NamedTemporaryFile("w+")) for _ in range(2))
            status = self._ask({"code": code, "out": out.name, "err": err.name})
            return status, out.read(), err.read()

    def _ask(self, request: dict[str, str]) -> int:
        if self._process is None:
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                **self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        ready = select.select([self._process.stdout], [], [], RUN_SECONDS)[0]
        answer = self._process.stdout.readline() if ready else ""
        if not answer:
            self.close()
            why = "the process for it ended" if ready else f"it did not end within {RUN_SECONDS:g} s"
            raise AssertionError(f"code was not run: {why}:\n{request['code']}")
        return int(answer)

    def close(self) -> None:
        """Stop the process. Another piece of code starts a new one."""
        if self._process is None:
            return
        # Including the child that is still running code.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._process = None


def serve(requests: IO[str], answers: IO[str]) -> dict[str, str] | None:
    """Fork for each request and write its exit status. Return the request in the child."""
    for line in requests:
        child = os.fork()
        if not child:
            return dict(json.loads(line))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answers.write(f"{status}\n")
        answers.flush()
    return None


def main() -> None:
    """Import everything, then serve. A child runs its code and exits as ``manage.py shell`` does."""
    # Output that apps print during import is not a response.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    import django
    from django.db import connections

    django.setup()
    assert threading.active_count() == 1, threading.enumerate()
    assert all(each.connection is None for each in connections.all(initialized_only=True))
    request = serve(os.fdopen(os.dup(0)), answers)
    if request is None:
        return
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(request[name], os.O_WRONLY), descriptor)
    _leave(_run(request["code"]))


def _run(code: str) -> int:
    scope: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(code, scope)
    except Exception:  # noqa: BLE001 - whatever the code raises is shown
        traceback.print_exc()
        return 1
    return 0


def _leave(status: int) -> NoReturn:
    """Exit like a program but skip the interpreter's teardown, which takes a second."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
