"""The installations of stdio servers in these tests: a running one and a stopped one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests import wire
from tests.clients.stdio_child import ROOT
from tests.samples.migrated import migrated
from tests.servers.live import LiveServer
from tests.servers.warm import Installation


@pytest.fixture(scope="package")
def live() -> Iterator[LiveServer]:
    """Return a running installation with a worker; stdio servers are started beside it."""
    with LiveServer(1, settings="tests.interop.settings", worker=True) as server:
        yield server
        assert not server.trouble(), server.logs()[-4000:]


@pytest.fixture(scope="package")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Return a stopped installation: no Redis, no worker."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "VIRTUAL_ENV") if name in os.environ}
    folder = tmp_path_factory.mktemp("alone")
    named = {"DATA_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "tests.interop.settings"}
    (folder / "db.sqlite3").write_bytes(migrated(ROOT, "tests.interop.settings"))
    with closing(Installation(ROOT, {**kept, **named, **wire.environment()})) as found:
        status, _, errors = found.run("manage.py", "prepare")
        assert status == 0, errors
        yield found
