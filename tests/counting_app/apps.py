"""The Django app that records SQL statements."""

from __future__ import annotations

import os
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created


class CountingConfig(AppConfig):
    """An app whose entries are discovered like any other's."""

    name = "tests.counting_app"
    label = "counting_app"

    def ready(self) -> None:
        """Record the statements of every connection of this process."""
        path = settings.DATA_DIR / "statements"
        written = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

        def write_down(execute: Any, sql: str, *more: Any) -> Any:
            # One write, so that lines of several processes do not interleave.
            os.write(written, f"{' '.join(sql.split())[:160]}\n".encode())
            return execute(sql, *more)

        def watch(connection: Any, **_: Any) -> None:
            # A closed connection reopens with its wrappers.
            if write_down not in connection.execute_wrappers:
                connection.execute_wrappers.append(write_down)

        connection_created.connect(watch, weak=False)
