"""``manage.py up``: output, supervision, cleanup, and refusals to start."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
import redis

from mcp_app.streams.connections import keys
from tests.bounds import PATIENCE, SLACK
from tests.clients.raw_http import Mcp, RawClient
from tests.process.installation import ROOT, START_SECONDS, Installation, wait_until
from tests.servers.small_disk import no_room, small_disk

pytestmark = pytest.mark.process


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path)
    yield installation
    installation.close()


@pytest.fixture
def new_installation(tmp_path: Path) -> Iterator[Installation]:
    """Return an installation in an empty folder."""
    installation = Installation(tmp_path, from_nothing=True)
    yield installation
    installation.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Return one healthy installation with two web processes, shared by several tests."""
    installation = Installation(tmp_path_factory.mktemp("up"), WEB_PROCESSES="2")
    installation.start_healthy()
    yield installation
    installation.close()


def status_of(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def answers_echo(port: int, token: str | None = None) -> bool:
    """Return True if a session opens and the demo tool ``echo`` answers."""
    with closing(Mcp.at(port, token=token)) as client:
        client.initialize()
        return "hello" in json.dumps(client.tool("echo", text="hello"))


def opens_a_session(port: int) -> bool:
    """Return the same, with False for a refused connection."""
    try:
        return answers_echo(port)
    except (AssertionError, OSError):
        return False


def test_first_start_prints_credentials_and_second_start_hides_them(
    new_installation: Installation,
) -> None:
    installation = new_installation
    started = time.monotonic()
    block = installation.start_healthy()
    first = time.monotonic() - started
    url = f"http://127.0.0.1:{installation.port}"
    assert f"  MCP      {url}/mcp" in block
    assert f"  Admin    {url}/admin/" in block
    assert "user admin, password " in block
    assert "  API key  mcp_" in block
    assert f"  Client   claude mcp add --transport http django-mcp {url}/mcp" in block
    assert "Log in" not in block
    assert answers_echo(installation.port, token=installation.value(r"API key  (mcp_\S+)"))
    password = installation.value(r"password (\S+)")
    # Nothing is wrong, so neither Redis nor Celery prints anything.
    assert [line for line in installation.lines if line.startswith(("redis", "worker"))] == []
    assert installation.stop() == 0
    assert installation.survivors() == []

    started = time.monotonic()
    block = installation.start_healthy()
    took = time.monotonic() - started
    assert "password" not in block
    assert "mcp_" not in block.replace("mcp add", "")
    assert took < first, "the tables were created again"
    check = (
        "from django.contrib.auth.models import User; "
        f"print('accepted' if User.objects.get().check_password('{password}') else 'refused')"
    )
    shell = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", check],
        cwd=ROOT, env=installation.environment, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert shell.stdout.strip() == "accepted", shell.stderr


def test_generated_secrets_are_private(running: Installation) -> None:
    assert (running.data.stat().st_mode & 0o777) == 0o700
    assert ((running.data / "secret_key").stat().st_mode & 0o777) == 0o600


def test_pid_files_name_every_live_child(running: Installation) -> None:
    assert running.pid_files() == {"up", "redis", "worker", "web-1", "web-2"}
    for name in running.pid_files():
        os.kill(running.pid(name), 0)
    assert running.pid("up") == running.running.pid


def test_health_and_readiness_need_no_credential(running: Installation) -> None:
    assert status_of(running.port, "/healthz") == 200
    assert status_of(running.port, "/readyz") == 200
    assert status_of(running.port, "/admin/login/") == 200


@pytest.mark.parametrize("name", ["web-1", "worker", "redis"])
def test_killed_child_is_replaced_and_service_recovers(running: Installation, name: str) -> None:
    old = running.pid(name)
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: running.pid(name) not in (0, old), 2.0, f"{name} is replaced")
    running.remember()
    wait_until(lambda: opens_a_session(running.port), 90.0, "a session opens again")
    wait_until(lambda: status_of(running.port, "/readyz") == 200, 90.0, "ready again")


def test_worker_sends_heartbeats_as_long_as_it_runs(running: Installation) -> None:
    def is_seen_again() -> bool:
        with closing(redis.Redis.from_url((running.data / "run" / "redis.url").read_text())) as client:
            client.delete(keys.WORKER)
        wait_until(lambda: status_of(running.port, "/readyz") == 200, PATIENCE, "the next heartbeat")
        return True

    assert is_seen_again()
    old = running.pid("redis")
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: running.pid("redis") not in (0, old), PATIENCE, "Redis is replaced")
    running.remember()
    wait_until(lambda: opens_a_session(running.port), PATIENCE, "a session opens again")
    assert is_seen_again()


def test_children_dying_on_full_disk_are_replaced(tmp_path: Path) -> None:
    """R14: a pid file that cannot be written must not end the supervisor with all its children."""
    with small_disk(tmp_path, "32m"):
        installation = Installation(tmp_path)
        installation.start_healthy()
        killed = set[int]()

        def has_met_full_disk() -> bool:
            # Sometimes a pid file gets bytes that were just freed. Then its process is killed as well.
            for pid in {installation.pid(name) for name in ("web-1", "worker")} - {0, *killed}:
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            return "the pid files cannot be written: No space left" in installation.output

        with no_room(tmp_path, takes_freed=True):
            wait_until(has_met_full_disk, PATIENCE, "a pid file without room")
        wait_until(lambda: opens_a_session(installation.port), 60.0, "a session opens again")
        wait_until(lambda: status_of(installation.port, "/readyz") == 200, 60.0, "ready again")
        assert installation.running.poll() is None
        assert {"up", "redis", "worker", "web-1"} <= installation.pid_files()
        installation.remember()
        assert installation.stop() == 0
        installation.close()


def _serves(running: Installation, name: str) -> bool:
    """Return True if a child serves again after its last end. It may have ended before it served."""
    printed = running.output
    return printed.rfind(f"{name} serves again") >= printed.rfind(f"{name} ended")


@pytest.mark.parametrize("name", ["web-1", "worker"])
def test_frozen_child_is_replaced_and_service_recovers(running: Installation, name: str) -> None:
    # It has the short limit of a process that serves, and not that of one that starts.
    wait_until(lambda: _serves(running, name), PATIENCE, f"{name} serves")
    old = running.pid(name)
    os.kill(old, signal.SIGSTOP)
    # Ten seconds of silence and two for the replacement; the machine may be busy.
    wait_until(lambda: running.pid(name) not in (0, old), 12.0 + 18.0, f"{name} is replaced")
    running.remember()
    wait_until(lambda: opens_a_session(running.port), 90.0, "a session opens again")
    # On a busy machine, another child may have been silent as well, and starts again.
    wait_until(lambda: status_of(running.port, "/readyz") == 200, START_SECONDS, "ready again")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stop_signal_ends_children_in_order(installation: Installation, number: signal.Signals) -> None:
    installation.start_healthy()
    assert installation.stop(number) == 0
    stopped = [
        line.split("| ")[1]
        for line in installation.lines
        if line.startswith("up") and line.endswith("stopped")
    ]
    assert stopped == ["web-1 stopped", "worker stopped", "redis stopped"]
    assert installation.survivors() == []
    assert installation.pid_files() == set()
    assert "Traceback" not in installation.output


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children that their parent is dead")
def test_killed_supervisor_leaves_no_process(installation: Installation) -> None:
    installation.start_healthy()
    installation.remember()
    installation.running.kill()
    wait_until(lambda: installation.survivors() == [], 15.0, "the children end")


def test_open_event_stream_does_not_delay_stop(installation: Installation) -> None:
    installation.start_healthy()
    with closing(Mcp.at(installation.port)) as client:
        client.initialize()
        with client.get_stream():
            started = time.monotonic()
            assert installation.stop() == 0
            assert time.monotonic() - started < 12.0 + SLACK


def refused(environment: dict[str, str]) -> tuple[int, str]:
    """Return exit code and output of a start that must fail."""
    done = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    return done.returncode, (done.stdout + done.stderr).strip()


def test_taken_port_is_one_line_with_remedy(installation: Installation) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", installation.port))
        taken.listen()
        code, text = refused(installation.environment)
    assert code != 0
    assert text.startswith(f"Port {installation.port} of 127.0.0.1 is taken by another program")
    assert "set PORT" in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"PORT": "80 80"}, "Wrong setting: PORT is '80 80'. Set it to a number from 1 to 65535"),
        (
            {"HOST": "0.0.0.0", "MCP_AUTH": "loopback"},
            "Wrong setting: MCP_AUTH=loopback accepts every client",
        ),
        ({"HOST": "192.0.2.1"}, "Cannot listen on 192.0.2.1"),
        ({"DATA_DIR": "/dev/null/data"}, "Cannot write to the data folder /dev/null/data"),
        ({"DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}, "The database cannot be used"),
    ],
)
def test_invalid_setting_is_one_line_with_remedy(
    installation: Installation, settings: dict[str, str], line: str
) -> None:
    code, text = refused({**installation.environment, **settings})
    assert code != 0
    assert "Traceback" not in text
    assert line in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("fault", "reason"), [("full", "No space left on device"), ("read-only", "Read-only file system")]
)
def test_unwritable_disk_is_one_line_error(
    tmp_path: Path, installation: Installation, fault: str, reason: str
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, "1m"):
        (disk / "run").mkdir()
        if fault == "read-only":
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with no_room(disk) if fault == "full" else nullcontext():
            code, text = refused({**installation.environment, "DATA_DIR": str(disk)})
    assert code != 0
    assert "Traceback" not in text
    assert text.startswith("Cannot write to the data folder")
    assert reason in text


def test_second_server_on_same_folder_is_refused(running: Installation, installation: Installation) -> None:
    code, text = refused({**installation.environment, "DATA_DIR": str(running.data)})
    assert code != 0
    assert text.startswith(f"Process {running.running.pid} already runs this server")


def test_old_python_gets_required_version() -> None:
    code = (
        "import runpy, sys; sys.version_info = (3, 9, 2); sys.argv = ['manage.py', 'up']; "
        "runpy.run_path('manage.py', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode != 0
    assert done.stderr.strip().startswith("Python 3.11 or newer is needed, this is 3.9.2")


def test_endless_headers_return_431(running: Installation) -> None:
    with RawClient("127.0.0.1", running.port) as client:
        answer = client.exchange(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 33_000)
    assert answer.status == 431


def test_slow_headers_return_408(running: Installation) -> None:
    with RawClient("127.0.0.1", running.port, patience=30) as client:
        started = time.monotonic()
        assert client.exchange(b"GET /healthz HTTP/1.1\r\nHost: loc").status == 408
    assert time.monotonic() - started < 12.0 + SLACK
