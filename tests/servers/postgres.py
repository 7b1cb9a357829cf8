"""A private PostgreSQL from the machine's binaries. As a program, it runs the database tests on it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.samples.migrated import BASE, digest_of, kept

ROOT = Path(__file__).resolve().parent.parent.parent
# Folders of tests that use no database or their own servers, and of permissions, which do not depend on it.
WITHOUT_DATABASE = (
    *("architecture", "browser", "chaos", "conformance", "fuzz", "interop", "process", "requirements"),
    *("typed", "wire", "integration/calls", "integration/http", "integration/oauth", "integration/roles"),
    *("unit/connect", "unit/contrib", "unit/egress", "unit/interface", "unit/metrics", "unit/observability"),
    *("unit/protocol", "unit/streams", "unit/templatetags", "unit/threads"),
)
QUIET = ("-q", "-v", "ON_ERROR_STOP=1")
HOMES = ("/usr/lib/postgresql", "/usr/local/opt", "/opt/homebrew/opt")
MISSING = (
    "No PostgreSQL binaries on this machine (initdb and postgres, on PATH or under /usr/lib/postgresql). "
    "Install the package postgresql; nothing was tested."
)


def binaries() -> Path | None:
    """Return the folder of ``initdb`` and ``postgres`` with the newest version, or None."""
    found = [path.parent for home in HOMES for path in Path(home).glob("*/bin/initdb")]
    found.sort(
        key=lambda path: [int(part) for part in path.parent.name.split(".") if part.isdigit()], reverse=True
    )
    if on_path := shutil.which("initdb"):
        found.append(Path(on_path).resolve().parent)
    return next((path for path in found if (path / "postgres").exists()), None)


class PostgreSQL:
    """A cluster in a temporary folder, reachable only by a Unix socket. It never runs as root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """DATABASE_URL of the database ``mcp``."""
        return f"postgresql://mcp@/mcp?host={self.folder}"

    def __enter__(self) -> Self:
        home = binaries()
        assert home is not None, MISSING
        if os.geteuid() == 0:
            account = _unprivileged()
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self.folder.chmod(0o700)
        data = self.folder / "data"
        self._run(
            home / "initdb",
            "-D",
            data,
            "-U",
            "mcp",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale",
            "C",
            "--no-sync",
        )
        self.start()
        self._run(home / "createdb", "-h", self.folder, "-U", "mcp", "mcp")
        return self

    def start(self) -> None:
        """Start the server of the existing cluster and wait until it responds."""
        home, data = binaries(), self.folder / "data"
        assert home is not None, MISSING
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.folder), "fsync": "off"}
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        log = self.folder / "postgres.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*as_unprivileged(), str(home / "postgres"), "-D", str(data), *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        ready = [str(home / "pg_isready"), "-q", "-h", str(self.folder), "-U", "mcp"]
        for _ in range(300):
            if subprocess.run(ready, check=False, timeout=60).returncode == 0:
                break
            assert self._process.poll() is None, log.read_text()

    def create_tables(self) -> None:
        """Create the tables of the project from a dump that is made once for all processes of all suites."""
        home = binaries()
        assert home is not None, MISSING
        dump = kept(ROOT, f"{digest_of(ROOT)}-{home.parent.name}", lambda: self._dump(home))
        self._run(home / "psql", *QUIET, "-h", self.folder, "-U", "mcp", "mcp", typed=dump)

    def _dump(self, home: Path) -> bytes:
        _migrate({**os.environ, "DATABASE_URL": self.url}, BASE)
        self._run(home / "pg_dump", "-h", self.folder, "-U", "mcp", "-f", self.folder / "dump.sql", "mcp")
        self.drop_tables()
        return (self.folder / "dump.sql").read_bytes()

    def drop_tables(self) -> None:
        """Leave an empty database."""
        home = binaries()
        assert home is not None, MISSING
        code = "DROP SCHEMA public CASCADE; CREATE SCHEMA public"
        self._run(home / "psql", *QUIET, "-h", self.folder, "-U", "mcp", "-c", code, "mcp")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the server and close all connections. ``start`` starts it again."""
        if self._process is not None and self._process.poll() is None:
            # INT is PostgreSQL's fast shutdown: it closes open connections instead of waiting for them. It is
            # sent to the postmaster, whose id is in its own pid file.
            os.kill(self._postmaster, signal.SIGINT)
            self._process.wait(30)

    @property
    def _postmaster(self) -> int:
        return int((self.folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0])

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspend all server processes inside the block: connections stay open without responses."""
        postmaster = psutil.Process(self._postmaster)
        stopped = [postmaster]
        postmaster.suspend()  # First, so that it forks no more processes.
        stopped += postmaster.children(recursive=True)
        for each in stopped[1:]:
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        try:
            yield
        finally:
            for each in reversed(stopped):
                with suppress(psutil.NoSuchProcess):
                    each.resume()
            if self._process is not None:
                # runuser stops with its child but does not resume with it.
                self._process.send_signal(signal.SIGCONT)

    def _run(self, *command: object, typed: bytes | None = None) -> None:
        done = subprocess.run(
            [*as_unprivileged(), *map(str, command)],
            check=False, cwd=self.folder, capture_output=True, input=typed, timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr).decode()


def _unprivileged() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def as_unprivileged() -> list[str]:
    """Return a command prefix for an unprivileged user: PostgreSQL refuses to run as root."""
    return ["runuser", "-u", _unprivileged().pw_name, "--"] if os.geteuid() == 0 else []


def _migrate(environment: dict[str, str], settings: str) -> None:
    named = {"PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": settings}
    # -P: the program's folder has modules with conflicting names and must not be on the path.
    command = [sys.executable, "-P", str(ROOT / "tests" / "samples" / "migrated.py")]
    subprocess.run(command, cwd=ROOT, env={**environment, **named}, check=True)


def main(arguments: list[str]) -> int:
    """Run the database tests and return pytest's exit code, 1 without PostgreSQL."""
    if binaries() is None:
        print(MISSING, file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="mcp-pg-"))
    try:
        with PostgreSQL(folder) as database:
            environment = {**os.environ, "TEST_DATABASE_URL": database.url}
            # Once; the database of each test process is a copy.
            database.create_tables()
            _migrate(environment, "tests.settings")
            command = [sys.executable, "-m", "pytest", "-p", "tests.plugins.database_only"]
            command += ["-n", "2", "--dist", "loadfile"]
            command += [f"--ignore=tests/{folder}" for folder in WITHOUT_DATABASE] + arguments
            return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
