"""Third-party clients log in: the TypeScript client, and Python clients of the first line."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest

from tests.bounds import SLACK
from tests.clients import node
from tests.integration.oauth.person import (
    CALLBACK,
    DOCUMENT,
    OPERATOR,
    PASSWORD,
    PEOPLE,
    PUBLISHED,
    Operator,
    Person,
)
from tests.interop import npm, pypi
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]
ENTERED = f"""
import json
from mcp_app.oauth.registration import create_client, metadata_of
said = {{"client_name": "Entered", "redirect_uris": [{CALLBACK!r}],
        "token_endpoint_auth_method": "client_secret_basic"}}
client, secret = create_client(metadata_of(said), actor=None)
print(json.dumps([client.client_id, secret]))
"""
# The guaranteed time of a revocation (S5), plus the interval of its checks.
REVOKED_SECONDS = 12.0
_OPENED = re.compile(r"http://127\.0\.0\.1:\d+/oauth/authorize\?\S+")


@pytest.fixture(scope="module")
def guarded() -> Iterator[LiveServer]:
    """Start two web processes that require authentication."""
    with LiveServer(2, env={"MCP_AUTH": "required", "OAUTH_DOCUMENTS": "on"}) as running:
        running.shell(PEOPLE)
        yield running
        assert not running.trouble(), running.logs()[-4000:]


def run(
    command: list[str],
    send_back: Callable[[subprocess.Popen[str], str], None],
    disconnected: Callable[[subprocess.Popen[str]], None] | None = None,
) -> str:
    """Run a program that makes a user open an address, and return its output; ``send_back`` passes it the
    redirect.

    ``disconnected`` is called when the program expects to be disconnected.
    """
    printed = []
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=node.environment(),
    ) as program:
        over = threading.Timer(npm.RUN_SECONDS, program.kill)
        over.start()
        assert program.stdout is not None
        for line in program.stdout:
            printed.append(line)
            if (found := _OPENED.search(line)) is not None:
                person = Person()
                asyncio.run(person.open(found[0]))
                send_back(program, urlencode(person.way_back))
            if disconnected is not None and line.strip() == "DISCONNECT":
                disconnected(program)
        over.cancel()
    assert program.returncode == 0, "".join(printed)[-4000:]
    return "".join(printed)


def told(program: subprocess.Popen[str], line: str) -> None:
    """Write a line to a program."""
    assert program.stdin is not None
    program.stdin.write(line + "\n")
    program.stdin.flush()


def known_by(server: LiveServer, way: str) -> dict[str, str]:
    """Return the client's registration before its first connection."""
    if way == "document":
        server.shell(PUBLISHED)
        return {"document": DOCUMENT}
    if way == "entered":
        printed = server.shell(ENTERED)
        client_id, secret = json.loads(printed.strip().splitlines()[-1])
        return {"client_id": client_id, "client_secret": secret}
    return {}


@pytest.mark.parametrize("way", ["registered", "document", "entered"])
def test_typescript_client_logs_in_refreshes_and_ends_with_its_connection(
    guarded: LiveServer, way: str
) -> None:
    script, known = npm.beside_packages("oauth.mjs"), known_by(guarded, way)

    def by_admin(program: subprocess.Popen[str]) -> None:
        with Operator(guarded) as operator:
            operator.end_all()
        told(program, "done")

    command = [node.executable(), str(script), guarded.url, json.dumps(known)]
    printed = run(command, told, by_admin)
    report = json.loads(printed.strip().splitlines()[-1])
    if way != "registered":
        assert report["client_id"] == known.get("client_id", DOCUMENT)
    assert report["first"] == {"result": 5}
    assert report["renewed"] == [{"result": 5}] * 5
    assert (report["pairs"], report["opened"]) == (1, 1)
    assert report["seconds"] < REVOKED_SECONDS + SLACK
    assert report["streamed"] < REVOKED_SECONDS + SLACK


@pytest.mark.requirement("AUTH-13", "AUTH-28")
@pytest.mark.parametrize("version", ["mcp116", "mcp110"])
def test_older_python_client_logs_in_without_the_admin_scope(guarded: LiveServer, version: str) -> None:
    # 1.16.0 requests all scopes of the metadata; 1.10.1 refuses metadata with signing algorithms.
    report = pypi.run_script("login1", guarded.url, OPERATOR, PASSWORD, own=version)
    assert report["asked"] == "mcp mcp:tools mcp:resources mcp:prompts offline_access"
    assert report["granted"] == "mcp mcp:tools mcp:resources mcp:prompts"
    assert (report["opened"], report["result"]) == (1, {"result": 5})
