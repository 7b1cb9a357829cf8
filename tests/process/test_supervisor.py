"""The supervisor with small children: replacement, backoff, ordered stop, kill."""

from __future__ import annotations

import io
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpsite.pid_files import AlreadyRunning, PidFiles
from mcpsite.processes.program import Child, Program
from mcpsite.supervisor import CrashLoop, Supervisor
from tests.bounds import SLACK
from tests.process.installation import wait_until

pytestmark = pytest.mark.process

SLEEPER = "import time; print('here', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER
SHOWS_LIFE = (
    "import os, time; print('here', flush=True)\n"
    "while True: os.write(int(os.environ['READY_FD']), b'1'); time.sleep(0.1)"
)
ORPHAN = (
    "import signal, subprocess, sys; from mcpsite import supervised; supervised.ORPHAN_SECONDS = 0.1; "
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    "print(child.pid, flush=True); child.wait()"
)
PARENT = (
    "import subprocess, sys, time; "
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    "print('grandchild', child.pid, flush=True); time.sleep(600)"
)


class Bench:
    """A supervisor on a temporary folder, with its output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pid_files = PidFiles(folder)
        self.pid_files.claim()
        self.printed = io.StringIO()
        self.supervisor = Supervisor(self.pid_files, directory=folder, out=self.printed)
        self.supervisor.listen_to_signals()

    def start(self, name: str, code: str, stage: int = 0, grace: float = 5.0) -> None:
        argv = (sys.executable, "-c", code)
        self.supervisor.start(Program(name, argv, stage, grace_seconds=grace))

    def try_out(self, name: str, code: str, **more: Any) -> Child:
        return self.supervisor.try_out(Program(name, (sys.executable, "-c", code), 0, **more))

    def pid(self, name: str) -> int:
        path = self.folder / f"{name}.pid"
        return int(path.read_text()) if path.exists() else 0

    def wait(self, text: str, count: int = 1) -> None:
        assert self.supervisor.run_until(
            lambda: self.printed.getvalue().count(text) >= count, 20.0, every=0.01
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    bench = Bench(tmp_path)
    yield bench
    bench.supervisor.stop()
    bench.pid_files.release()
    for number, handler in before.items():
        signal.signal(number, handler)


def alive(pid: int) -> bool:
    """Return True if a process runs; False for an uncollected zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_dead_child_is_replaced_with_new_pid_file(bench: Bench) -> None:
    bench.start("web", SLEEPER)
    bench.wait("here")
    first = bench.pid("web")
    killed_at = time.monotonic()
    os.kill(first, signal.SIGKILL)
    assert bench.supervisor.run_until(lambda: bench.pid("web") not in (0, first), 5.0 + SLACK, every=0.01)
    assert time.monotonic() - killed_at < 2.0 + SLACK
    bench.wait("here", count=2)


def test_unwritable_pid_file_ends_no_child(bench: Bench) -> None:
    """An error at a pid file must not leave the supervisor's loop and end every child with it."""
    obstacle = bench.folder / ".web.pid"
    obstacle.mkdir()
    bench.start("web", f"import os; print(os.getpid(), flush=True); {SLEEPER}")
    bench.wait("here")
    assert bench.pid("web") == 0
    os.kill(_said_pids(bench)[0], signal.SIGKILL)
    bench.wait("here", count=2)
    # Once for each process.
    assert bench.printed.getvalue().count("the pid files cannot be written: ") == 2
    obstacle.rmdir()
    assert bench.supervisor.run_until(lambda: bench.pid("web") == _said_pids(bench)[1], 20.0, every=0.01)


def test_child_is_started_later_if_descriptors_run_out(bench: Bench) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        bench.start("web", SLEEPER)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "web cannot be started ([Errno 24] Too many open files); trying again" in bench.printed.getvalue()
    bench.wait("here")


def test_unwatched_child_output_is_closed(bench: Bench) -> None:
    """A child may die after its start and before its output is read."""
    bench.start("web", SLEEPER)
    bench.wait("here")
    (child,) = bench.supervisor._children
    assert child.process is not None
    assert child.process.stdout is not None
    bench.supervisor._selector.unregister(child.process.stdout)
    os.kill(child.process.pid, signal.SIGKILL)
    bench.wait("here", count=2)


def _said_pids(bench: Bench) -> list[int]:
    return [int(pid) for pid in re.findall(r"web +\| (\d+)", bench.printed.getvalue())]


def test_repeatedly_dying_child_raises_crash_loop(bench: Bench) -> None:
    bench.start("web", "raise SystemExit('no such table')")
    with pytest.raises(CrashLoop, match="web keeps crashing"):
        bench.supervisor.run_until(lambda: False, 20.0)
    assert bench.printed.getvalue().count("no such table") == 3


def test_grandchild_of_dead_child_is_killed(bench: Bench) -> None:
    bench.start("worker", PARENT)
    bench.wait("grandchild")
    grandchild = int(bench.printed.getvalue().split("grandchild ")[1].split()[0])
    os.kill(bench.pid("worker"), signal.SIGKILL)
    assert bench.supervisor.run_until(lambda: not alive(grandchild), 5.0, every=0.01)


def test_stages_stop_in_order_and_leave_no_pid_file(bench: Bench) -> None:
    for stage, name in enumerate(("redis", "worker", "web")):
        bench.start(name, SLEEPER, stage)
    bench.wait("here", count=3)
    os.kill(os.getpid(), signal.SIGTERM)
    bench.supervisor.run()
    bench.supervisor.stop()
    stopped = [
        line.split("| ")[1] for line in bench.printed.getvalue().splitlines() if line.endswith("stopped")
    ]
    assert stopped == ["web stopped", "worker stopped", "redis stopped"]
    assert [path.name for path in bench.folder.glob("*.pid")] == ["up.pid"]


def test_child_ignoring_stop_is_killed_after_grace_period(bench: Bench) -> None:
    bench.start("web", STUBBORN, grace=0.3)
    bench.wait("here")
    pid = bench.pid("web")
    bench.supervisor.stop()
    assert not alive(pid)


def test_second_ctrl_c_kills_without_grace_period(bench: Bench) -> None:
    bench.start("web", STUBBORN, grace=300.0)
    bench.wait("here")
    pid = bench.pid("web")
    os.kill(os.getpid(), signal.SIGINT)
    bench.supervisor.run()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    bench.supervisor.stop()
    assert not alive(pid)


def test_child_output_lines_are_prefixed_and_bounded(bench: Bench) -> None:
    bench.start("web", f"print('x' * 200_000, flush=True); {SLEEPER}")
    bench.wait("here")
    lines = bench.printed.getvalue().splitlines()
    assert all(line.startswith("web     | ") for line in lines)
    assert max(map(len, lines)) < 140_000
    assert sum(line.count("x") for line in lines) == 200_000


def test_program_is_ready_after_its_announcement(bench: Bench) -> None:
    code = "import os, time; os.write(int(os.environ['READY_FD']), b'1'); time.sleep(600)"
    bench.supervisor.start(Program("web", (sys.executable, "-c", code), 0, announces_ready=True))
    assert not bench.supervisor.ready()
    assert bench.supervisor.run_until(bench.supervisor.ready, 20.0)


def test_frozen_child_is_replaced_and_live_one_is_kept(bench: Bench) -> None:
    for name in ("still", "well"):
        argv = (sys.executable, "-c", SHOWS_LIFE)
        bench.supervisor.start(Program(name, argv, 0, announces_ready=True, silence_seconds=3.0))
    bench.wait("here", count=2)
    still, well = bench.pid("still"), bench.pid("well")
    assert bench.supervisor.run_until(bench.supervisor.ready, 20.0)
    os.kill(still, signal.SIGSTOP)
    bench.wait("here", count=3)
    assert not alive(still)
    assert bench.pid("well") == well
    assert "still did not respond for 3 s and is stopped" in bench.printed.getvalue()


def test_process_that_hangs_is_killed_after_its_supervisor_died() -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", ORPHAN],
        env={**os.environ, "READY_FD": str(writing)},
        pass_fds=(writing,),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(writing)
    with process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.terminate()
        assert alive(child)
        assert process.poll() is None
        os.close(reading)
        assert process.wait(20 + SLACK) == -signal.SIGKILL
        wait_until(lambda: not alive(child), 10, "the end of its child")


def test_pause_of_supervisor_is_not_counted_as_silence(bench: Bench) -> None:
    argv = (sys.executable, "-c", SHOWS_LIFE)
    bench.supervisor.start(Program("web", argv, 0, announces_ready=True, silence_seconds=3.0))
    assert bench.supervisor.run_until(bench.supervisor.ready, 20.0)
    pid = bench.pid("web")
    # Everything pauses as on a paused machine, including this thread with its supervisor.
    os.kill(pid, signal.SIGSTOP)
    threading.Event().wait(4.0)
    os.kill(pid, signal.SIGCONT)
    bench.supervisor.run_until(lambda: bench.pid("web") != pid, 2.0)
    assert bench.pid("web") == pid


def test_second_supervisor_on_same_folder_names_running_process(bench: Bench) -> None:
    with pytest.raises(AlreadyRunning, match=f"Process {os.getpid()} already runs this server"):
        PidFiles(bench.folder).claim()


def test_stale_pid_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / "web-1.pid").write_text("1\n")
    (tmp_path / "up.pid").write_text("1\n")
    pid_files = PidFiles(tmp_path)
    pid_files.claim()
    assert [path.name for path in tmp_path.iterdir()] == ["up.pid"]
    assert int((tmp_path / "up.pid").read_text()) == os.getpid()
    pid_files.release()
    assert not list(tmp_path.iterdir())


def test_ended_trial_is_not_restarted_and_output_is_shown_on_request(
    bench: Bench,
) -> None:
    child = bench.try_out("trial", "print('a mistake')")
    assert bench.supervisor.run_until(lambda: not child.alive, 20.0, every=0.01)
    assert bench.printed.getvalue() == ""
    assert bench.pid("trial") == 0
    assert child.withheld == ["a mistake"]
    bench.supervisor.write_withheld(child)
    assert bench.printed.getvalue() == "trial   | a mistake\n"


def test_kept_trial_is_replaced_after_death(bench: Bench) -> None:
    child = bench.try_out("trial", SLEEPER)
    assert bench.supervisor.run_until(lambda: child.withheld == ["here"], 20.0, every=0.01)
    bench.supervisor.keep(child)
    assert child.process is not None
    assert bench.pid("trial") == child.process.pid
    os.kill(bench.pid("trial"), signal.SIGKILL)
    bench.wait("here", 2)


def test_leaving_child_is_signalled_first_and_killed_after_timeout(bench: Bench) -> None:
    polite = bench.try_out("polite", SLEEPER, leave_signal=signal.SIGHUP, leave_seconds=600.0)
    stubborn = bench.try_out("stubborn", STUBBORN, leave_seconds=0.5)
    for child in (polite, stubborn):
        assert bench.supervisor.run_until(lambda child=child: child.withheld == ["here"], 20.0, every=0.01)
        bench.supervisor.keep(child)
        bench.supervisor.leave(child)
    assert bench.supervisor.run_until(lambda: not (polite.alive or stubborn.alive), 20.0, every=0.01)
    assert "starting it again" not in bench.printed.getvalue()


def test_trial_waits_for_each_permit_and_kept_process_has_both(bench: Bench) -> None:
    code = (
        "import os\n"
        "for step in ('load', 'serve'): os.read(int(os.environ['PERMIT_FD']), 1); print(step, flush=True)\n"
        "import time; time.sleep(600)"
    )
    child = bench.try_out("trial", code, asks_permission=True)
    assert not bench.supervisor.run_until(lambda: child.withheld != [], 0.3, every=0.01)
    child.permit(1)
    assert bench.supervisor.run_until(lambda: child.withheld == ["load"], 20.0, every=0.01)
    child.permit(2)
    assert bench.supervisor.run_until(lambda: child.withheld == ["load", "serve"], 20.0, every=0.01)
    bench.supervisor.keep(child)
    os.kill(bench.pid("trial"), signal.SIGKILL)
    bench.wait("serve", 2)
