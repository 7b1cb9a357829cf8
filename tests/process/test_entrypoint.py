"""``deploy/entrypoint.sh`` without a container: requirements are installed once, then the service runs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.process.installation import ROOT

pytestmark = pytest.mark.process


class Container:
    """A runner of commands through the script; packages come from a local index."""

    def __init__(self, folder: Path) -> None:
        self.tools, self.packages, self.wheels = (folder / name for name in ("tools", "packages", "wheels"))
        for each in (self.tools, self.packages, self.wheels):
            each.mkdir()
        self.environment = {
            # `python` is the one that runs this test.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "MCP_APPS_PATH": str(self.tools),
            "PACKAGES": str(self.packages),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
        }

    def start(self, code: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", ROOT / "deploy" / "entrypoint.sh", "python", "-c", code],
            cwd=ROOT, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, code: str) -> tuple[int, str, str]:
        """Return exit code, output and errors."""
        process = self.start(code)
        out, errors = process.communicate(timeout=900)
        return process.returncode, out.strip(), errors

    def offer(self, name: str, version: str) -> None:
        """Build a wheel of one module that knows its version."""
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(self.wheels / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", f"version = {version!r}\n")
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")

    def require(self, line: str) -> None:
        (self.tools / "requirements.txt").write_text(line + "\n")


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


VERSION = "import greetings; print(greetings.version)"


def test_service_runs_immediately_without_requirements_file(container: Container) -> None:
    assert container.run("print('served')") == (0, "served", "")
    del container.environment["MCP_APPS_PATH"]
    assert container.run("print('served')") == (0, "served", "")


def test_requirements_are_installed_once_and_again_after_change(container: Container) -> None:
    container.offer("greetings", "1.0")
    container.offer("greetings", "2.0")
    container.require("greetings==1.0")
    code, out, errors = container.run(VERSION)
    assert (code, out) == (0, "1.0"), errors
    assert "Installing" in errors
    assert container.run(VERSION) == (0, "1.0", "")
    container.require("greetings==2.0")
    assert container.run(VERSION)[:2] == (0, "2.0")


def test_concurrent_containers_share_one_installation(container: Container) -> None:
    container.offer("greetings", "1.0")
    container.require("greetings")
    started = [container.start(VERSION) for _ in range(3)]
    ended = [(process.communicate(timeout=900), process.returncode) for process in started]
    assert [(out.strip(), code) for (out, _), code in ended] == [("1.0", 0)] * 3, ended
    assert len(list(container.packages.iterdir())) == 1


def test_conflicting_or_unavailable_requirement_prevents_service_start(
    container: Container,
) -> None:
    container.offer("django", "1.0")
    container.require("django==1.0")
    code, out, errors = container.run("print('served')")
    assert code != 0
    assert out == ""
    assert "django" in errors.lower()
    assert list(container.packages.iterdir()) == []
