"""A Redis Cluster is not supported: every program reports it in one line and exits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from mcp_app.streams.blocking.server_facts import cluster_fault
from mcpsite.redis_server import find_program
from tests.process.installation import PASSED_ON, ROOT, free_port
from tests.samples.migrated import migrated
from tests.servers.live import eventually

pytestmark = pytest.mark.process

LINE = "REDIS_URL leads to a Redis Cluster, which cannot be used"
PROGRAMS = {
    "up": ("manage.py", "up"),
    "prepare": ("manage.py", "prepare"),
    "doctor": ("manage.py", "mcp_doctor"),
    "worker": ("-m", "celery", "-A", "mcpsite", "worker", "--pool", "solo"),
    "web": ("-m", "mcpsite.web"),
}


def _port() -> int:
    """Return a port whose cluster bus port, 10,000 above, is valid."""
    while (port := free_port()) > 55_000:
        pass
    return port


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the only node of a cluster."""
    program = find_program()
    if program.kind == "fakeredis":
        pytest.skip("no Redis is installed")
    folder, port = tmp_path_factory.mktemp("cluster"), _port()
    command = [program.executable, "--port", str(port), "--cluster-enabled", "yes", "--dir", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    url = f"redis://127.0.0.1:{port}"
    try:
        with redis.Redis.from_url(url, protocol=2) as client:
            eventually(lambda: _answers(client), 20, "a cluster")
        yield url
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


@pytest.mark.parametrize("database", [0, 1])
def test_cluster_is_detected(cluster: str, database: int) -> None:
    """A cluster has one database, and rejects a connection to another before it can be queried."""
    assert cluster_fault(f"{cluster}/{database}").startswith(LINE)


def test_single_redis_is_not_detected_as_cluster(redis_url: str) -> None:
    assert cluster_fault(redis_url) == ""
    assert cluster_fault("redis://127.0.0.1:1/0") == ""
    assert cluster_fault("") == ""


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_rejects_cluster_in_one_line(program: str, cluster: str, tmp_path: Path) -> None:
    """Otherwise Celery would retry forever, and `up` would time out after 60 s without a reason."""
    (tmp_path / "db.sqlite3").write_bytes(migrated(ROOT, "mcpsite.settings"))
    inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    done = subprocess.run(
        [sys.executable, *PROGRAMS[program]],
        check=False,
        cwd=ROOT,
        env={**inherited, "DATA_DIR": str(tmp_path), "PORT": str(free_port()), "REDIS_URL": f"{cluster}/0"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    printed = done.stdout + done.stderr
    assert done.returncode != 0, printed
    assert "Traceback" not in printed
    (line,) = [line for line in printed.splitlines() if LINE in line]
    assert "Give it the address of one Redis or Valkey without cluster mode" in line
