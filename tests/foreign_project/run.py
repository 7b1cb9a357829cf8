"""Builds a project by the steps of docs/embedding.md, from the wheel alone, and sends it requests.

``python -m tests.foreign_project.run WHEEL [--python PATH] [--django 5.2] [--servers gunicorn,granian]``
creates an empty environment, runs every line of the page there, then connects the official client.
Nothing of this repository is on its path.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcpsite.redis_server import RedisServer
from tests.clients.raw_http import RawClient
from tests.foreign_project import conversation
from tests.foreign_project.page import Step, steps
from tests.process.installation import free_port, wait_until

PROJECT = Path(__file__).with_name("project")
# The project's own dependencies; its Celery and Redis clients come with this package.
OWN = ("djangorestframework", "uvicorn")
SERVERS = {
    "uvicorn": ((), "uvicorn acme.asgi:application --port {port}"),
    "gunicorn": (
        ("gunicorn", "uvicorn-worker"),
        "gunicorn acme.asgi:application -w 2 -k uvicorn_worker.UvicornWorker -b 127.0.0.1:{port}",
    ),
    "hypercorn": (("hypercorn",), "hypercorn --workers 0 acme.asgi:application -b 127.0.0.1:{port}"),
    "granian": (("granian",), "granian --interface asgi acme.asgi:application --port {port}"),
    "daphne": (("daphne",), "daphne -b 127.0.0.1 -p {port} acme.asgi:application"),
}
# Servers whose applications get no shutdown event.
TELL_NOTHING = ("daphne",)
NEW_USER = """
from django.contrib.auth import get_user_model
get_user_model().objects.create_user("grace@acme.example")
"""
NEW_ORDERS = """
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from shop.models import Order
people = get_user_model().objects
grace, bob = people.get(email="grace@acme.example"), people.create_user("bob@acme.example")
grace.user_permissions.add(Permission.objects.get(codename="view_order"))
for person in (grace, bob):
    Order.objects.create(customer=person, product="Lamp", year=2025)
"""
# The section of the page that a reader may skip: those before it work without any extra.
EXPOSING = "Viewsets and models"
START_SECONDS = 180.0
STOP_SECONDS = 60.0


class Project:
    """One environment with one copy of the project."""

    def __init__(self, folder: Path, environment: Path, wheel: Path, python: str, redis_url: str) -> None:
        self.folder, self.port = folder / "acme", free_port()
        self.bin = environment / "bin"
        shutil.copytree(PROJECT, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        own = ("PYTHON", "DJANGO", "MCP")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        links = f"{wheel.parent} {kept.get('PIP_FIND_LINKS', '')}".strip()
        path = f"{self.bin}{os.pathsep}{kept['PATH']}"
        # Python compiles what is imported; pip would compile every module of every library.
        pip = {"PIP_FIND_LINKS": links, "PIP_NO_COMPILE": "1"}
        self.environment = {**kept, **pip, "PATH": path, "REDIS_URL": redis_url}
        self.running: list[subprocess.Popen[bytes]] = []
        if not environment.exists():
            subprocess.run([python, "-m", "venv", str(environment)], check=True)

    def run(self, command: str) -> str:
        """Run one line as a user would and return its output; fail if the command fails."""
        print(f"$ {command}", flush=True)
        done = subprocess.run(
            shlex.split(command), cwd=self.folder, env=self.environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=900,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{done.stdout}\nstatus {done.returncode}: {command}")
        return done.stdout

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """Start a line that keeps running."""
        print(f"$ {command} &", flush=True)
        name = command.split(maxsplit=1)[0]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                shlex.split(command), cwd=self.folder, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.running.append(process)
        return process

    def status(self, path: str) -> int:
        """Return the status of a GET, or 0 while no server listens."""
        try:
            with RawClient("127.0.0.1", self.port, patience=10) as client:
                return client.request("GET", path).status
        except OSError:
            return 0

    def stop(self) -> None:
        """Stop all processes and wait until they exit."""
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            process.wait(STOP_SECONDS)
        self.running.clear()

    def log(self) -> str:
        """Return the output of the processes."""
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in sorted(self.folder.glob("*.log")))


def follow_the_page(project: Project, page: list[Step]) -> None:
    """Run every line of the page: start servers, and let later lines wait for them."""
    for step in page:
        if step.path:
            path = project.folder / step.path
            path.write_text(path.read_text() + step.content if step.appends else step.content)
        elif step.command.startswith("uvicorn"):
            project.start(step.command.replace("8000", str(project.port)))
        elif step.command.startswith("celery"):
            project.start(step.command)
        elif step.command.startswith("claude"):
            continue  # A program of the reader's; the official client takes its place.
        else:
            if "mcp_doctor" in step.command:
                wait_until(lambda: project.status("/readyz") == 200, START_SECONDS, "ready, with a worker")
            said = project.run(step.command.replace("8000", str(project.port)))
            if "check" in step.command:
                # An extra would serve this; without it, the page only mentions it.
                assert not {"WARNINGS:", "ERRORS:"} & set(said.split()), said


def ask_for_keys(project: Project) -> None:
    """Require keys, as in public: anonymous requests fail and a background tool runs as its user."""
    settings = project.folder / "acme" / "settings.py"
    settings.write_text(f'{settings.read_text()}MCP["AUTH"] = "required"\n')
    secret = new_key(project)
    (project.folder / "key").write_text(secret)
    with serving(project) as process:
        assert project.status("/mcp") == 401
        asyncio.run(conversation.hold(project.port, secret))
        conversation.stops_with_an_open_stream(project.port, process, secret)


def expose_what_is_there(project: Project, page: list[Step]) -> None:
    """Expose existing code as the page describes; call its tools as the owner of the key."""
    follow_the_page(project, page)
    project.run(f"python manage.py shell -c '{NEW_ORDERS}'")
    secret = (project.folder / "key").read_text()
    with serving(project):
        asyncio.run(conversation.hold(project.port, secret, is_exposed=True))


def new_key(project: Project) -> str:
    """Return the key that the page's command issues to a new user."""
    project.run(f"python manage.py shell -c '{NEW_USER}'")
    said = project.run("python manage.py mcp_key add grace@acme.example --name desk")
    return next(line for line in said.splitlines() if line.startswith("mcp_"))


def on_an_empty_database(project: Project) -> None:
    """Set the finished project up from an empty database, and without an admin."""
    project.environment |= {"DATABASE": "empty.sqlite3", "WITHOUT_ADMIN": "1"}
    said = project.run("python -W error::RuntimeWarning manage.py migrate")
    assert "orders" not in said, said
    for command in ("check", "check --database default"):
        said = project.run(f"python manage.py {command}")
        assert not {"WARNINGS:", "ERRORS:"} & set(said.split()), said
    secret = new_key(project)
    with serving(project):
        assert project.status("/admin/login/") == 404
        asyncio.run(conversation.order(project.port, secret))


def with_extras(project: Project) -> None:
    """Check that parts with extras work once these are installed, without remaining notes."""
    project.run("pip install 'django-mcp-app[admin,console,api]'")
    assert "no issues" in project.run("python manage.py check")
    project.run("python manage.py test")
    with serving(project):
        found = {path: project.status(path) for path in ("/ops/console/", "/ops/api/", "/ops/api/docs/")}
        assert found == {"/ops/console/": 302, "/ops/api/": 401, "/ops/api/docs/": 302}, found


def try_servers(project: Project, names: list[str]) -> None:
    """Run the same project on other servers, each with a client and an open stream at shutdown."""
    for name in names:
        if packages := SERVERS[name][0]:
            project.run(f"pip install --quiet {' '.join(packages)}")
        with serving(project, name) as process:
            asyncio.run(conversation.hold(project.port))
            conversation.stops_with_an_open_stream(project.port, process, is_told=name not in TELL_NOTHING)
        print(f"ok: {name}", flush=True)


@contextmanager
def serving(project: Project, name: str = "uvicorn") -> Iterator[subprocess.Popen[bytes]]:
    """Run the project on this server; stop it at the end unless it has stopped."""
    process = project.start(SERVERS[name][1].format(port=project.port))
    wait_until(lambda: project.status("/healthz") == 200, START_SECONDS, f"{name} answers")
    yield process
    process.terminate()
    process.wait(STOP_SECONDS)
    project.running.remove(process)


def main() -> None:
    """Return exit status 0 if all of it succeeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--django", default="5.2")
    parser.add_argument("--environment", type=Path, help="one that is there, to save the time of making it")
    parser.add_argument("--servers", default="uvicorn", help=f"some of {','.join(SERVERS)}")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="foreign-project-") as name:
        redis = RedisServer(Path(name) / "redis", append_only=True)
        environment = asked.environment or Path(name) / "venv"
        project = Project(Path(name), environment, asked.wheel.resolve(), asked.python, redis.start())
        try:
            project.run(f"pip install --quiet {' '.join(OWN)} 'django~={asked.django}.0'")
            page = steps()
            follow_the_page(project, [step for step in page if step.section != EXPOSING])
            asyncio.run(conversation.hold(project.port))
            conversation.everything_else_is_the_projects(project)
            conversation.stops_with_an_open_stream(project.port, project.running.pop(0))
            try_servers(project, [name for name in asked.servers.split(",") if name != "uvicorn"])
            ask_for_keys(project)
            expose_what_is_there(project, [step for step in page if step.section == EXPOSING])
            with_extras(project)
            project.stop()
            on_an_empty_database(project)
        except BaseException:
            print(project.log(), file=sys.stderr)
            raise
        finally:
            for process in project.running:
                process.kill()
            redis.stop()
    print(f"The project of docs/embedding.md works: Django {asked.django}, {asked.python}")


if __name__ == "__main__":
    main()
