"""Two web processes and a worker that may reach this machine, beside a web API on loopback."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.clients.modern import Modern
from tests.servers.live import LiveServer, eventually
from tests.servers.web_api import WebApi, web_api

SETTINGS = "tests.process.http_tools.settings"
# Exports each span as soon as it ends, so that none is lost with the process.
CONSOLE = {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "100"}
KEY = """
from django.contrib.auth import get_user_model
from mcp_app.auth.api_keys import issue_api_key
root = get_user_model().objects.create_superuser("root", password="x")
print(issue_api_key(user=root, name="desk")[1])
"""


@pytest.fixture(scope="package")
def live() -> Iterator[LiveServer]:
    env = {"DEMO": "off", "EGRESS_ALLOW": "127.0.0.0/8", **CONSOLE}
    with LiveServer(2, settings=SETTINGS, worker=True, concurrency=1, env=env) as server:
        yield server


@pytest.fixture(scope="package")
def token(live: LiveServer) -> str:
    """Create a superuser and return an API key."""
    return live.shell(KEY).strip().splitlines()[-1]


@pytest.fixture
def api() -> Iterator[WebApi]:
    with web_api() as found:
        yield found


def made(
    live: LiveServer, token: str, credentials: list[dict[str, object]], tools: list[dict[str, object]]
) -> None:
    """Store credentials and HTTP tools until each web process serves them. Replace those of earlier tests."""
    # Earlier tools may have the same names.
    title = secrets.token_hex(4)
    code = f"""
import json
from mcp_app.catalogue.changes.services import save_entry
from mcp_app.catalogue.sources.http.source import HTTP
from mcp_app.credentials.services import save_credential
from mcp_app.models import Credential, Tool
Tool.objects.filter(source="http").delete()
Credential.objects.all().delete()
for each in json.loads({json.dumps(json.dumps(credentials))}):
    save_credential(actor=None, **each)
for each in json.loads({json.dumps(json.dumps(tools))}):
    save_entry(kind=Tool, actor=None, source=HTTP, title="{title}", **each)
"""
    live.shell(code)
    names = {each["name"] for each in tools}

    def served(port: int) -> bool:
        with closing(Modern.at(port, token=token)) as client:
            listed = client.post("tools/list", {}).json()["result"]["tools"]
        return names <= {each["name"] for each in listed if each.get("title") == title}

    for port in live.ports:
        eventually(lambda port=port: served(port), 30, "the tools at each process")
