"""``LOG_FORMAT=json manage.py up``: each output line is one JSON object without secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.installation import START_SECONDS, Installation, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path, LOG_FORMAT="json", WORKER_CONCURRENCY="1")
    yield made
    made.close()


def test_every_output_line_is_json_object_without_secrets(
    installation: Installation,
) -> None:
    def read() -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(installation.lines)]

    def is_healthy() -> bool:
        return any(line["message"] == "The server is healthy." for line in read())

    installation.start()
    wait_until(lambda: is_healthy() or installation.running.poll() is not None, 2 * START_SECONDS, "healthy")
    assert installation.running.poll() is None, installation.output
    assert installation.stop() == 0
    lines = read()
    (healthy,) = [line for line in lines if line["message"] == "The server is healthy."]
    assert healthy["mcp"].endswith("/mcp")
    assert healthy["user"] == "admin"
    assert "changepassword admin" in healthy["remedy"]
    assert "mcp_" not in installation.output.replace("mcp_app", "")
    assert {"up"} <= {line["process"] for line in lines}
    for line in lines:
        assert line.keys() >= {"time", "level", "logger", "message", "process"}, line
