"""``manage.py mcp_doctor`` on real processes: a complete installation, and one without a worker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.servers.live import ROOT, LiveServer

pytestmark = pytest.mark.process

# Checks of times, which a busy machine exceeds: the words before the time, and the limit in its unit.
SPEEDS = {
    "database.reachable": ("responds in", 50.0),
    "redis.reachable": ("responds in", 50.0),
    "web.event_stream": ("first event after", 1.0),
}


def doctor(server: LiveServer, *arguments: str, **more: str) -> tuple[int, str]:
    """Return the exit status and output of the command."""
    done = subprocess.run(
        [sys.executable, "manage.py", "mcp_doctor", *arguments],
        check=False,
        cwd=ROOT,
        env={**server.environment, **more},
        capture_output=True,
        text=True,
        timeout=900,
    )
    return done.returncode, done.stdout + done.stderr


def of_level(printed: str, level: str) -> dict[str, dict[str, Any]]:
    return {finding["check"]: finding for finding in json.loads(printed) if finding["level"] == level}


def _is_slow(line: str) -> bool:
    """Return True for a warning about a time, which has to be above the limit of its check."""
    level, check, text = line.split(maxsplit=2)
    if level != "warning" or check not in SPEEDS:
        return False
    words, limit = SPEEDS[check]
    measured = re.search(rf"{words} ([0-9.]+) ", text)
    assert measured, line
    return float(measured[1]) >= limit


def test_complete_installation_has_no_findings() -> None:
    with LiveServer(web_processes=1, worker=True, concurrency=1, append_only=True) as server:
        status, printed = doctor(server)
        assert status == 0, printed
        *lines, counts = printed.splitlines()
        slow = [line for line in lines if _is_slow(line)]
        assert [line for line in lines if line not in slow and not line.startswith("ok ")] == []
        assert counts == f"{len(lines) - len(slow)} ok, 0 skipped, {len(slow)} warning, 0 error"
        assert "\x1b" not in printed
        assert "web.event_stream          a call that takes 2 s sent its first event" in printed
        password = server.redis.url.split(":")[2].split("@")[0]
        assert password not in printed
        assert (
            server.shell("from mcp_app.models import Session; print(Session.objects.get().ended_at)")
            != "None"
        )
        assert server.trouble() == []


def test_missing_worker_is_error_and_other_checks_run() -> None:
    with LiveServer(web_processes=1, append_only=True, env={"MCP_AUTH": "required"}) as server:
        status, printed = doctor(server, "--json")
        assert status == 1
        errors = of_level(printed, "error")
        assert set(errors) == {"workers.seen", "workers.queues", "web.ready"}
        assert "celery -A mcpsite worker" in errors["workers.seen"]["remedy"]
        assert set(of_level(printed, "skipped")) == {"web.event_stream"}
        _, printed = doctor(server, "--json", MCP_API_KEY=_issued_key(server))
        assert of_level(printed, "ok")["web.event_stream"]["text"].startswith(
            "an event stream sent its first bytes"
        )
        status, printed = doctor(server, "--json", "--key", "mcp_wrong-key-of-somebody")
        assert of_level(printed, "error")["web.event_stream"]["text"] == "initialize got status 401"
        assert "mcp_wrong" not in printed


def _issued_key(server: LiveServer) -> str:
    return server.shell(
        "from django.contrib.auth import get_user_model\n"
        "from mcp_app.auth.api_keys import issue_api_key\n"
        "user = get_user_model().objects.create_user('ada')\n"
        "print(issue_api_key(user=user, name='doctor')[1])"
    ).strip()
