"""Runs docker-compose.yml without containers: its commands and environment as processes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.process.installation import PASSED_ON, ROOT, free_port

VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
SECRETS = {"SECRET_KEY": "composed-servers-of-the-tests-sign-with-this", "POSTGRES_PASSWORD": "secret"}


def nginx() -> str | None:
    """Return the nginx binary, which is often not on the PATH of ordinary users."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def substitute(value: Any, variables: dict[str, str]) -> Any:
    """Substitute ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?message}`` as compose does."""
    if isinstance(value, dict):
        return {key: substitute(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, variables) for item in value]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        name, operator, text = match.groups()
        if variables.get(name):
            return variables[name]
        assert operator != "?", f"{name} is required: {text}"
        return text or ""

    return VARIABLE.sub(replacement, value)


def services(variables: dict[str, str]) -> dict[str, Any]:
    """Return the services of the file with substituted variables."""
    document = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    found: dict[str, Any] = substitute(document["services"], variables)
    return found


class Composition:
    """The application services and nginx with changed paths and ports; PostgreSQL and Redis are given."""

    def __init__(self, folder: Path, *, database_url: str, redis_url: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.ports = {"web-1": free_port(), "web-2": free_port()}
        self.services = services({**SECRETS, "PUBLIC_URL": f"http://127.0.0.1:{self.port}"})
        self._database_url = database_url
        self._redis_url = redis_url
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of a service with the addresses of this machine."""
        given = {key: str(value) for key, value in self.services[name]["environment"].items()}
        assert given["DATABASE_URL"] == "postgresql://mcp:secret@database:5432/mcp"
        assert given["REDIS_URL"] == "redis://valkey:6379/0"
        assert given["DEMO"] == "off"
        assert given["MCP_APPS_PATH"] == "/tools"
        given |= {
            "DEMO": "on",  # These tests call its tools.
            "DATABASE_URL": self._database_url,
            "REDIS_URL": self._redis_url,
            "DATA_DIR": str(self.folder / "data"),
            "MCP_APPS_PATH": str(self.folder),
            "HOST": "127.0.0.1",
            "PORT": str(self.ports.get(name, 8000)),
            "TRUSTED_PROXIES": "127.0.0.1",
        }
        return {**{key: os.environ[key] for key in PASSED_ON if key in os.environ}, **given}

    def command(self, name: str) -> list[str]:
        """Return the service's command with this interpreter and the temporary folder."""
        words = [word.replace("/tmp/", f"{self.folder}/") for word in self.services[name]["command"]]
        return [sys.executable if word == "python" else word for word in words]

    def run(self, name: str, *more: str) -> str:
        """Run a service to its end, or another command in its place; return its output."""
        done = subprocess.run(
            [sys.executable, *more] if more else self.command(name),
            cwd=ROOT, env=self.environment(name), capture_output=True, text=True, timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str) -> None:
        """Start a service in the background."""
        self._popen(name, self.command(name), self.environment(name))

    def start_nginx(self) -> None:
        """Start nginx with deploy/nginx.conf, changed in paths and ports only."""
        text = (ROOT / "deploy" / "nginx.conf").read_text()
        for name, port in self.ports.items():
            assert f"server {name}:8000" in text
            text = text.replace(f"server {name}:8000", f"server 127.0.0.1:{port}")
        text = text.replace("listen 8080;", f"listen 127.0.0.1:{self.port};").replace(
            "/tmp/", f"{self.folder}/"
        )
        config = self.folder / "nginx.conf"
        config.write_text(text)
        # As root, its workers would run as user nobody, which may not enter the temporary folder.
        directives = "daemon off;" + (" user root;" if os.geteuid() == 0 else "")
        binary = nginx()
        assert binary is not None
        self._popen(
            "nginx", [binary, "-c", str(config), "-p", str(self.folder), "-g", directives], dict(os.environ)
        )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def stop(self) -> dict[str, int]:
        """Send TERM to every service; return their exit codes."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        return {name: self._end(process) for name, process in self.processes.items()}

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return process.wait()

    def _popen(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
