"""The commands of docs/api.md work as documented, and a call started over the API runs, on real processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.servers.live import LiveServer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
# In YAML, as the commands of the page upload it.
DOCUMENT = """
openapi: 3.1.0
paths:
  /orders/{id}:
    get: {operationId: getOrder, summary: SUMMARY, tags: [orders]}
"""
KEY = """
from django.contrib.auth import get_user_model
from mcp_app.auth.api_keys import issue_api_key
user = get_user_model().objects.create_superuser("root")
print(issue_api_key(user=user, name="shell")[1])
"""

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("curl") is None, reason="the page speaks of curl"),
]


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with LiveServer(web_processes=1, worker=True) as server:
        yield server
        assert server.trouble() == []


def test_every_command_of_page_works_in_order(live: LiveServer, tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "API": f"http://127.0.0.1:{live.port}/api",
        "KEY": live.shell(KEY).strip().splitlines()[-1],
    }
    for name, summary in (("openapi.yaml", "Get an order"), ("openapi-2.yaml", "Fetch an order")):
        (tmp_path / name).write_text(DOCUMENT.replace("SUMMARY", summary))
    # Printed after each block, so that a failure shows its position.
    script = "set -e\n" + "".join(f"{block}\necho; echo == {place}\n" for place, block in enumerate(BLOCKS))
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert f"== {len(BLOCKS) - 1}" in done.stdout
    assert '"title": "Echo"' in done.stdout
    assert '"name": "greet_world"' in done.stdout
    assert '"secret": "mcp_' in done.stdout


def test_call_started_by_api_runs_on_worker_to_its_answer(live: LiveServer) -> None:
    key = live.shell(KEY.replace('"root"', '"caller"')).strip().splitlines()[-1]

    def ask(path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        request = Request(f"http://127.0.0.1:{live.port}/api/{path}", data, headers)
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)

    call = ask("calls/", {"tool": "count", "arguments": {"to": 3, "delay_seconds": 0.05}})
    lines: list[str] = []
    followed = {"over": False, "after": ""}
    for _ in range(50):
        after = f"&after={followed['after']}" if followed["after"] else ""
        followed = ask(f"calls/{call['id']}/follow/?wait=20{after}")
        lines += [line["text"] for line in followed["lines"]]
        if followed["over"]:
            break
    assert followed["call"]["outcome"] == "ok", followed
    assert followed["call"]["answer"]["result"]["content"][0]["text"] == "counted to 3"
    assert len(lines) == len(set(lines)) > 0
