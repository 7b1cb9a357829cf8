"""Programs of others log in: the TypeScript client, and the conformance suite."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest

from tests import node
from tests.integration.oauth.person import NAME, PASSWORD, Person
from tests.interop import npm
from tests.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]
PEOPLE = f"""
from django.contrib.auth import get_user_model
get_user_model().objects.create_user({NAME!r}, password={PASSWORD!r})
"""
_OPENED = re.compile(r"http://127\.0\.0\.1:\d+/oauth/authorize\?\S+")


@pytest.fixture(scope="module")
def guarded() -> Iterator[LiveServer]:
    """Two web processes that let nobody in without a login."""
    with LiveServer(2, env={"MCP_AUTH": "required"}) as running:
        running.shell(PEOPLE)
        yield running
        assert not running.trouble(), running.logs()[-4000:]


def run(command: list[str], send_back: Callable[[subprocess.Popen[str], str], None]) -> str:
    """What a program prints that has a person open one address; ``send_back`` tells it the way back."""
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
        over.cancel()
    assert program.returncode == 0, "".join(printed)[-4000:]
    return "".join(printed)


def test_the_typescript_client_logs_in_calls_and_renews(guarded: LiveServer) -> None:
    script = npm.beside_packages("oauth.mjs")

    def by_input(program: subprocess.Popen[str], query: str) -> None:
        assert program.stdin is not None
        program.stdin.write(query + "\n")
        program.stdin.flush()

    printed = run([node.executable(), str(script), guarded.url], by_input)
    report = json.loads(printed.strip().splitlines()[-1])
    assert report == {"first": {"result": 5}, "second": {"result": 5}, "renewed": True}


def test_the_conformance_suite_finds_an_authorization_server(guarded: LiveServer) -> None:
    suite = npm.packages("conformance") / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    base, port = guarded.url.removesuffix("/mcp"), 33_919
    callback = f"http://127.0.0.1:{port}/callback"
    said = json.dumps({"client_name": "Conformance", "redirect_uris": [callback]}).encode()
    asked = urllib.request.Request(f"{base}/oauth/register", said, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        client_id = json.load(answer)["client_id"]

    def by_browser(_: subprocess.Popen[str], query: str) -> None:
        with urllib.request.urlopen(f"{callback}?{query}") as page:
            assert page.status == 200

    options = ["--url", base, "--client-id", client_id, "--resource", guarded.url, "--port", str(port)]
    printed = run([node.executable(), str(suite), "authorization", *options], by_browser)
    assert "0 failed" in printed.splitlines()[-1]
