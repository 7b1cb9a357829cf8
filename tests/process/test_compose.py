"""docker-compose.yml and deploy/nginx.conf, run as processes against a real PostgreSQL, Redis and nginx."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcp_app.conf import Settings
from mcpsite.redis_server import RedisServer
from tests.clients.raw_http import Mcp, RawClient
from tests.process.compose import Composition, nginx, services
from tests.process.installation import ROOT, wait_until
from tests.servers import postgres

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(postgres.binaries() is None, reason="no PostgreSQL binaries (install postgresql)"),
    pytest.mark.skipif(nginx() is None, reason="no nginx binary (install nginx)"),
]

ISSUE_KEY = """
from django.contrib.auth import get_user_model
from mcp_app.auth.api_keys import issue_api_key
user = get_user_model().objects.create_superuser("operator", password="only for this test")
print(issue_api_key(user=user, name="compose")[1])
"""


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    # Not pytest's own folder: PostgreSQL runs as another user, who may not enter it.
    with (
        tempfile.TemporaryDirectory(prefix="mcp-pg-") as folder,
        postgres.PostgreSQL(Path(folder)) as database,
    ):
        yield database.url


@pytest.fixture(scope="module")
def composition(
    tmp_path_factory: pytest.TempPathFactory, database_url: str, redis_server: RedisServer
) -> Iterator[Composition]:
    composition = Composition(
        tmp_path_factory.mktemp("compose"), database_url=database_url, redis_url=redis_server.url
    )
    composition.run("migrate")
    try:
        for name in ("web-1", "web-2", "worker", "beat"):
            composition.start(name)
        composition.start_nginx()
        wait_until(lambda: status(composition, "/readyz") == 200, 60.0, "ready behind nginx")
        yield composition
    finally:
        composition.stop()


@pytest.fixture(scope="module")
def api_key(composition: Composition) -> str:
    return composition.run("migrate", "manage.py", "shell", "--no-imports", "-c", ISSUE_KEY).strip()


def status(composition: Composition, path: str, port: int = 0) -> int:
    """Return the status of nginx or of the process on ``port``, or 0 without an answer."""
    try:
        with RawClient("127.0.0.1", port or composition.port) as client:
            return client.request("GET", path).status
    except OSError:
        return 0


def test_compose_services_are_the_known_ones() -> None:
    found = services({"SECRET_KEY": "x", "POSTGRES_PASSWORD": "y"})
    assert set(found) == {"nginx", "web-1", "web-2", "worker", "beat", "migrate", "database", "valkey"}
    assert found["web-1"] == found["web-2"]
    # A container's first process must collect processes that outlive their parent.
    assert {name for name, service in found.items() if service.get("init")} == {
        *("web-1", "web-2", "worker", "beat", "migrate")
    }


def test_apps_folder_is_mounted_for_every_code_running_service() -> None:
    given = {"SECRET_KEY": "x", "POSTGRES_PASSWORD": "y", "MCP_APPS": "mytools", "MCP_APPS_PATH": "/srv/apps"}
    found = services(given)
    for name in ("web-1", "web-2", "worker", "beat", "migrate"):
        assert found[name]["environment"]["MCP_APPS"] == "mytools"
        assert found[name]["environment"]["MCP_APPS_PATH"] == "/tools"
        assert "/srv/apps:/tools:ro" in found[name]["volumes"]
    # Without a folder, an empty volume takes its place.
    assert "tools:/tools:ro" in services({**given, "MCP_APPS_PATH": ""})["web-1"]["volumes"]


def test_nginx_read_timeout_is_three_keep_alives() -> None:
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    streams = text[text.index("location ~ ^/((mcp|sse") :]
    found = re.search(r"proxy_read_timeout (\S+);", streams)
    assert found
    assert found[1] == f"{3 * Settings().keep_alive_seconds:g}s"


def test_requests_without_credential_return_401(composition: Composition) -> None:
    with closing(Mcp.at(composition.port)) as client:
        answer = client.post(client.request_message("ping"))
    assert answer.status == 401
    assert "www-authenticate" in answer.headers


def test_session_opened_behind_nginx_works_at_both_processes(composition: Composition, api_key: str) -> None:
    with closing(Mcp.at(composition.port, token=api_key)) as client:
        client.initialize()
        for port in (*composition.ports.values(), composition.port):
            with closing(client.via(port)) as other:
                assert other.tool("add", a=2, b=3)["result"]["structuredContent"] == {"result": 5}


def test_background_call_runs_in_worker(composition: Composition, api_key: str) -> None:
    with closing(Mcp.at(composition.port, token=api_key)) as client:
        client.initialize()
        answer = client.tool("count", to=3, delay_seconds=0)
    assert answer["result"]["content"][0]["text"] == "counted to 3"
    assert "mcp_app.tasks.run_call" in composition.log("worker")


def test_nginx_forwards_event_while_stream_stays_open(composition: Composition, api_key: str) -> None:
    with closing(Mcp.at(composition.port, token=api_key)) as client:
        client.initialize()
        with client.get_stream() as stream:
            event = stream.next(10.0)
            assert event is not None
            assert event.id
            assert stream.quiet(0.5)


def test_forged_forwarded_address_is_ignored(composition: Composition, api_key: str) -> None:
    with closing(Mcp.at(composition.port)) as client:
        answer = client.post(client.request_message("ping"), X_Forwarded_For="127.0.0.1")
    assert answer.status == 401


def test_admin_pages_are_served_with_styles(composition: Composition) -> None:
    assert status(composition, "/admin/login/") == 200
    assert status(composition, "/static/unfold/css/styles.css") == 200


def test_sessions_continue_when_one_web_process_dies(composition: Composition, api_key: str) -> None:
    with closing(Mcp.at(composition.port, token=api_key)) as client:
        client.initialize()
        web = composition.processes["web-1"]
        web.kill()
        web.wait()
        for number in range(6):
            assert client.tool("echo", text=str(number))["result"]["content"][0]["text"] == str(number)
    composition.start("web-1")
    port = composition.ports["web-1"]
    wait_until(lambda: status(composition, "/readyz", port) == 200, 60.0, "web-1 ready again")


def test_every_service_stops_cleanly(composition: Composition) -> None:
    gone = [name for name, process in composition.processes.items() if process.poll() is not None]
    assert gone == [], "\n".join(composition.log(name) for name in gone)
    ended = composition.stop()
    failed = {name: code for name, code in ended.items() if code not in (0, -15)}
    assert failed == {}, "\n".join(composition.log(name) for name in failed)
    for name in ("web-1", "web-2", "worker", "beat"):
        assert "Traceback" not in composition.log(name)
