"""Django settings derived from the environment, read in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
ROOT = Path(__file__).resolve().parents[3]
PUBLIC = {
    "HOST": "0.0.0.0",
    "PUBLIC_URL": "https://mcp.example.com",
    "TRUSTED_PROXIES": "10.0.0.0/8",
    "SECRET_KEY": "X9#kd82hHsd7262kjsdaKJSH2727sdjkhKJHASDk2827ksjdhKJSHD",
}


def manage(tmp_path: Path, settings: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), **settings},
        capture_output=True,
        text=True,
        timeout=300,
    )


def value(tmp_path: Path, settings: dict[str, str], expression: str) -> str:
    code = f"from django.conf import settings; print({expression})"
    done = manage(tmp_path, settings, "shell", "--no-imports", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_public_deployment_passes_deploy_check(tmp_path: Path) -> None:
    settings = {**PUBLIC, "REDIS_URL": "redis://127.0.0.1:6379/0"}
    done = manage(tmp_path, settings, "check", "--deploy", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr


def test_public_deployment_requires_credentials_and_restricts_hosts(tmp_path: Path) -> None:
    expression = "settings.MCP['AUTH'], settings.ALLOWED_HOSTS, settings.MCP['LOOPBACK'], settings.DEBUG"
    assert value(tmp_path, PUBLIC, expression) == "required ['mcp.example.com'] False False"


@pytest.mark.parametrize(("demo", "expected"), [("on", "True"), ("off", "False")])
def test_demo_setting_switches_demo_apps(tmp_path: Path, demo: str, expected: str) -> None:
    expression = "any('contrib.demo' in name for name in settings.INSTALLED_APPS)"
    assert value(tmp_path, {"DEMO": demo}, expression) == expected


def test_celery_accepts_json_only(tmp_path: Path) -> None:
    facts = "app.conf.accept_content, app.conf.task_serializer, app.conf.timezone"
    code = f"from mcpsite.celery import app; print({facts})"
    done = manage(tmp_path, {}, "shell", "--no-imports", "-c", code)
    assert done.stdout.strip() == "['json'] json UTC"


def test_current_celery_app_in_other_threads_is_project_app(tmp_path: Path) -> None:
    code = "import celery, threading; threading.Thread(target=lambda: print(celery.current_app.main)).start()"
    assert manage(tmp_path, {}, "shell", "--no-imports", "-c", code).stdout.strip() == "mcpsite"


def test_runserver_is_daphne(tmp_path: Path) -> None:
    done = manage(tmp_path, {}, "runserver", "--help")
    assert "--http_timeout" in done.stdout
