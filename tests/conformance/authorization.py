"""The suite's scenarios for an authorization server, against the embedded one: a user logs in and consents.

This part of the suite accepts no file of expected failures: nothing may fail or warn.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

from tests.clients import node
from tests.conformance.outcome import Outcome, Run, details, without_colour
from tests.integration.oauth.person import NAME, PASSWORD, Person
from tests.servers.live import LiveServer

GUARDED = {"MCP_AUTH": "required", "OAUTH_DOCUMENTS": "on"}
PORT = 33_919
CALLBACK = f"http://127.0.0.1:{PORT}/callback"
RUN_SECONDS = 150
SCENARIOS = frozenset({"authorization-server-metadata-endpoint", "authorization-code-grant"})
VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
# By a public client: a server that advertises `none`, as this one must, gives the suite no secret.
RUNS = tuple(
    Run(f"authorization, {version}", ("--spec-version", version), SCENARIOS, 2, has_baseline=False)
    for version in VERSIONS
)
_MADE = f"""
from django.contrib.auth import get_user_model
get_user_model().objects.create_user({NAME!r}, password={PASSWORD!r})
"""
_OPENED = re.compile(r"http://127\.0\.0\.1:\d+/oauth/authorize\?\S+")


def outcomes(server: LiveServer) -> list[Outcome]:
    """Return the suite's results for a server freshly started with GUARDED."""
    server.shell(_MADE)
    client_id = _registered(server)
    return [_execute(run, server, client_id) for run in RUNS]


def _registered(server: LiveServer) -> str:
    said = json.dumps({"client_name": "Conformance", "redirect_uris": [CALLBACK]}).encode()
    address = server.url.removesuffix("/mcp") + "/oauth/register"
    asked = urllib.request.Request(address, said, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        return str(json.load(answer)["client_id"])


def _execute(run: Run, server: LiveServer, client_id: str) -> Outcome:
    suite = node.install("conformance") / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    base = server.url.removesuffix("/mcp")
    command = [node.executable(), str(suite), "authorization", "--url", base, "--resource", server.url,
               "--port", str(PORT), "--client-id", client_id, *run.options]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="mcp-conformance-") as folder:
        with subprocess.Popen(
            [*command, "--output-dir", folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=node.environment(),
        ) as program:
            over = threading.Timer(RUN_SECONDS, program.kill)
            over.start()
            output = "".join(_with_a_person(program))
            over.cancel()
        return Outcome(run, without_colour(output), program.returncode, tuple(details(Path(folder))))


def _with_a_person(program: subprocess.Popen[str]) -> Iterator[str]:
    """Return the suite's output; open the pages it asks for as a user would."""
    assert program.stdout is not None
    for line in program.stdout:
        yield line
        if (found := _OPENED.search(line)) is not None:
            person = Person()
            asyncio.run(person.open(found[0]))
            with urllib.request.urlopen(f"{CALLBACK}?{urlencode(person.way_back)}") as page:
                page.read()
