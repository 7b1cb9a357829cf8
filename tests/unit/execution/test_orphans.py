"""Processes left by a killed worker child are ended by the main process (R32)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="Only Linux gives a process its orphans"),
]

# A main process in a separate process: anything it leaves ends with it.
MAIN = """
import os, pathlib, signal, subprocess
from mcp_app.execution.worker.descendants import LOOKS, Orphans, adopt_orphans

def sleeper():
    return subprocess.Popen(["sleep", "600"])

def orphan():
    command = ["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

def die():
    first.kill()
    first.wait()

adopt_orphans()
orphans, first = Orphans(), sleeper()
try:
    assert orphans.end([first.pid]) == []
{story}
finally:
    for task in pathlib.Path("/proc/self/task").iterdir():
        for pid in map(int, (task / "children").read_text().split()):
            os.kill(pid, signal.SIGKILL)
"""
STORIES = {
    "process of an observed child": """
        left = orphan()
        die()
        assert orphans.end([sleeper().pid]) == [left]
    """,
    "process of an unobserved child, when its replacement starts": """
        left = orphan()
        assert orphans.end([first.pid]) == []
        assert orphans.end([first.pid, sleeper().pid]) == [left]
    """,
    "processes started during termination": """
        left = orphan()
        die()
        own = sleeper()
        assert orphans.end([own.pid]) == [left]
        missed = orphan()
        assert orphans.end([own.pid]) == [missed]
        assert orphans.end([own.pid]) == []
        of_the_process_itself = sleeper()
        assert orphans.end([own.pid]) == []
    """,
    "earlier processes survive": """
        own = sleeper()
        late = Orphans()
        assert late.end([first.pid]) == []
        die()
        assert late.end([]) == []
    """,
    "processes from long before a child's death survive": """
        own = sleeper()
        for _ in range(LOOKS):
            assert orphans.end([first.pid]) == []
        die()
        assert orphans.end([]) == []
    """,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_processes_left_by_killed_child_are_ended(story: str) -> None:
    code = MAIN.replace("{story}", textwrap.indent(textwrap.dedent(story), "    "))
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


EARLY = """
import os, signal, subprocess, time
import django
from billiard import Process
from kombu.asynchronous.timer import Timer

django.setup()
from mcp_app import tasks
from tests.servers.live import eventually

class Consumer:
    timer = Timer()

def child():
    found = Process(target=time.sleep, args=(600,))
    found.start()
    return found

tasks.adopt_orphans()
children = [child()]
try:
    tasks.Ticks(Consumer).start(Consumer)
    command = ["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]
    left = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    os.kill(children[0].pid, signal.SIGKILL)
    children[0].join()
    children.append(child())
    tasks.end_orphans()
    eventually(lambda: os.waitpid(left, os.WNOHANG)[0] == left)
finally:
    os.kill(children[-1].pid, signal.SIGKILL)
"""


def test_processes_left_before_the_first_tick_are_ended() -> None:
    command = [sys.executable, "-c", EARLY]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


ZOMBIE = """
import os, pathlib, subprocess
from mcp_app.execution.worker import descendants
from tests.servers.live import eventually

descendants.ZOMBIE_SECONDS = 0.01
leftovers, program = descendants.Leftovers(), subprocess.Popen(["sleep", "600"])
try:
    leftovers.collect()
    of_the_next_call = subprocess.Popen(["sh", "-c", "exit 3"])
finally:
    program.kill()
eventually(lambda: not pathlib.Path(f"/proc/{program.pid}").exists())
assert of_the_next_call.wait(30) == 3
"""


def test_program_dying_after_its_call_is_reaped() -> None:
    command = [sys.executable, "-c", ZOMBIE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
