"""``manage.py up``: run the whole server on one machine, even from an empty folder."""

from __future__ import annotations

import errno
import http.client
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import Error as DatabaseFault

from mcp_app import conf
from mcp_app.connect.connection import KEY_PLACEHOLDER, ServerConnection
from mcp_app.connect.snippets import snippets
from mcp_app.observability.logs import json_line
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.streams.blocking.server_facts import cluster_fault
from mcpsite.environment import (
    BASE_DIR,
    Environment,
    WrongSettings,
    forget_redis_url,
    read,
    remember_redis_url,
)
from mcpsite.first_start import FirstStart, first_administrator, prepare
from mcpsite.pid_files import AlreadyRunning, PidFiles
from mcpsite.processes.edits import Edits
from mcpsite.processes.own_code import OURS, own_folders
from mcpsite.processes.program import Program
from mcpsite.processes.reloader import Reloader
from mcpsite.redis_server import RedisServer, RedisServerError
from mcpsite.supervisor import CrashLoop, Supervisor
from mcpsite.web import LEAVE_SECONDS, CannotListen, bind

REDIS_STAGE, BRIDGE_STAGE, WORKER_STAGE, WEB_STAGE = range(4)
HEALTHY_SECONDS = 200.0
# Even a machine with ten times the work it can handle schedules every process within this time.
SILENCE_SECONDS = 10.0
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class Command(BaseCommand):
    """The command that starts all processes: Redis (without REDIS_URL), worker, web, and the bridge."""

    help = "Run the whole server: Redis, worker, web processes. Ctrl-C stops it."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--reload",
            action="store_true",
            help="serve code as it is edited; running calls finish first",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until Ctrl-C or TERM. If the start fails, print one line and exit with code 1."""
        try:
            self._run(environment := read(), watched(environment) if options["reload"] else None)
        except (WrongSettings, AlreadyRunning, CannotListen, RedisServerError, CrashLoop) as error:
            sys.exit(str(error))
        except DatabaseFault as error:
            reason = " ".join(str(error).split())
            sys.exit(f"The database cannot be used: {reason}. Check DATABASE_URL and the data folder.")
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            sys.exit(f"Cannot write to the data folder: {error.strerror}. Make room, or set DATA_DIR.")

    def _run(self, environment: Environment, edits: Edits | None) -> None:
        pid_files = PidFiles(environment.run_dir)
        pid_files.claim()
        environment.code_fault_file.unlink(missing_ok=True)
        try:
            with bind(environment.host, environment.port) as listening:
                supervisor = Supervisor(
                    pid_files, directory=BASE_DIR, out=sys.stdout, as_json=environment.log_format == "json"
                )
                supervisor.listen_to_signals()
                try:
                    self._serve(supervisor, environment, listening, edits)
                finally:
                    supervisor.stop()
        finally:
            with suppress(OSError):
                environment.code_fault_file.unlink(missing_ok=True)
                forget_redis_url(environment.run_dir)
            pid_files.release()

    def _serve(
        self,
        supervisor: Supervisor,
        environment: Environment,
        listening: socket.socket,
        edits: Edits | None,
    ) -> None:
        if refused := cluster_fault(environment.redis_url):
            raise RedisServerError(refused)
        redis_url = environment.redis_url or start_redis(supervisor, environment)
        prepare()
        first = first_administrator()
        make = partial(programs, environment, redis_url, listening, reload=edits is not None)
        if environment.upstream_commands:
            supervisor.start(bridge())
        started = {program.name: supervisor.start(program) for program in make(0)}
        health = Health(listening)
        if supervisor.run_until(lambda: supervisor.ready() and health.good(), HEALTHY_SECONDS):
            words = healthy_line if environment.log_format == "json" else healthy_block
            self.stdout.write(words(environment, first))
            self.stdout.flush()
            if edits is None:
                supervisor.run()
            else:
                supervisor.run(Reloader(supervisor, edits, make, started, environment.code_fault_file).turn)
        elif not supervisor.stop_requested:
            raise CrashLoop(f"Not healthy within {HEALTHY_SECONDS:g} s: {health.complaint}")


def start_redis(supervisor: Supervisor, environment: Environment) -> str:
    """Start the embedded Redis as a child. Return its URL once it is ready."""
    server = RedisServer(environment.data_dir / "redis")
    if server.banner and environment.log_format == "json":
        supervisor.write_log("redis", " ".join(server.banner.split()))
    elif server.banner:
        sys.stderr.write(server.banner)
    supervisor.start(Program("redis", tuple(server.command()), REDIS_STAGE))
    server.wait_ready()
    remember_redis_url(environment.run_dir, server.url)
    return server.url


def watched(environment: Environment) -> Edits:
    """Return a watcher for the user's apps, and in a clone also for the project's own code."""
    return Edits([*own_folders(environment), *(OURS if (BASE_DIR / "manage.py").exists() else ())])


def programs(
    environment: Environment, redis_url: str, listening: socket.socket, generation: int, *, reload: bool
) -> list[Program]:
    """Return the programs of one generation of the code, all except Redis."""
    numbers = range(1, environment.web_processes + 1)
    return [
        worker(environment, redis_url, generation, reload=reload),
        *(web(number, redis_url, listening, reload=reload) for number in numbers),
    ]


def bridge() -> Program:
    """Return the bridge to upstream servers over stdio. Edited code does not replace it."""
    return Program(
        name="upstreams",
        argv=(sys.executable, "-m", "mcpsite.processes.bridge"),
        stage=BRIDGE_STAGE,
        # A process gets five seconds to end.
        grace_seconds=8.0,
        announces_ready=True,
        silence_seconds=SILENCE_SECONDS,
    )


def worker(environment: Environment, redis_url: str, generation: int = 0, *, reload: bool = False) -> Program:
    """Return the Celery worker with beat.

    For a while, the workers of two generations run at the same time.
    """
    name = f"worker.{generation}" if generation else "worker"
    schedule = f"celerybeat-schedule{'-2' * (generation % 2)}"
    return Program(
        name="worker",
        argv=(
            *(sys.executable, "-m", "celery", "--quiet", "-A", "mcpsite", "worker", "--beat"),
            *("--schedule", str(environment.data_dir / schedule)),
            *("--concurrency", str(environment.worker_concurrency), "--hostname", f"{name}@%h"),
            *("--queues", ",".join(environment.worker_queues)),
            # Celery's heartbeats are for monitors of Celery. Without Redis, one that is due blocks the end.
            *("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"),
        ),
        stage=WORKER_STAGE,
        # With REMAP_SIGTERM, TERM makes Celery return running jobs to the queue after two seconds. Without
        # it, Celery would wait for them.
        environment={"REDIS_URL": redis_url, "REMAP_SIGTERM": "SIGQUIT"},
        grace_seconds=8.0,
        announces_ready=True,
        silence_seconds=SILENCE_SECONDS,
        asks_permission=reload,
        leave_signal=signal.SIGHUP,
        leave_seconds=LEAVE_SECONDS,
    )


def web(number: int, redis_url: str, listening: socket.socket, *, reload: bool = False) -> Program:
    """Return one web process that listens on the shared socket."""
    return Program(
        name=f"web-{number}",
        argv=(sys.executable, "-m", "mcpsite.web"),
        stage=WEB_STAGE,
        environment={"REDIS_URL": redis_url, "LISTEN_FD": str(listening.fileno())},
        descriptors=(listening.fileno(),),
        grace_seconds=8.0,
        announces_ready=True,
        silence_seconds=SILENCE_SECONDS,
        asks_permission=reload,
        leave_signal=signal.SIGHUP,
        leave_seconds=LEAVE_SECONDS + 8.0,
    )


class Health:
    """A check whether the running server is ready."""

    def __init__(self, listening: socket.socket) -> None:
        host, self._port = listening.getsockname()[:2]
        self._host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
        self.complaint = "no answer"

    def good(self) -> bool:
        """Return True if ``/readyz`` responds 200. Otherwise set ``complaint`` to the response."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            self.complaint = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            self.complaint = str(error)
            return False
        finally:
            connection.close()
        return response.status == 200


def healthy_line(environment: Environment, first: FirstStart | None) -> str:
    """Return the facts of a healthy start as one JSON line.

    It has no generated secrets: logs are stored.
    """
    facts = {"mcp": environment.base_url + ENDPOINT, "admin": f"{environment.base_url}/admin/"}
    if first:
        facts |= {"user": first.user, "remedy": f"manage.py changepassword {first.user} sets a password"}
    return json_line(logger="mcp.up", message="The server is healthy.", process="up", **facts)


def healthy_block(environment: Environment, first: FirstStart | None) -> str:
    """Return the facts of a healthy start for people: addresses, access rule, and a line to paste."""
    url = environment.base_url + ENDPOINT
    needs_key = environment.auth != "loopback" and environment.api_keys
    key = first.api_key if first and needs_key else KEY_PLACEHOLDER
    provider = environment.oauth_issuer if environment.auth == "external" else ""
    # Clients find the provider through this server's metadata, which contains the server's address.
    logs_in = environment.offers_oauth or bool(provider and environment.client_url)
    connection = ServerConnection(conf.get().server.name, url, needs_key=needs_key, key=key, logs_in=logs_in)
    (client,) = snippets(connection, "claude-code")
    lines = ["", f"  MCP      {url}", f"  Admin    {environment.base_url}/admin/"]
    if first:
        lines += [
            f"           user {first.user}, password {first.password}",
            f"           (shown only once; `manage.py changepassword {first.user}` sets another)",
        ]
    if logs_in:
        lines += _login_lines(url, first, provider)
    elif provider:
        lines += [
            f"  Log in   requests need a token of {provider} for this server;",
            "           clients find their way there where PUBLIC_URL is set (docs/oauth.md)",
        ]
    use = _use_of_keys(needs_key=needs_key, logs_in=logs_in, provider=provider)
    if not environment.api_keys:
        lines += ["  API key  not accepted (API_KEYS)"]
    elif first:
        lines += [f"  API key  {first.api_key}", f"           (shown only once; {use})"]
    else:
        lines += [f"  API key  made in the admin under API keys; {use}"]
    lines += [f"  Client   {client.text}", "  Stop     Ctrl-C", ""]
    return "\n".join(lines)


def _login_lines(url: str, first: FirstStart | None, provider: str) -> list[str]:
    """Return the instructions for logging in through a client, here or at the identity provider."""
    whom = "this user logs in" if first else "a user of the admin logs in"
    return [
        "  Log in   give a client the MCP address and no key: it opens a browser, where "
        + (f"people log in at\n           {provider}" if provider else whom),
        f"           (docs/oauth.md; a client that knows stdio only: npx -y mcp-remote {url})",
    ]


def _use_of_keys(*, needs_key: bool, logs_in: bool, provider: str) -> str:
    if logs_in:
        return "for clients that cannot open a browser"
    if provider:
        return "every request needs one, or a token of the provider"
    return "every request needs one" if needs_key else "not needed on this machine"
